"""Fits networks: computes ranks and inputs, trains, and makes the arrays of a fitted model.

The rank of an outcome is the share of the training outcomes around the same step that are lower.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keys_of
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, IndexArray
from ontarget.models.base import TrainingRows
from ontarget.models.network._law_kernel import RankedOutcomes
from ontarget.models.network._network_kernel import TIMES, Networks, inputs_of_rows
from ontarget.models.network._ranks import Ranked, learned_ranks
from ontarget.models.network._training import Examples, TrainingRules, Weights, train
from ontarget.models.ranked._columns import columns_of
from ontarget.models.ranked._levels import folds_of


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


def fit_networks(
    rows: TrainingRows, plan: NetworkPlan, categorical: Collection[int]
) -> FittedNetworks:
    """One network per fold (part of the episodes), trained on the other folds.

    For new rows, all networks answer together. The rows must be sorted by outcome
    (`in_canonical_order`). If they have no ids, every row is an episode. If there is only one
    episode, or only one outcome, nothing is trained: every row gets the distribution of the
    training outcomes around its step.
    """
    if rows.keys is None:
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
    return FittedNetworks(ranked.table, networks, ranked.without, fold)


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
