"""A distribution regression as flat arrays: written out, read back and checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._typing import AnyArray
from ontarget.models._stored import flat_array, partitions, require
from ontarget.models._support import Support
from ontarget.models.base import LARGEST_OUTCOME
from ontarget.models.regression._law_kernel import GLOBALS, WIDTH, Columns, Regression

__all__ = ["regression_from_arrays", "regression_to_arrays"]

# So that a model with other parts can hold these arrays beside theirs.
_PREFIX = "regression_"
# Effects of standardised columns are small; beyond this a sum may overflow.
_LARGEST_EFFECT = 1e100
# The logit of a share of rows: e^100 rows there never are.
_LARGEST_LEVEL = 100.0


def regression_to_arrays(model: Regression) -> dict[str, AnyArray]:
    """The regression as flat read-only arrays by name; all names begin with ``regression_``."""
    own = {"effects": model.effects, "levels": model.levels, "mass": model.mass}
    arrays = model.columns._asdict() | own | Support(*model.support).to_arrays()
    return {_PREFIX + name: array for name, array in arrays.items()}


def regression_from_arrays(arrays: Mapping[str, AnyArray]) -> Regression:
    """The regression that gave these, once every index in them is known to be in bounds."""
    types = (np.int64, np.bool_, np.float64, np.float64, np.int64, np.float64)
    columns = Columns(
        *(flat_array(arrays, _PREFIX + n, t) for n, t in zip(Columns._fields, types, strict=True))
    )
    names = [name for name in arrays if name.startswith(_PREFIX)]
    support = Support.from_arrays({name.removeprefix(_PREFIX): arrays[name] for name in names})
    model = Regression(
        columns=columns,
        effects=flat_array(arrays, _PREFIX + "effects", np.float64),
        levels=flat_array(arrays, _PREFIX + "levels", np.float32),
        mass=flat_array(arrays, _PREFIX + "mass", np.float64),
        support=support.as_tuple(),
    )
    _check_columns(columns)
    _check_law(model)
    return model


def _check_columns(columns: Columns) -> None:
    start, codes = columns.start, columns.codes
    require(
        start.size > 1 and partitions(start, codes.size),
        "regression_start needs to rise from 0 to the number of columns",
    )
    n_features = start.size - 1
    require(columns.categorical.size == n_features, "regression_categorical needs one per feature")
    known = columns.time.size == 1 and -1 <= columns.time[0] < n_features
    require(bool(known), "regression_time needs one feature, or -1")
    widths, is_time = np.diff(start), np.arange(n_features) == columns.time[0]
    whole = np.where(columns.categorical, widths >= 1, widths == 2)
    require(
        bool(np.where(is_time, widths == 0, whole).all()),
        "regression_start needs two columns for a number, and one more than a feature's categories",
    )
    is_code = np.repeat(columns.categorical, widths)
    is_code[start[1:][widths > 0] - 1] = False  # where a feature is missing
    rising = (codes[1:] > codes[:-1]) | ~(is_code[1:] & is_code[:-1])
    require(bool(np.isfinite(codes).all() and rising.all()), "regression_codes need to rise")
    places = columns.location
    numbers = places.size == 2 * n_features and np.isfinite(places).all()
    require(
        bool(numbers and (places[1::2] >= 0.0).all()),
        "regression_location needs a centre and a number from 0 up for each feature",
    )
    clock = columns.clock
    small = clock.size == 2 and (np.abs(clock) <= LARGEST_OUTCOME).all()
    require(
        bool(small and (columns.time[0] < 0 or clock[0] < clock[1])),
        "regression_clock needs a first and a later last step",
    )


def _check_law(model: Regression) -> None:
    n_effects = GLOBALS + WIDTH * model.columns.codes.size
    require(model.effects.size == n_effects, f"regression_effects need {n_effects} numbers")
    small = bool((np.abs(model.effects) <= _LARGEST_EFFECT).all())  # NaN is not
    require(small, f"regression_effects need numbers up to {_LARGEST_EFFECT:g} in size")
    n_values, mass = model.support[0].size, model.mass
    rising = mass.size == n_values + 1 and mass[0] == 0.0 and mass[-1] == 1.0
    rising = rising and bool((mass[1:] >= mass[:-1]).all())
    require(bool(rising), "regression_mass needs to rise from 0 to 1, once more than the support")
    n_cuts, levels = n_values - 1, model.levels
    whole = levels.size > 0 and levels.size % n_cuts == 0 if n_cuts else levels.size == 0
    require(bool(whole), "regression_levels need one number per node and cut")
    by_node = levels.reshape(-1, max(1, n_cuts))
    require(
        bool(
            (np.abs(levels) <= _LARGEST_LEVEL).all() and (by_node[:, 1:] >= by_node[:, :-1]).all()
        ),
        f"regression_levels need to rise at each node, up to {_LARGEST_LEVEL:g} in size",
    )
