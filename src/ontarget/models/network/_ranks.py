"""The training outcomes around each step: learned from rows, stored as arrays, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.models._stored import flat_array, require
from ontarget.models._support import Support
from ontarget.models.base import TrainingRows
from ontarget.models.network._law_kernel import RankedOutcomes
from ontarget.models.ranked._columns import time_feature
from ontarget.models.ranked._levels import cut_outcomes, levels_by_node

# Continuous outcomes are cut at so many quantiles, and levels kept at so many nodes.
_MOST_VALUES, _MOST_NODES = 2000, 64
# A row has so many knots.
_KNOTS = 64
# The logit of a share of rows: e^100 rows there never are.
_LARGEST_LEVEL = 100.0


class Ranked(NamedTuple):
    """The training outcomes, and the rank of each row among the outcomes around its step.

    A rank is the share of these outcomes that are lower. An outcome shared by several rows covers a
    range of ranks, so a row has the ranks from ``low`` to ``high``. ``table`` holds the
    distribution of the outcomes around each step, from all rows. ``without`` holds, for each part
    (fold) of the episodes, the same table without this part.
    """

    table: RankedOutcomes
    without: tuple[RankedOutcomes, ...]
    low: FloatArray
    high: FloatArray
    weight: FloatArray  # the mean row weighs 1


def learned_ranks(rows: TrainingRows, fold: IndexArray) -> Ranked:
    """The outcomes of training rows, and the rank of each row among those around its step.

    A rank is the share of the outcomes around the same step that are lower. The rows must be sorted
    by outcome (`in_canonical_order`). ``fold`` is the fold (part held out together) of each
    episode; -1 for an episode in no fold.
    """
    outcomes, time = cut_outcomes(rows, _MOST_VALUES), time_feature(rows)
    at = rows.X[:, time] if time >= 0 else np.zeros(rows.y.size)
    clock = np.array([at.min(), at.max()])
    times = (at - clock[0]) / (clock[1] - clock[0]) if time >= 0 else at
    levels = levels_by_node(rows, times, outcomes, fold, most_nodes=_MOST_NODES)
    table = RankedOutcomes(
        time=read_only(np.array([time], dtype=np.int64)),
        clock=read_only(clock),
        levels=read_only(levels[-1].flatten()),
        mass=outcomes.mass,
        support=outcomes.support.as_tuple(),
        odds=read_only(_odds(_KNOTS)),
    )
    without = (table._replace(levels=read_only(one.flatten())) for one in levels[:-1])
    low, high = (_shares(levels[-1], times, outcomes.ranks + k) for k in (0, 1))
    # As log odds, no rank may be infinite.
    least = 0.25 / rows.y.size
    low, high = np.maximum(low, least), np.minimum(high, 1.0 - least)
    return Ranked(table, tuple(without), low, high, outcomes.weight)


def _odds(n_knots: int) -> FloatArray:
    """The levels of a row's quantiles (its *knots*), as log odds.

    The levels are the middles of ``n_knots`` equal parts of (0, 1).
    """
    levels = (np.arange(n_knots) + 0.5) / n_knots
    odds: FloatArray = np.log(levels / (1.0 - levels))
    return odds


def _shares(levels: AnyArray, times: FloatArray, cuts: IndexArray) -> FloatArray:
    """The share of outcomes, around each row's step, that are before the row's cut.

    ``levels`` holds this share as log odds, (nodes, cuts). A *cut* k divides the sorted distinct
    outcomes into the first k and the rest; a *node* is one of the evenly spaced times at which
    levels are stored. ``times`` are the rows' times, from 0 to 1.
    """
    n_nodes, n_cuts = levels.shape
    shares = np.zeros((n_nodes, n_cuts + 2))
    shares[:, -1] = 1.0
    place = times * (n_nodes - 1)
    node = np.clip(place.astype(np.intp), 0, max(n_nodes - 2, 0))
    weight, after = place - node, np.minimum(node + 1, n_nodes - 1)
    shares[:, 1:-1] = levels
    inner = (cuts > 0) & (cuts <= n_cuts)
    level = (1.0 - weight) * shares[node, cuts] + weight * shares[after, cuts]
    found: FloatArray = np.where(inner, 1.0 / (1.0 + np.exp(-level)), shares[0, cuts])
    return found


def ranks_to_arrays(table: RankedOutcomes) -> dict[str, AnyArray]:
    """The training outcomes around each step as flat read-only arrays by name.

    All names but those of the outcomes themselves (the support) begin with ``rank_``.
    """
    own = {name: getattr(table, name) for name in ("time", "clock", "levels", "mass", "odds")}
    arrays = {f"rank_{name}": array for name, array in own.items()}
    return arrays | Support(*table.support).to_arrays()


def ranks_from_arrays(arrays: Mapping[str, AnyArray]) -> RankedOutcomes:
    """The table of the training outcomes around each step, from these arrays, after checks.

    Call `check_time` too, once the number of features is known.
    """
    table = RankedOutcomes(
        time=flat_array(arrays, "rank_time", np.int64),
        clock=flat_array(arrays, "rank_clock", np.float64),
        levels=flat_array(arrays, "rank_levels", np.float32),
        mass=flat_array(arrays, "rank_mass", np.float64),
        support=Support.from_arrays(arrays).as_tuple(),
        odds=flat_array(arrays, "rank_odds", np.float64),
    )
    time, clock, mass, odds = table.time, table.clock, table.mass, table.odds
    require(time.size == 1, "rank_time needs one number")
    small = clock.size == 2 and (np.abs(clock) <= LARGEST_OUTCOME).all()
    require(
        bool(small and (time[0] < 0 or clock[0] < clock[1])),
        "rank_clock needs a first step and a later last step",
    )
    n_values = table.support[0].size
    rising = mass.size == n_values + 1 and mass[0] == 0.0 and mass[-1] == 1.0
    rising = rising and bool((mass[1:] >= mass[:-1]).all())
    require(bool(rising), "rank_mass needs to rise from 0 to 1, with one number more than support")
    _check_levels(table.levels, n_values - 1)
    rising = odds.size >= 2 and bool((np.abs(odds) <= _LARGEST_LEVEL).all())
    require(
        rising and bool((odds[1:] > odds[:-1]).all()),
        f"rank_odds needs at least two rising numbers, at most {_LARGEST_LEVEL:g} in size",
    )
    return table


def check_time(table: RankedOutcomes, n_features: int) -> None:
    """Raise a `ModelFileError` unless the feature that is said to hold the step exists."""
    require(bool(-1 <= table.time[0] < n_features), "rank_time needs a feature that exists, or -1")


def _check_levels(levels: AnyArray, n_cuts: int) -> None:
    whole = levels.size > 0 and levels.size % n_cuts == 0 if n_cuts else levels.size == 0
    require(bool(whole), "rank_levels needs one number per stored time and cut between outcomes")
    by_node = levels.reshape(-1, max(1, n_cuts))
    rising = (np.abs(levels) <= _LARGEST_LEVEL).all() and (by_node[:, 1:] >= by_node[:, :-1]).all()
    require(
        bool(rising),
        f"rank_levels need to rise at each stored time, at most {_LARGEST_LEVEL:g} in size",
    )
