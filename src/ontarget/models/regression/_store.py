"""Converts a distribution regression to flat arrays, and reads and checks them again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._typing import AnyArray
from ontarget.models._stored import flat_array, require
from ontarget.models._support import Support
from ontarget.models.ranked._columns import columns_from_arrays
from ontarget.models.regression._law_kernel import GLOBALS, WIDTH, Regression

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
    """The regression in these arrays, after checking that every index is in bounds."""
    columns = columns_from_arrays(arrays, _PREFIX)
    names = [name for name in arrays if name.startswith(_PREFIX)]
    support = Support.from_arrays({name.removeprefix(_PREFIX): arrays[name] for name in names})
    model = Regression(
        columns=columns,
        effects=flat_array(arrays, _PREFIX + "effects", np.float64),
        levels=flat_array(arrays, _PREFIX + "levels", np.float32),
        mass=flat_array(arrays, _PREFIX + "mass", np.float64),
        support=support.as_tuple(),
    )
    _check_law(model)
    return model


def _check_law(model: Regression) -> None:
    n_effects = GLOBALS + WIDTH * model.columns.codes.size
    require(model.effects.size == n_effects, f"regression_effects needs {n_effects} numbers")
    small = bool((np.abs(model.effects) <= _LARGEST_EFFECT).all())  # NaN is not
    require(small, f"regression_effects needs numbers up to {_LARGEST_EFFECT:g} in size")
    n_values, mass = model.support[0].size, model.mass
    rising = mass.size == n_values + 1 and mass[0] == 0.0 and mass[-1] == 1.0
    rising = rising and bool((mass[1:] >= mass[:-1]).all())
    require(
        bool(rising),
        "regression_mass needs to rise from 0 to 1, with one number more than regression_support",
    )
    n_cuts, levels = n_values - 1, model.levels
    whole = levels.size > 0 and levels.size % n_cuts == 0 if n_cuts else levels.size == 0
    require(
        bool(whole), "regression_levels needs one number per stored time and cut between outcomes"
    )
    by_node = levels.reshape(-1, max(1, n_cuts))
    require(
        bool(
            (np.abs(levels) <= _LARGEST_LEVEL).all() and (by_node[:, 1:] >= by_node[:, :-1]).all()
        ),
        f"regression_levels need to rise at each stored time, at most {_LARGEST_LEVEL:g} in size",
    )
