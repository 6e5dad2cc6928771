"""Chooses which effects (coefficients) a distribution regression fits."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import BoolArray, IndexArray
from ontarget.models.base import TrainingRows
from ontarget.models.ranked._columns import columns_of
from ontarget.models.ranked._columns_kernel import Columns
from ontarget.models.regression._law_kernel import GLOBALS, WIDTH

# Beyond this many effects, interactions and squares are left out, the less useful ones first.
_MOST_EFFECTS = 80


class Encoding(NamedTuple):
    """The input columns of some training rows, and the effects (coefficients) to fit for them."""

    columns: Columns
    active: IndexArray  # places among all effects, ascending
    is_main: BoolArray  # of the active ones: a feature itself or a slope of z, no interaction


def choose_columns(
    rows: TrainingRows, categorical: Collection[int], *, several_cuts: bool
) -> Encoding:
    """The input columns for these rows, and which effects (coefficients) to fit.

    ``several_cuts`` is false if there are only two distinct outcomes, and so only one threshold.
    Then no effect depends on the threshold, and the model is a plain logistic regression.
    """
    columns, given = columns_of(rows, categorical)
    return Encoding(columns, *_effects(columns, given, several_cuts))


def _effects(
    columns: Columns, given: IndexArray, several_cuts: bool
) -> tuple[IndexArray, BoolArray]:
    """The indices of the effects (coefficients) to fit, and which of these are main effects.

    Squares and interactions are added, the most useful first, up to 80 effects in total.
    """
    has_time = bool(columns.time[0] >= 0)
    spline, slopes = range(1, 4) if has_time else (), range(4, 8) if several_cuts else ()
    changing = range(8, 10) if has_time and several_cuts else ()
    is_number = np.zeros(columns.codes.size, dtype=np.bool_)
    numbers = np.flatnonzero(~columns.categorical & (np.diff(columns.start) > 0))
    is_number[columns.start[numbers]] = True
    own = GLOBALS + WIDTH * given
    groups = [own + 1] if several_cuts else []
    groups += [own + 2] if has_time else []
    groups += [own[is_number[given]] + 3]
    groups += [own + 4, own + 5] if has_time else []
    chosen = [np.array([0, *spline, *slopes, *changing]), own]
    for group in groups:
        if sum(part.size for part in chosen) + group.size <= _MOST_EFFECTS:
            chosen.append(group)
    active = np.sort(np.concatenate(chosen))
    return read_only(active), np.isin(active, [*slopes, *own])
