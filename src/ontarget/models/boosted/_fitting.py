"""Fits boosted quantiles: a location and a spread for each row, and one shape for all rows.

Location, spread and shape are those of the outcome's rank, which is the share of the training
outcomes around the same step that are lower (methods M15 and M27 in docs/methods.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ontarget._keyed import keyed_uniform
from ontarget._readonly import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.models._stored import require
from ontarget.models.base import TrainingRows
from ontarget.models.guided._guides import GuidePlan, fit_guides, folds_of_guides
from ontarget.models.guided._guides_kernel import Guides, append_guides_of_rows
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays, width_of
from ontarget.models.ranked._law_kernel import RankedOutcomes
from ontarget.models.ranked._levels import row_keys
from ontarget.models.ranked._ranks import Ranked, learned_ranks
from ontarget.models.stacked._shift import (
    NO_SHIFT,
    learned_shift,
    shift_from_arrays,
    shift_to_arrays,
    spread_around_mean,
)
from ontarget.models.stacked._shift_kernel import ShiftTable, shifts_of_guides

__all__ = [
    "Boosted",
    "FittedBoosted",
    "boosted_from_arrays",
    "boosted_to_arrays",
    "fit_boosted",
    "knots_of_rows",
]

# Ranks are log odds, so theirs are small; beyond this a knot may be no number.
_LARGEST = 1e6


class Boosted(NamedTuple):
    """A model that predicts where and how widely to place one shape of distribution for each row.

    ``location`` and ``spread`` predict how far to shift and to stretch the shape; each is made of a
    ridge regression and boosted trees. ``shift`` holds the shape, which is the same for all rows,
    as quantiles at fixed levels. If ``shift.units`` is an empty array, nothing was learned, and
    every row gets the distribution of the training outcomes around its step.
    """

    location: Guides
    spread: Guides
    shift: ShiftTable


class FittedBoosted(NamedTuple):
    """The model for new rows and, per fold (part of the episodes), a model fitted without it."""

    ranks: RankedOutcomes
    model: Boosted
    without: tuple[tuple[RankedOutcomes, Boosted], ...]
    fold: IndexArray  # of each episode


def fit_boosted(rows: TrainingRows, plan: GuidePlan, categorical: Collection[int]) -> FittedBoosted:
    """The model of all rows and, per fold (part of the episodes), a model fitted without the fold.

    The rows must be sorted by outcome (`in_canonical_order`). If they have no ids, every row is an
    episode. The rank of an outcome is the share of the training outcomes around the same step that
    are lower. The shape is the distribution of (rank − location) / spread over all rows, where
    location and spread are predicted by models that have not learned from the row.
    """
    if not rows.has_ids:
        rows = replace(rows, episodes=rows.units, has_ids=True)
    n_episodes = int(rows.episodes.max()) + 1
    fold = folds_of_guides(n_episodes, plan)
    ranked = learned_ranks(rows, fold if n_episodes > 1 else np.full(1, -1))
    drawn = replace(rows, y=_drawn_ranks(rows, ranked, plan.seed))
    location, of_fold = fit_guides(drawn, plan, categorical)
    told = of_fold.guide_rows(rows.X, rows.episodes)[:, -1]
    mean, unit = spread_around_mean(drawn.y)
    distance = np.abs(drawn.y - (mean + unit * told))
    spread, spread_of_fold = fit_guides(replace(rows, y=distance), plan, categorical)
    scale = spread_of_fold.guide_rows(rows.X, rows.episodes)[:, -1]
    # One outcome alone has nothing to tell apart, whatever was drawn.
    several = ranked.table.support[0].size > 1
    shift = learned_shift(drawn, told, scale, atoms=False) if several else None
    shift = NO_SHIFT if shift is None else _at_knots(shift, ranked.table.odds)
    models = (
        Boosted(*guides, shift)
        for guides in zip(of_fold.without, spread_of_fold.without, strict=True)
    )
    return FittedBoosted(
        ranked.table,
        Boosted(location, spread, shift),
        tuple(zip(ranked.without, models, strict=False)),
        fold,
    )


def knots_of_rows(model: Boosted, ranks: RankedOutcomes, rows: FloatArray) -> FloatArray:
    """(rows, levels): the predicted quantiles (*knots*) of the rank of each row's outcome.

    The rank is the share of the training outcomes around the same step that are lower, as log odds.
    The quantiles of a row are those of the common shape, times the row's spread, plus its location.
    """
    if not model.shift.units.size:
        return np.tile(ranks.odds, (rows.shape[0], 1))
    places = np.empty((rows.shape[0], 2))
    told = _last_guide(model.location, rows), _last_guide(model.spread, rows)
    shifts_of_guides(model.shift, *told, places)
    knots: FloatArray = places[:, :1] + places[:, 1:] * model.shift.shape
    return knots


def _at_knots(shift: ShiftTable, odds: FloatArray) -> ShiftTable:
    """The shift, with its shape (one distribution for all rows) stored at fewer levels.

    These are the levels of the *knots* (the quantiles that are predicted for a row). ``odds`` holds
    them as log odds.
    """
    levels, even = 1.0 / (1.0 + np.exp(-odds)), np.linspace(0.0, 1.0, shift.shape.size)
    return shift._replace(shape=read_only(np.interp(levels, even, shift.shape)))


def boosted_to_arrays(model: Boosted) -> dict[str, AnyArray]:
    """The model as flat read-only arrays by name."""
    spread = {f"spread_{name}": one for name, one in guides_to_arrays(model.spread).items()}
    return guides_to_arrays(model.location) | spread | shift_to_arrays(model.shift)


def boosted_from_arrays(arrays: Mapping[str, AnyArray], n_knots: int) -> tuple[Boosted, int]:
    """The model in these arrays, after checks, and the number of features that it reads."""
    location = guides_from_arrays(arrays)
    own = {n.removeprefix("spread_"): a for n, a in arrays.items() if n.startswith("spread_")}
    spread, shift = guides_from_arrays(own), shift_from_arrays(arrays)
    width = width_of(location)
    require(
        width[1] == 2, "boosted quantiles need both guides, a ridge regression and boosted trees"
    )
    require(width_of(spread) == width, "the models of location and spread need the same features")
    whole = shift.values.size == 0 and shift.shape.size in (0, n_knots)
    require(
        whole, "boosted quantiles need one number of shift_shape per level, and no shift_values"
    )
    small = all((np.abs(part) <= _LARGEST).all() for part in (shift.units, shift.shape))
    require(bool(small), f"shift_units and shift_shape need numbers up to {_LARGEST:g} in size")
    return Boosted(location, spread, shift), width[0]


def _drawn_ranks(rows: TrainingRows, ranked: Ranked, seed: tuple[int, ...]) -> FloatArray:
    """The rank of each row's outcome among the outcomes around the same step, as log odds.

    The rank is the share of these outcomes that are lower. An outcome shared by several rows covers
    a range of ranks; a rank in this range is drawn, by a hash of the row.
    """
    within = keyed_uniform(row_keys(rows), seed[0], *seed[1:], "rank")
    rank = ranked.low + within * (ranked.high - ranked.low)
    odds: FloatArray = np.log(rank / (1.0 - rank))
    return odds


def _last_guide(guides: Guides, rows: FloatArray) -> FloatArray:
    """For each row, the sum of the predictions of the ridge regression and the boosted trees."""
    guided = np.empty((rows.shape[0], rows.shape[1] + 2))
    append_guides_of_rows(guides, rows, guided)
    return guided[:, -1].copy()
