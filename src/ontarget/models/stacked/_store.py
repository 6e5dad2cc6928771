"""Converts the models of a stacked forest to flat arrays, and reads and checks these again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray
from ontarget.models._stored import flat_array, require
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._store import table_from_arrays, table_to_arrays
from ontarget.models.guided._boosting_kernel import BoostedGuide
from ontarget.models.guided._guides_kernel import Guides, count_guides
from ontarget.models.guided._ridge_kernel import LinearGuide
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays, width_of
from ontarget.models.ranked._columns_kernel import Columns
from ontarget.models.regression._law_kernel import Regression
from ontarget.models.regression._store import regression_from_arrays, regression_to_arrays
from ontarget.models.stacked._shift import NO_SHIFT, shift_from_arrays, shift_to_arrays
from ontarget.models.stacked._stack_kernel import FOREST, LINEAR, SECOND, SHIFT, Stack

# The prefix of each forest's arrays in a file, its field, and its place.
_FORESTS = (("small", "forest", FOREST), ("large", "second", SECOND))
# What both forests share: they learned from the same rows.
_SHARED = ("support", "atoms", "tail", "row_start")


def stack_to_arrays(stack: Stack) -> dict[str, AnyArray]:
    """The models of a stacked forest as flat read-only arrays; models of weight 0 are left out."""
    found: dict[str, AnyArray] = {"weights": stack.weights, **guides_to_arrays(stack.guides)}
    for name, field, at in _FORESTS:
        if stack.weights[at] > 0.0:
            arrays = table_to_arrays(getattr(stack, field))
            found |= {one: arrays.pop(one) for one in _SHARED}
            found |= {f"{name}_{one}": array for one, array in arrays.items()}
    if stack.weights[SHIFT] > 0.0:
        found |= shift_to_arrays(stack.shift)
        found |= {f"spread_{one}": array for one, array in guides_to_arrays(stack.spread).items()}
    if stack.weights[LINEAR] > 0.0:
        found |= regression_to_arrays(stack.linear)
    return found


def stack_from_arrays(arrays: Mapping[str, AnyArray]) -> Stack:
    """The models of a stacked forest in these arrays, after checking that indices are in bounds."""
    weights = flat_array(arrays, "weights", np.float64)
    require(weights.size == 4, "weights needs four numbers, one per expert")
    right = bool(((weights >= 0.0) & (weights <= 1.0)).all()) and abs(weights.sum() - 1.0) < 1e-9
    require(right, "weights needs numbers from 0 up that sum to 1")
    require(
        weights[FOREST] + weights[SECOND] > 0.0,
        "weights needs a number above 0 for at least one of the two forests",
    )
    guides = guides_from_arrays(arrays)
    width = width_of(guides)
    forests = {
        field: table_from_arrays(_own(arrays, name) | _shared(arrays))
        for name, field, at in _FORESTS
        if weights[at] > 0.0
    }
    for forest in forests.values():
        whole = forest.bins.categorical.size == width + count_guides(guides)
        require(whole, "the forests of a stacked forest need to read the features and the guides")
    some = next(iter(forests.values()))
    shift, spread = NO_SHIFT, no_guides()
    if weights[SHIFT] > 0.0:
        shift, spread = shift_from_arrays(arrays), guides_from_arrays(_own(arrays, "spread"))
        require(shift.units.size > 0, "shift_units needs numbers if the shift has a weight")
        alike = (width_of(spread), count_guides(spread)) == (width, count_guides(guides))
        require(alike, "the guides of location and spread need the same features and parts")
    linear = no_regression()
    if weights[LINEAR] > 0.0:
        linear = regression_from_arrays(arrays)
        require(
            linear.columns.start.size - 1 == width,
            "the regression and the guides need the same features",
        )
    none = no_forest(some)
    return Stack(
        guides=guides,
        spread=spread,
        forest=forests.get("forest", none),
        second=forests.get("second", none),
        shift=shift,
        linear=linear,
        weights=weights,
    )


def no_forest(like: ForestTable) -> ForestTable:
    """A forest without trees, whose arrays have the same types as those of ``like``.

    With equal types, kernels are compiled only once.
    """

    def emptied(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return read_only(np.empty(0, dtype=part.dtype))
        parts = [emptied(one) for one in part]
        return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)

    empty: ForestTable = emptied(like)
    return empty


def no_guides() -> Guides:
    """Guides (models that predict the mean) with empty arrays, which are not used."""
    floats, whole, flags, codes = (_none(kind) for kind in (np.float64, np.int64, "?", np.uint16))
    bins = BinTable(floats, whole, flags, codes)
    return Guides(LinearGuide(floats, whole, floats, floats), BoostedGuide(bins, whole, floats))


def no_regression() -> Regression:
    """A regression with empty arrays, which is not used."""
    floats, whole, flags, small = (_none(kind) for kind in (np.float64, np.int64, "?", np.float32))
    columns = Columns(whole, flags, floats, floats, whole, floats)
    return Regression(columns, floats, small, floats, (floats, flags, floats))


def _none(kind: Any) -> Any:
    return read_only(np.empty(0, dtype=kind))


def _own(arrays: Mapping[str, AnyArray], name: str) -> dict[str, AnyArray]:
    """The arrays whose names begin with ``name`` and an underscore, without this prefix."""
    start = f"{name}_"
    return {one[len(start) :]: array for one, array in arrays.items() if one.startswith(start)}


def _shared(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name: arrays[name] for name in _SHARED if name in arrays}
