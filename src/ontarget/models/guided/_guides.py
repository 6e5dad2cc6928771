"""Fits guides: predictions of the mean that other models read as additional features (M14)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keys_of
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray
from ontarget.models._support import location
from ontarget.models.base import TrainingRows
from ontarget.models.forest._binning import Distinct
from ontarget.models.guided._boosting import NO_TREES, Binned, Learned, bin_rows, boost_by_fold
from ontarget.models.guided._boosting_kernel import BoostedGuide, BoostingRules
from ontarget.models.guided._guides_kernel import (
    TERM_WIDTH,
    Guides,
    LinearGuide,
    append_guides_of_rows,
    count_guides,
    solve_ridge,
    sums_by_fold,
)

_BLOCK = 256
# Of a categorical feature, at most so many of the most frequent categories have an effect of their
# own, each only if at least so many episodes have it.
_MOST_CATEGORIES, _LEAST_EPISODES = 32, 50
# The penalties of the ridge regression; those beyond the first are tried only if there are more
# than so many columns.
_PENALTIES, _FEW = (1.0, 10.0, 100.0, 1_000.0, 10_000.0), 40
# A leaf's least weight counts episodes by their rows, but no more than so many rows of each.
_MOST_POOLED = 10.0


@dataclass(frozen=True, slots=True)
class GuidePlan:
    """How to fit guides (models that predict the mean), as checked values."""

    n_folds: int
    seed: tuple[int, ...]
    boosting: BoostingRules | None = None  # without, the only guide is a ridge regression


@dataclass(frozen=True, slots=True)
class FoldGuides:
    """For each fold (part) of the training episodes, guides that were fitted without this part."""

    without: tuple[Guides, ...]  # each fold in turn
    fold: IndexArray  # of each episode

    def guide_rows(self, X: FloatArray, episodes: IndexArray) -> FloatArray:
        """The rows, with the predictions of small models (guides) as additional columns."""
        n_guides = count_guides(self.without[0])
        guided = np.concatenate([X, np.zeros((X.shape[0], n_guides))], axis=1)
        folds = self.fold[episodes]
        # One episode alone has no others to learn from: its guides say nothing.
        for fold, guides in enumerate(self.without if len(self.without) > 1 else ()):
            held_out = np.flatnonzero(folds == fold)
            guided[held_out] = guide_rows(guides, X[held_out])
        return guided


class _Rows(NamedTuple):
    """Training rows in sorted order, with the standardised outcome that guides learn to predict."""

    X: FloatArray
    y: FloatArray
    weight: FloatArray  # the mean row weighs 1
    folds: IndexArray


class GuideGround(NamedTuple):
    """Prepared data that all guides of the same training rows can share, whatever they predict."""

    fold: IndexArray  # of each episode
    columns: _Columns
    binned: Binned | None  # None without trees


def guide_ground(
    rows: TrainingRows,
    plan: GuidePlan,
    categorical: Collection[int],
    distinct: Sequence[Distinct] | None = None,
) -> GuideGround:
    """Prepared data that all guides (models that predict the mean) of these rows can share."""
    return GuideGround(
        fold=_folds_of_guides(int(rows.units.max()) + 1, plan),
        columns=_columns(rows, categorical),
        binned=bin_rows(rows.X, categorical, distinct) if plan.boosting else None,
    )


def fit_guides(
    rows: TrainingRows,
    plan: GuidePlan,
    categorical: Collection[int],
    ground: GuideGround | None = None,
) -> tuple[Guides, FoldGuides]:
    """The guides for new rows and, for training episodes, the guides fitted without each fold."""
    # The rows must be sorted by outcome (`in_canonical_order`), so that sums are the same to the
    # last bit. Guides predict how far the outcome is from its mean, in units of its spread. The
    # mean itself is left out on purpose: if a row's own fold has low outcomes, the mean of the
    # other folds is high, so a tree could tell from it which fold the row is in.
    shared = guide_ground(rows, plan, categorical) if ground is None else ground
    folds = shared.fold[rows.units]
    learn = _Rows(rows.X, _standardised(rows), _weights(rows), folds)
    linear = _fit_linear(learn, shared.columns)
    boosted = [NO_TREES] * len(linear)
    if plan.boosting is not None and shared.binned is not None and len(linear) > 2:
        pooled = min(rows.y.size / shared.fold.size, _MOST_POOLED)
        rules = plan.boosting._replace(least_weight=plan.boosting.least_weight * pooled)
        boosted = _fit_boosted(learn, rules, shared.binned, linear)
    *without, of_all = map(Guides, linear, boosted)
    return of_all, FoldGuides(tuple(without), shared.fold)


def guide_rows(guides: Guides, X: FloatArray) -> FloatArray:
    """The rows, with the guides' predictions of the mean as additional columns."""
    guided = np.empty((X.shape[0], X.shape[1] + count_guides(guides)))
    run_blocks(
        lambda a, b: append_guides_of_rows(guides, X[a:b], guided[a:b]), X.shape[0], block=_BLOCK
    )
    return guided


def _folds_of_guides(n_episodes: int, plan: GuidePlan) -> IndexArray:
    """The fold of each episode, drawn at random by the seed; all folds have similar sizes."""
    keys = keyed_hash(keys_of(np.arange(n_episodes)), plan.seed[0], *plan.seed[1:], "fold")
    order = np.argsort(keys, kind="stable")
    folds = np.empty(n_episodes, dtype=np.intp)
    folds[order] = np.arange(n_episodes) % min(plan.n_folds, n_episodes)
    return folds


def _weights(rows: TrainingRows) -> FloatArray:
    return np.ones(rows.y.size) if rows.weight is None else rows.weight / rows.weight.mean()


def _standardised(rows: TrainingRows) -> FloatArray:
    """The outcomes minus their mean, in units of their spread."""
    # They are scaled first, so that their squares neither overflow nor vanish.
    size = np.abs(rows.y).max()
    scaled = rows.y / size if size > 0.0 else rows.y
    centred = scaled - scaled.mean()
    spread = np.sqrt(np.square(centred).mean())
    return centred / spread if spread > 0.0 else np.zeros(rows.y.size)


class _Columns(NamedTuple):
    """The columns that the ridge regression reads, and which feature each column comes from."""

    design: FloatArray
    terms: FloatArray  # (features, 4), slopes and effects of missing still to be filled in
    start: IndexArray
    categories: FloatArray
    slope: IndexArray  # the column of each feature's slope, or -1
    missing: IndexArray  # the column that marks where the feature is missing, or -1


def _columns(rows: TrainingRows, categorical: Collection[int]) -> _Columns:
    X = rows.X
    n_rows, n_features = X.shape
    terms = np.zeros((n_features, TERM_WIDTH))
    slope, missing = np.full(n_features, -1), np.full(n_features, -1)
    columns: list[FloatArray] = []
    categories: list[FloatArray] = []
    for f in range(n_features):
        lost = np.isnan(X[:, f])
        known = X[~lost, f]
        if f in categorical:
            categories.append(_frequent(known, rows.units[~lost]))
        else:
            categories.append(np.empty(0))
            centre, spread = location(known)
            if spread > 0.0:
                terms[f, :2] = centre, 1.0 / spread
                slope[f] = len(columns)
                columns.append(np.where(lost, 0.0, (X[:, f] - centre) / spread))
        if lost.any() and known.size:
            missing[f] = len(columns)
            columns.append(lost.astype(np.float64))
    for f in range(n_features):
        columns += [(X[:, f] == value).astype(np.float64) for value in categories[f]]
    columns.append(np.ones(n_rows))
    return _Columns(
        design=np.ascontiguousarray(np.stack(columns, axis=1)),
        terms=terms,
        start=np.cumsum([0, *(part.size for part in categories)]),
        categories=np.concatenate(categories),
        slope=slope,
        missing=missing,
    )


def _frequent(values: FloatArray, episodes: IndexArray) -> FloatArray:
    """The categories that have an effect of their own, ascending."""
    # Fitted without an episode, the effect of a rare category leans away from this very episode's
    # outcome, and other models would read it as a sign of that outcome (M29).
    found, place = np.unique(values, return_inverse=True)
    n_episodes = int(episodes.max(initial=0)) + 1
    each = np.unique(place * n_episodes + episodes) // n_episodes  # once an episode
    counts = np.bincount(each, minlength=found.size)
    most = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES])
    chosen: FloatArray = found[most][counts[most] >= _LEAST_EPISODES]
    return chosen


def _fit_linear(rows: _Rows, columns: _Columns) -> list[LinearGuide]:
    """Ridge regressions, fitted without each fold (part of the episodes), and last on all rows."""
    # With many columns, the penalty is the one with the least squared error on held-out folds:
    # noise in a hundred columns would drown the few that matter.
    n_folds = int(rows.folds.max()) + 1
    n_columns = columns.design.shape[1]
    sums = np.zeros((n_folds, n_columns, n_columns + 1))
    sums_by_fold(columns.design, rows.y, rows.weight, rows.folds, sums)
    tried = _PENALTIES if n_columns > _FEW else _PENALTIES[:1]
    fits = [_solved_by_fold(sums, penalty) for penalty in tried]
    best = fits[int(np.argmin([_held_out_error(sums, fit) for fit in fits]))]
    centre = columns.design.mean(axis=0)
    for solved in best:
        solved[-1] = -(centre * solved)[:-1].sum()  # so that the mean over all rows is 0
    return [_linear_guide(columns, solved) for solved in best]


def _solved_by_fold(sums: FloatArray, penalty: float) -> list[FloatArray]:
    """The coefficients of each regression: without each fold in turn, and last of all rows."""
    penalties = np.full(sums.shape[1], penalty)
    penalties[-1] = 0.0  # the intercept is free
    folds = range(len(sums))
    others = [[k for k in folds if k != left_out] for left_out in (*folds, -1)]
    return [solve_ridge(sums[kept].sum(axis=0), penalties) for kept in others]


def _held_out_error(sums: FloatArray, fits: list[FloatArray]) -> float:
    """The squared error on the rows of each fold by the fit without it, less a constant."""
    return float(
        sum(
            solved @ own[:, :-1] @ solved - 2.0 * own[:, -1] @ solved
            for own, solved in zip(sums, fits, strict=False)
        )
    )


def _linear_guide(columns: _Columns, solved: FloatArray) -> LinearGuide:
    terms = columns.terms.copy()
    for at, source in ((2, columns.slope), (3, columns.missing)):
        given = source >= 0
        terms[given, at] = solved[source[given]]
    n_effects = columns.categories.size
    return LinearGuide(
        terms=read_only(np.append(terms.ravel(), solved[-1])),
        start=read_only(columns.start.astype(np.int64)),
        categories=read_only(columns.categories),
        effects=read_only(solved[solved.size - 1 - n_effects : -1]),
    )


def _fit_boosted(
    rows: _Rows, rules: BoostingRules, binned: Binned, linear: list[LinearGuide]
) -> list[BoostedGuide]:
    """Boosted trees, fitted without each fold (part of the episodes) in turn, last on all rows."""
    rest = [rows.y - guide_rows(Guides(guide, NO_TREES), rows.X)[:, -1] for guide in linear]
    learn = Learned(rows.X, rows.weight, rows.folds)
    return boost_by_fold(learn, rest, rules, binned)
