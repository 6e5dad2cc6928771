"""Fits the experts (models) of a stacked forest, and asks them about training episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.models.base import TrainingRows
from ontarget.models.forest._binning import Distinct, distinct_values
from ontarget.models.forest._growing import in_canonical_order, prepare_ground
from ontarget.models.forest.base import Members
from ontarget.models.forest.estimator import QuantileForest
from ontarget.models.guided._guides import (
    FoldGuides,
    GuideGround,
    GuidePlan,
    fit_guides,
    guide_ground,
)
from ontarget.models.guided._guides_kernel import Guides
from ontarget.models.mixture import weighted
from ontarget.models.regression._fitting import FoldRegressions, RegressionPlan, fit_regression
from ontarget.models.stacked._shift import NO_SHIFT, ShiftLaw, learned_shift, spread_around_mean
from ontarget.models.stacked._stack_kernel import (
    FOREST,
    LINEAR,
    SHIFT,
    ShiftTable,
    Stack,
    shifts_of_guides,
)
from ontarget.models.stacked._store import no_forest, no_guides, no_regression
from ontarget.models.stacked._weights import learned_weights, some_rows, thresholds_of

Expert: TypeAlias = Literal["forest", "shift", "linear"]
EXPERTS: Final[tuple[Expert, ...]] = ("forest", "shift", "linear")

# However little the forest counts, no outcome that it saw gets probability 0.
_LEAST_FOREST = 0.01


@dataclass(frozen=True, slots=True)
class StackPlan:
    """Which experts (models of the mixture) to fit, and how to fit each, as checked values."""

    experts: tuple[Expert, ...]
    guides: GuidePlan
    forest: QuantileForest  # unfitted
    regression: RegressionPlan
    seed: tuple[int, ...]


class Rows(NamedTuple):
    """Rows of training episodes, with guide values from models that did not see the episode."""

    X: FloatArray
    guided: FloatArray
    episodes: IndexArray


class _Honest(Protocol):
    """An expert (model) that answers about its own training episodes as if they were new."""

    def limits(self, rows: Rows, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(Y < y) and P(Y <= y) of each row at its values y, as two arrays (rows, values)."""
        ...


@dataclass(frozen=True, slots=True)
class _HonestForest:
    forest: QuantileForest

    def limits(self, rows: Rows, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.forest._out_of_bag(rows.guided, y, rows.episodes)


@dataclass(frozen=True, slots=True)
class _HonestShift:
    table: ShiftTable
    spread: FoldGuides

    def limits(self, rows: Rows, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        spread = self.spread.guide_rows(rows.X, rows.episodes)
        places = places_of(self.table, rows.guided, spread)
        return ShiftLaw(self.table).cdf_limits(places, y)


@dataclass(frozen=True, slots=True)
class _HonestLinear:
    folds: FoldRegressions

    def limits(self, rows: Rows, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.folds.limits(rows.X, y, rows.episodes)


@dataclass(frozen=True, slots=True)
class HonestStack:
    """The experts (models) of a stacked forest, for rows of its own training episodes."""

    guides: FoldGuides
    experts: dict[int, _Honest]  # by place
    weights: FloatArray
    keys: KeyArray | None  # of the episodes, in their order

    def limits(
        self, X: FloatArray, y: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """P(Y < y) and P(Y <= y) of the mixture at the values y, as two arrays (rows, values)."""
        rows = self.rows(X, episodes)
        counted = np.flatnonzero(self.weights > 0.0).tolist()
        found = [self.experts[place].limits(rows, y) for place in counted]
        weights = self.weights[counted].tolist()
        left = weighted(weights, [one for one, _ in found])
        return left, weighted(weights, [one for _, one in found])

    def add_members(self, X: FloatArray, episodes: IndexArray, found: Members) -> None:
        """Append to ``found`` the training rows that each row's prediction is made from."""
        # Each training row comes with its weight. These are the training rows in the leaves that
        # the row reaches, in trees that never saw the row's episode.
        rows = self.rows(X, episodes)
        for place, honest in self.experts.items():
            weight = float(self.weights[place])
            if isinstance(honest, _HonestForest) and weight > 0.0:
                forest = honest.forest
                forest._add_out_of_bag_members(rows.guided, episodes, weight, found)

    def rows(self, X: FloatArray, episodes: IndexArray) -> Rows:
        """The rows, with guide values from models that were not trained on the row's episode."""
        return Rows(X, self.guides.guide_rows(X, episodes), episodes)


def fit_stack(
    rows: TrainingRows, plan: StackPlan, categorical: Sequence[int]
) -> tuple[Stack, HonestStack]:
    """The fitted stack for new rows, and its version for rows of training episodes."""
    # The training rows must be sorted by outcome (`in_canonical_order`). The forest and the shifted
    # shape share one set of guides, small models that predict the mean. The weights come from
    # answers about training episodes, by parts of the experts that have not learned from the
    # episode. An expert of weight 0 is left out.
    distinct = distinct_values(rows.X, categorical)
    ground: GuideGround | None = guide_ground(rows, plan.guides, categorical, distinct)
    guides, folds = fit_guides(rows, plan.guides, categorical, ground)
    guided = replace(rows, X=folds.guide_rows(rows.X, rows.units))
    if not rows.has_ids:
        # Equal rows may stand in different folds; then only their guides tell them apart.
        guided = in_canonical_order(guided)
        rows = replace(guided, X=np.ascontiguousarray(guided.X[:, : rows.X.shape[1]]))
        ground, distinct = None, distinct_values(rows.X, categorical)
    forest = _fit_forest(guided, plan.forest, categorical, distinct)
    honest: dict[int, _Honest] = {FOREST: _HonestForest(forest)}
    shift, spread = NO_SHIFT, no_guides()
    atoms = forest.table_.support[1]
    # A shape would smear an atom among other outcomes.
    if "shift" in plan.experts and bool(atoms.all() or not atoms.any()):
        location, own = guided.X[:, -1], bool(atoms[0])
        fitted = _fit_shift(rows, plan, categorical, ground, location=location, atoms=own)
        if fitted is not None:
            shift, spread, honest[SHIFT] = fitted
    linear = no_regression()
    if "linear" in plan.experts:
        linear, of_folds = fit_regression(rows, plan.regression, categorical)
        if of_folds is not None:
            honest[LINEAR] = _HonestLinear(of_folds)
    twin = HonestStack(folds, honest, read_only(np.zeros(LINEAR + 1)), rows.keys)
    weights = _weights(rows, plan, twin)
    used = weights > 0.0
    stack = Stack(
        guides=guides,
        spread=spread if used[SHIFT] else no_guides(),
        forest=forest.table_,
        second=no_forest(forest.table_),
        shift=shift if used[SHIFT] else NO_SHIFT,
        linear=linear if used[LINEAR] else no_regression(),
        weights=weights,
    )
    return stack, replace(twin, weights=weights)


def places_of(table: ShiftTable, guided: FloatArray, spread: FloatArray) -> FloatArray:
    """(rows, 2): where and how wide each row's predicted distribution is (location and scale)."""
    places = np.empty((guided.shape[0], 2))
    shifts_of_guides(table, guided[:, -1].copy(), spread[:, -1].copy(), places)
    return places


def _fit_forest(
    guided: TrainingRows,
    forest: QuantileForest,
    categorical: Sequence[int],
    distinct: Sequence[Distinct],
) -> QuantileForest:
    """The fitted forest of the mixture, grown on rows with guide values."""
    told = distinct_values(guided.X[:, len(distinct) :], ())
    growth = forest._plan(guided.X.shape[1])
    ground = prepare_ground(guided, growth, categorical, [*distinct, *told])
    return forest._grow(guided, growth, ground)


def _fit_shift(
    rows: TrainingRows,
    plan: StackPlan,
    categorical: Sequence[int],
    ground: GuideGround | None,
    *,
    location: FloatArray,
    atoms: bool,
) -> tuple[ShiftTable, Guides, _HonestShift] | None:
    """The shift expert, the models of its scale, and its version for training episodes."""
    mean, spread_of_y = spread_around_mean(rows.y)
    distance = np.abs(rows.y - (mean + spread_of_y * location))
    spread, folds = fit_guides(replace(rows, y=distance), plan.guides, categorical, ground)
    scale = folds.guide_rows(rows.X, rows.units)[:, -1]
    table = learned_shift(rows, location, scale, atoms=atoms)
    return None if table is None else (table, spread, _HonestShift(table, folds))


def _weights(rows: TrainingRows, plan: StackPlan, twin: HonestStack) -> FloatArray:
    """The weight of each expert (model) in the mixture, by its place in a stack."""
    places = list(twin.experts)
    weights = np.zeros(LINEAR + 1)
    if rows.keys is None or rows.keys.size < 2 or len(places) == 1:
        weights[FOREST] = 1.0
        return read_only(weights)
    which = some_rows(rows, plan.seed)
    thresholds = thresholds_of(rows, which, plan.seed)
    asked = twin.rows(rows.X[which], rows.units[which])
    answers = np.stack([twin.experts[place].limits(asked, thresholds)[1] for place in places])
    below = (rows.y[which, None] <= thresholds).astype(np.float64)
    n_episodes = np.unique(rows.units[which]).size
    weights[places] = learned_weights(answers, below, n_episodes)
    if weights[FOREST] < _LEAST_FOREST:
        weights[FOREST] += _LEAST_FOREST
    return read_only(weights / weights.sum())
