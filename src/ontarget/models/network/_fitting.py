"""Fits quantile networks: ranks around each step, and networks that predict a row's rank."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._keyed import keyed_hash, keys_of
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray
from ontarget.models._ranked import (
    LARGEST_LEVEL,
    check_law,
    columns_of,
    cut_outcomes,
    folds_of,
    levels_by_node,
    time_feature,
)
from ontarget.models._support import Support
from ontarget.models.base import TrainingRows
from ontarget.models.network._kernel import TIMES, Networks, RankedOutcomes, inputs_of_rows
from ontarget.models.network._training import Examples, TrainingRules, Weights, train
from ontarget.models.stored import flat_array, require

# Continuous outcomes are cut at so many quantiles, and levels kept at so many nodes.
_MOST_VALUES, _MOST_NODES = 2000, 64
# A row has so many knots.
_KNOTS = 64


class Ranked(NamedTuple):
    """The training outcomes, and the rank of each row among the outcomes around its step.

    An outcome shared by several rows covers a range of ranks, so a row has the ranks from ``low``
    to ``high``. ``table`` holds the distribution of the outcomes around each step, from all rows.
    ``without`` holds, for each part (fold) of the episodes, the same table without this part.
    """

    table: RankedOutcomes
    without: tuple[RankedOutcomes, ...]
    low: FloatArray
    high: FloatArray
    weight: FloatArray  # the mean row weighs 1


def learned_ranks(rows: TrainingRows, fold: IndexArray) -> Ranked:
    """The outcomes of training rows, and the rank of each row among those around its step."""
    # The rows must be sorted by outcome (`in_canonical_order`). ``fold`` is the fold (part held out
    # together) of each episode; -1 for an episode in no fold.
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
    """The levels of a row's quantiles (its *knots*), as log odds."""
    levels = (np.arange(n_knots) + 0.5) / n_knots
    odds: FloatArray = np.log(levels / (1.0 - levels))
    return odds


def _shares(levels: AnyArray, times: FloatArray, cuts: IndexArray) -> FloatArray:
    """The share of outcomes, around each row's step, that are before the row's cut."""
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
    """The training outcomes around each step as flat read-only arrays by name."""
    own = {name: getattr(table, name) for name in ("time", "clock", "levels", "mass", "odds")}
    arrays = {f"rank_{name}": array for name, array in own.items()}
    return arrays | Support(*table.support).to_arrays()


def ranks_from_arrays(arrays: Mapping[str, AnyArray]) -> RankedOutcomes:
    """The table of the training outcomes around each step, from these arrays, after checks."""
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
    check_law(table.levels, mass, n_values, "rank_")
    rising = odds.size >= 2 and bool((np.abs(odds) <= LARGEST_LEVEL).all())
    require(
        rising and bool((odds[1:] > odds[:-1]).all()),
        f"rank_odds needs at least two rising numbers, at most {LARGEST_LEVEL:g} in size",
    )
    return table


def check_time(table: RankedOutcomes, n_features: int) -> None:
    """Raise a `ModelFileError` unless the feature that is said to hold the step exists."""
    require(bool(-1 <= table.time[0] < n_features), "rank_time needs a feature that exists, or -1")


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The arguments of a `QuantileNetwork` that say how to fit it, after checks."""

    width: int
    n_folds: int
    max_epochs: int
    patience: int
    rate: float
    seed: tuple[int, ...]
    progress: bool


class FittedNetworks(NamedTuple):
    """Trained networks, and the training outcomes with which they compare a row's outcome.

    ``without`` holds the training outcomes without each fold (part of the episodes), for answers
    about training episodes.
    """

    ranks: RankedOutcomes
    networks: Networks
    without: tuple[RankedOutcomes, ...]  # each fold in turn
    fold: IndexArray  # of each episode
    keys: KeyArray | None  # of the episodes, in their order; None without ids


def fit_networks(
    rows: TrainingRows, plan: NetworkPlan, categorical: Collection[int]
) -> FittedNetworks:
    """One network per fold (part of the episodes), trained on the other folds."""
    # For new rows, all networks answer together. The rows must be sorted by outcome
    # (`in_canonical_order`). If they have no ids, every row is an episode. If there is only one
    # episode, or only one outcome, nothing is trained: every row gets the distribution of the
    # training outcomes around its step.
    keys = rows.keys
    if keys is None:
        places = np.arange(rows.y.size)
        rows = replace(rows, keys=keys_of(places), episodes=places)
    fold = folds_of(rows, plan.n_folds, plan.seed)
    ranked = learned_ranks(rows, fold)
    columns, given = columns_of(rows, categorical)
    inputs = np.empty((rows.y.size, columns.codes.size + TIMES), dtype=np.float32)
    inputs_of_rows(columns, rows.X, inputs)
    if len(ranked.without) < 2 or ranked.table.support[0].size == 1:
        shape = max(1, len(ranked.without)), inputs.shape[1], plan.width
        weights = _untaught(*shape, ranked.table.odds.size)
    else:
        weights = _taught(ranked, inputs, fold[rows.episodes], plan)
    # A column that training told nothing about has weights that nothing has moved.
    told = np.append(given, columns.codes.size + np.arange(TIMES))
    untold = np.setdiff1d(np.arange(inputs.shape[1]), told)
    weights.first[:, untold] = weights.head[:, plan.width + untold] = 0.0
    networks = Networks(columns, *(read_only(one.ravel()) for one in weights))
    return FittedNetworks(ranked.table, networks, ranked.without, fold, keys)


def _taught(ranked: Ranked, inputs: AnyArray, fold: IndexArray, plan: NetworkPlan) -> Weights:
    one_key = keys_of(np.zeros(1, dtype=np.int64))
    rules = TrainingRules(
        width=plan.width,
        odds=ranked.table.odds,
        max_epochs=plan.max_epochs,
        patience=plan.patience,
        rate=plan.rate,
        seed=int(keyed_hash(one_key, plan.seed[0], *plan.seed[1:], "network")[0] >> np.uint64(1)),
    )
    examples = Examples(inputs, ranked.low, ranked.high, ranked.weight, fold)
    bar = progress_bar("training networks", plan.max_epochs, unit="epochs", shown=plan.progress)
    with bar as reached:
        return train(examples, rules, reached)


def _untaught(n_networks: int, n_inputs: int, width: int, n_knots: int) -> Weights:
    """Networks with all weights 0: every row gets the distribution of outcomes around its step."""
    shapes = [
        (n_networks, n_inputs, width),
        (n_networks, width),
        (n_networks, width, width),
        (n_networks, width),
        (n_networks, width + n_inputs + 1, n_knots),
    ]
    return Weights(*(np.zeros(shape, dtype=np.float32) for shape in shapes))
