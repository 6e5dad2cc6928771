"""Fits a distribution regression: to all rows, and without each fold (part of the episodes)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keyed_uniform
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.models._ranked import (
    Outcomes,
    columns_of,
    cut_outcomes,
    folds_of,
    levels_by_node,
    row_keys,
    times_of,
)
from ontarget.models._ranked_kernel import Columns
from ontarget.models.base import TrainingRows
from ontarget.models.regression._law_kernel import (
    GLOBALS,
    WIDTH,
    Regression,
    fill_design,
    limits_of_rows,
)
from ontarget.models.regression._newton import Problem, minimise, squares

# Continuous outcomes are cut at so many quantiles, and levels kept at so many nodes.
_MOST_VALUES, _MOST_NODES = 1000, 24
# Beyond this many effects, interactions and squares are left out, the less useful ones first.
_MOST_EFFECTS = 80
# Few rows are asked about several thresholds each, so that the draw hardly matters.
_MOST_DRAWS = 8
# The pull on interactions and squares beside that on main effects, the pull on the intercept, and
# that on a column which tells nothing.
_ON_INTERACTIONS, _ON_INTERCEPT, _HELD = 10.0, 0.01, 1e12
# Many rows are first solved for a quarter of them. A fold's loss may lie so far above its minimum:
# a tenth of a standard error, in one direction.
_MANY, _CLOSE_OF_FOLD = 4000, 0.01
_BLOCK = 256


class _Encoding(NamedTuple):
    """The input columns of some training rows, and the effects (coefficients) to fit for them."""

    columns: Columns
    active: IndexArray  # places among all effects, ascending
    is_main: BoolArray  # of the active ones: a feature itself or a slope of z, no interaction


@dataclass(frozen=True, slots=True)
class RegressionPlan:
    """The arguments of a `DistributionRegression` that say how to fit it, after checks."""

    penalty: float = 1.0
    n_folds: int = 5
    max_rows: int = 20_000
    seed: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class FoldRegressions:
    """For each fold (part) of the training episodes, a regression fitted without this part."""

    without: tuple[Regression, ...]  # each fold in turn
    fold: IndexArray  # of each episode
    keys: KeyArray  # of the episodes, in their order

    def limits(
        self, X: FloatArray, y: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """P(Y < y) and P(Y <= y) at the values y, (rows, values), as two arrays."""
        # Each row is answered by the regression that has not learned from the row's episode. The
        # answer is NaN if there was no other episode in training.
        left, right = np.full(y.shape, np.nan), np.full(y.shape, np.nan)
        folds = self.fold[episodes]
        for fold, model in enumerate(self.without):
            held_out = np.flatnonzero(folds == fold)
            left[held_out], right[held_out] = answer_limits(model, X[held_out], y[held_out])
        return left, right


class _Asked(NamedTuple):
    """The data that the regression learns from: rows of X, and a cut between outcomes for each."""

    rows: IndexArray
    cuts: IndexArray
    labels: BoolArray
    weights: FloatArray

    def take(self, kept: IndexArray) -> _Asked:
        return _Asked(self.rows[kept], self.cuts[kept], self.labels[kept], self.weights[kept])


def fit_regression(
    rows: TrainingRows, plan: RegressionPlan, categorical: Collection[int]
) -> tuple[Regression, FoldRegressions | None]:
    """The regression for new rows, and one regression without each fold for training episodes."""
    # The rows must be sorted by outcome (`in_canonical_order`). If they have no ids, there are no
    # folds.
    outcomes = cut_outcomes(rows, _MOST_VALUES)
    n_values = outcomes.support.values.size
    encoding = _choose_columns(rows, categorical, several_cuts=n_values > 2)
    fold = folds_of(rows, plan.n_folds, plan.seed)
    levels = levels_by_node(
        rows, times_of(rows, encoding.columns), outcomes, fold, most_nodes=_MOST_NODES
    )
    effects = np.zeros((levels.shape[0], GLOBALS + WIDTH * encoding.columns.codes.size))
    if n_values > 1:
        asked = _thresholds(rows, outcomes, plan)
        held_out = fold[rows.units[asked.rows]] if fold.size else np.empty(0, dtype=np.intp)
        effects[:, encoding.active] = _solve((rows, encoding, asked), levels, held_out, plan)
    *without, full = (
        _regression(encoding, outcomes, *one) for one in zip(effects, levels, strict=True)
    )
    if rows.keys is None:
        return full, None
    return full, FoldRegressions(tuple(without), fold, rows.keys)


def answer_limits(model: Regression, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(Y < y) and P(Y <= y) of each row at its values y, as two arrays (rows, values)."""
    left, right = np.empty(y.shape), np.empty(y.shape)

    def fill(a: int, b: int) -> None:
        limits_of_rows(model, X[a:b], y[a:b], (left[a:b], right[a:b]))

    run_blocks(fill, X.shape[0], block=_BLOCK)
    return left, right


def _solve(
    learn: tuple[TrainingRows, _Encoding, _Asked],
    levels: AnyArray,
    held_out: IndexArray,
    plan: RegressionPlan,
) -> FloatArray:
    """The coefficients (*effects*) fitted without each fold in turn, and last on all rows."""
    rows, encoding, asked = learn
    problem = _problem(rows, encoding, asked, levels[-1])
    penalty = _penalty(problem, encoding, plan)
    solved, lower = _from_a_quarter(problem._replace(penalty=penalty))
    found = np.tile(solved, (levels.shape[0], 1))

    def refit(a: int, b: int) -> None:
        for k in range(a, b):
            kept = np.flatnonzero(held_out != k)
            if kept.size == 0:  # no row of another episode was among those chosen: levels alone
                found[k] = 0.0
                continue
            some = _problem(rows, encoding, asked.take(kept), levels[k])
            some = some._replace(penalty=penalty)
            near = lower * np.sqrt(kept.size / held_out.size)
            found[k], _ = minimise(some, solved, near, close=_CLOSE_OF_FOLD)

    run_blocks(refit, levels.shape[0] - 1, block=1)
    return found


def _regression(
    encoding: _Encoding, outcomes: Outcomes, effects: FloatArray, levels: AnyArray
) -> Regression:
    return Regression(
        columns=encoding.columns,
        effects=read_only(effects.copy()),
        levels=read_only(levels.flatten()),
        mass=outcomes.mass,
        support=outcomes.support.as_tuple(),
    )


def _thresholds(rows: TrainingRows, outcomes: Outcomes, plan: RegressionPlan) -> _Asked:
    """The thresholds at which the regression learns from each row, drawn at random."""
    n_rows, n_cuts = rows.y.size, outcomes.support.values.size - 1
    seed, keys = plan.seed, row_keys(rows)
    kept = np.arange(n_rows)
    if n_rows > plan.max_rows:
        hashed = keyed_hash(keys, seed[0], *seed[1:], "row")
        kept = np.sort(np.argsort(hashed, kind="stable")[: plan.max_rows])
    by_step = np.argsort(rows.steps, kind="stable")  # and by outcome within a step
    size = np.bincount(rows.steps)
    start = np.cumsum(size) - size
    place = np.empty(n_rows, dtype=np.intp)
    place[by_step] = np.arange(n_rows) - start[rows.steps[by_step]]
    step, own = rows.steps[kept], place[kept]
    n_draws = min(_MOST_DRAWS, max(1, plan.max_rows // kept.size)) if n_cuts > 1 else 1
    uniform = keyed_uniform(keys[kept], seed[0], *seed[1:], "threshold")
    cuts = []
    for draw in range(n_draws):  # spread evenly over the outcomes of the step
        halves = (uniform + draw) / n_draws * 2.0 * np.maximum(size[step] - 1, 1)
        other = (halves / 2.0).astype(np.intp)
        other += (other >= own) & (size[step] > 1)
        drawn = outcomes.ranks[by_step[start[step] + other]]
        cuts.append(np.clip(drawn + halves.astype(np.intp) % 2, 1, n_cuts))
    asked, cut = np.tile(kept, n_draws), np.concatenate(cuts)
    weights = outcomes.weight[asked] / n_draws
    return _Asked(asked, cut, outcomes.ranks[asked] < cut, weights)


def _problem(rows: TrainingRows, encoding: _Encoding, asked: _Asked, levels: AnyArray) -> Problem:
    design = np.empty((asked.rows.size, encoding.active.size))
    offsets = np.empty(asked.rows.size)
    marginal = (encoding.columns, levels.ravel(), levels.shape[1])
    fill_design(marginal, rows.X, (asked.rows, asked.cuts), encoding.active, (design, offsets))
    return Problem(design, asked.labels, offsets, asked.weights, np.empty(0))


def _penalty(problem: Problem, encoding: _Encoding, plan: RegressionPlan) -> FloatArray:
    """The penalty on each effect (coefficient), scaled as if every column had a spread of 1."""
    square, spread = squares(problem.design, problem.weights)
    pull = plan.penalty * np.where(encoding.is_main, 1.0, _ON_INTERACTIONS) * spread
    pull[spread <= 1e-9 * square] = _HELD
    pull[0] = _ON_INTERCEPT
    return pull


def _from_a_quarter(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """The coefficients that minimise the loss, and a Cholesky factor."""
    start = np.zeros(problem.penalty.size)
    if problem.labels.size < _MANY:
        return minimise(problem, start)
    start, lower = minimise(problem.every_fourth(), start, close=1.0)
    return minimise(problem, start, 2.0 * lower)


def _choose_columns(
    rows: TrainingRows, categorical: Collection[int], *, several_cuts: bool
) -> _Encoding:
    """The input columns for these rows, and which effects (coefficients) to fit."""
    columns, given = columns_of(rows, categorical)
    return _Encoding(columns, *_effects(columns, given, several_cuts))


def _effects(
    columns: Columns, given: IndexArray, several_cuts: bool
) -> tuple[IndexArray, BoolArray]:
    """The indices of the effects (coefficients) to fit, and which of these are main effects."""
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
