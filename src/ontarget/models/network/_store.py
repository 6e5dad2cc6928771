"""Converts networks to flat arrays for a model file, and reads and checks them again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._typing import AnyArray
from ontarget.models._stored import flat_array, require
from ontarget.models.network._network_kernel import TIMES, Networks
from ontarget.models.ranked._columns import columns_from_arrays

_PREFIX = "network_"
# Inputs are standardised, so weights are small; far beyond this a sum may overflow.
LARGEST_WEIGHT = 1e4
# Wider than any that trains in reasonable time; with it, sums stay far below what float32 holds.
_WIDEST = 4096
_WEIGHTS = ("first", "first_bias", "second", "second_bias", "head")


def networks_to_arrays(model: Networks) -> dict[str, AnyArray]:
    """The networks as flat read-only arrays by name; all names begin with ``network_``."""
    arrays = model.columns._asdict() | {name: getattr(model, name) for name in _WEIGHTS}
    return {_PREFIX + name: array for name, array in arrays.items()}


def networks_from_arrays(arrays: Mapping[str, AnyArray], n_knots: int) -> Networks:
    """The networks in these arrays, after checking that every index is in bounds."""
    columns = columns_from_arrays(arrays, _PREFIX)
    weights = {name: flat_array(arrays, _PREFIX + name, np.float32) for name in _WEIGHTS}
    for name, values in weights.items():
        small = bool((np.abs(values) <= LARGEST_WEIGHT).all())  # NaN is not
        require(small, f"network_{name} needs numbers up to {LARGEST_WEIGHT:g} in size")
    # Whole numbers of Python, which never wrap around.
    sizes = {name: int(values.size) for name, values in weights.items()}
    total = sizes["first_bias"]
    width = sizes["second"] // total if total else 0
    require(
        1 <= width <= _WIDEST and total % width == 0,
        "network_second needs whole square matrices, one per network",
    )
    n_networks, n_inputs = total // width, int(columns.codes.size) + TIMES
    wanted = {
        "first": n_networks * n_inputs * width,
        "first_bias": total,
        "second": n_networks * width * width,
        "second_bias": total,
        "head": n_networks * (width + n_inputs + 1) * n_knots,
    }
    for name, size in wanted.items():
        require(sizes[name] == size, f"network_{name} needs {size} numbers, got {sizes[name]}")
    return Networks(columns, **weights)
