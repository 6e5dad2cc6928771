"""Fits guides: predictions of the mean that a forest reads as additional features.

The guides of a training row come from fits without the row's episode; those of a new row come from
a fit to all rows. See method M14 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._arguments import share, whole_number
from ontarget._keyed import keyed_hash, keys_of
from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray
from ontarget.models._location import location
from ontarget.models.base import TrainingRows
from ontarget.models.forest._binning import Distinct, distinct_values
from ontarget.models.guided._boosting import NO_TREES, Binned, Learned, bin_rows, boost_by_fold
from ontarget.models.guided._boosting_kernel import BoostedGuide, BoostingRules
from ontarget.models.guided._guides_kernel import Guides, append_guides_of_rows
from ontarget.models.guided._ridge_kernel import TERM_WIDTH, LinearGuide, solve_ridge, sums_by_fold

# A ridge regression and boosted trees.
_N_GUIDES = 2
# Of a categorical feature, this many of the most frequent categories have an effect of their own.
_MOST_CATEGORIES = 32
_BLOCK = 256
_DEEPEST = 8
# A boosted tree's leaf holds at least this many rows, and is pulled towards 0 as if by this many.
_LEAST_WEIGHT, _PULL = 20.0, 1.0
# Boosting ends when so many trees have not lowered the error in rows that they have not seen.
_PATIENCE = 20


@dataclass(frozen=True, slots=True)
class GuidePlan:
    """How to fit guides (models that predict the mean), as checked values."""

    n_folds: int
    seed: tuple[int, ...]
    boosting: BoostingRules
    ridge_penalty: float = 1.0


def guide_plan(
    *,
    n_folds: int,
    seed: tuple[int, ...],
    boosting: tuple[int, int, float],
    least_weight: float = _LEAST_WEIGHT,
) -> GuidePlan:
    """The plan for fitting guides (models that predict the mean), from arguments, after checks.

    ``boosting`` is the largest number of boosted trees, their depth, and the learning rate. A leaf
    of a boosted tree holds rows of at least the weight ``least_weight``; the mean row weighs 1.
    """
    n_trees, depth, rate = boosting
    return GuidePlan(
        n_folds=n_folds,
        seed=seed,
        boosting=BoostingRules(
            n_trees=whole_number("n_boosted", n_trees, least=1),
            depth=whole_number("boosted_depth", depth, least=1, most=_DEEPEST),
            rate=share("boosted_rate", rate),
            least_weight=least_weight,
            penalty=_PULL,
            patience=_PATIENCE,
        ),
    )


@dataclass(frozen=True, slots=True)
class FoldGuides:
    """For each fold (part) of the training episodes, guides that were fitted without this part.

    Guides are small models that predict the mean; a forest reads their predictions as additional
    features.
    """

    without: tuple[Guides, ...]  # each fold in turn
    fold: IndexArray  # of each episode

    def guide_rows(self, X: FloatArray, episodes: IndexArray) -> FloatArray:
        """The rows, with the predictions of small models (guides) as additional columns.

        Guides predict the mean outcome. A row gets the predictions of guides that have not learned
        from the row's episode.
        """
        guided = np.concatenate([X, np.zeros((X.shape[0], _N_GUIDES))], axis=1)
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
    """Prepared data that all guides of the same training rows can share, whatever they predict.

    Guides are small models that predict the mean. The data are the fold (part held out together) of
    each episode, the columns of the regression, and the bins of the trees.
    """

    fold: IndexArray  # of each episode
    columns: _Columns
    binned: Binned


def guide_ground(
    rows: TrainingRows,
    plan: GuidePlan,
    categorical: Collection[int],
    distinct: Sequence[Distinct] | None = None,
) -> GuideGround:
    """Prepared data that all guides (models that predict the mean) of these rows can share.

    ``distinct`` may be the result of `distinct_values` for these rows, if it has been computed
    before.
    """
    known = distinct_values(rows.X, categorical) if distinct is None else distinct
    return GuideGround(
        fold=_folds_of_guides(int(rows.units.max()) + 1, plan),
        columns=_columns(rows.X, categorical, known),
        binned=bin_rows(rows.X, categorical, known),
    )


def fit_guides(
    rows: TrainingRows,
    plan: GuidePlan,
    categorical: Collection[int],
    ground: GuideGround | None = None,
) -> tuple[Guides, FoldGuides]:
    """The guides for new rows and, for training episodes, the guides fitted without each fold.

    Guides are small models that predict the mean; a fold is a part of the training episodes.

    The rows must be sorted by outcome (`in_canonical_order`), so that sums are the same to the last
    bit. Guides predict how far the outcome is from its mean, in units of its spread. The mean
    itself is left out on purpose: if a row's own fold has low outcomes, the mean of the other folds
    is high, so a tree could tell from it which fold the row is in.
    """
    shared = guide_ground(rows, plan, categorical) if ground is None else ground
    folds = shared.fold[rows.units]
    learn = _Rows(rows.X, _standardised(rows), _weights(rows), folds)
    linear = _fit_linear(learn, plan, shared.columns)
    boosted = _fit_boosted(learn, plan, shared.binned, linear)
    *without, of_all = map(Guides, linear, boosted)
    return of_all, FoldGuides(tuple(without), shared.fold)


def guide_rows(guides: Guides, X: FloatArray) -> FloatArray:
    """The rows, with the guides' predictions of the mean as additional columns."""
    n_guides = (guides.linear.terms.size > 0) + (guides.boosted.values.size > 0)
    guided = np.empty((X.shape[0], X.shape[1] + n_guides))
    run_blocks(
        lambda a, b: append_guides_of_rows(guides, X[a:b], guided[a:b]), X.shape[0], block=_BLOCK
    )
    return guided


def _folds_of_guides(n_episodes: int, plan: GuidePlan) -> IndexArray:
    """The fold of each episode, drawn at random by the seed; all folds have similar sizes.

    A fold is a part of the episodes that is held out together.
    """
    keys = keyed_hash(keys_of(np.arange(n_episodes)), plan.seed[0], *plan.seed[1:], "fold")
    order = np.argsort(keys, kind="stable")
    folds = np.empty(n_episodes, dtype=np.intp)
    folds[order] = np.arange(n_episodes) % min(plan.n_folds, n_episodes)
    return folds


def _weights(rows: TrainingRows) -> FloatArray:
    return np.ones(rows.y.size) if rows.weight is None else rows.weight / rows.weight.mean()


def _standardised(rows: TrainingRows) -> FloatArray:
    """The outcomes minus their mean, in units of their spread.

    They are scaled first, so that their squares neither overflow nor vanish.
    """
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


def _columns(X: FloatArray, categorical: Collection[int], distinct: Sequence[Distinct]) -> _Columns:
    n_rows, n_features = X.shape
    terms = np.zeros((n_features, TERM_WIDTH))
    slope, missing = np.full(n_features, -1), np.full(n_features, -1)
    columns: list[FloatArray] = []
    categories: list[FloatArray] = []
    for f in range(n_features):
        lost = np.isnan(X[:, f])
        known = X[~lost, f]
        if f in categorical:
            own = distinct[f]
            most = np.sort(np.argsort(-own.counts, kind="stable")[:_MOST_CATEGORIES])
            categories.append(own.values[most])
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


def _fit_linear(rows: _Rows, plan: GuidePlan, columns: _Columns) -> list[LinearGuide]:
    """Ridge regressions, fitted without each fold (part of the episodes), and last on all rows."""
    n_folds = int(rows.folds.max()) + 1
    n_columns = columns.design.shape[1]
    sums = np.zeros((n_folds, n_columns, n_columns + 1))
    sums_by_fold(columns.design, rows.y, rows.weight, rows.folds, sums)
    centre = columns.design.mean(axis=0)
    penalty = np.full(n_columns, plan.ridge_penalty)
    penalty[-1] = 0.0  # the intercept is free
    found = []
    for left_out in range(n_folds + 1):
        others = [k for k in range(n_folds) if k != left_out]
        solved = solve_ridge(sums[others].sum(axis=0), penalty)
        solved[-1] = -(centre * solved)[:-1].sum()  # so that the mean over all rows is 0
        found.append(_linear_guide(columns, solved))
    return found


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
    rows: _Rows, plan: GuidePlan, binned: Binned, linear: list[LinearGuide]
) -> list[BoostedGuide]:
    """Boosted trees, fitted without each fold (part of the episodes) in turn, last on all rows.

    The trees learn the residuals of the ridge regression that was fitted to the same rows.
    """
    rest = [rows.y - guide_rows(Guides(guide, NO_TREES), rows.X)[:, -1] for guide in linear]
    learn = Learned(rows.X, rows.weight, rows.folds)
    return boost_by_fold(learn, rest, plan.boosting, binned)
