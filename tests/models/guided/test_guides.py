"""The guides (predictions of the mean) that the forests of a stacked forest read."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import ModelFileError
from ontarget.models.base import TrainingRows
from ontarget.models.guided._boosting_kernel import BoostingRules
from ontarget.models.guided._guides import GuidePlan, fit_guides, guide_rows
from ontarget.models.guided._guides_kernel import Guides
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X @ [1.0, -1.0, 0.5, 2.0, 0.0] + 0.3 * RNG.normal(size=400)
PLAN = GuidePlan(
    n_folds=5,
    seed=(0,),
    boosting=BoostingRules(n_trees=30, depth=3, rate=0.3, least_weight=3.0, penalty=1.0),
)


def guides_of(features: np.ndarray, y: np.ndarray, categorical: tuple[int, ...] = ()) -> Guides:
    rows = TrainingRows.of(features, y, None, ids=None, steps=None)
    return fit_guides(rows, PLAN, categorical)[0]


def correlations(guides: Guides, features: np.ndarray, truth: np.ndarray) -> list[float]:
    """How closely the ridge regression, and that with boosted trees, follow the true mean."""
    return [float(np.corrcoef(one, truth)[0, 1]) for one in guide_rows(guides, features)[:, -2:].T]


@pytest.mark.parametrize("categorical", [(), (0,)])
def test_training_rows_are_guided_by_models_that_never_saw_their_episode(
    categorical: tuple[int, ...],
) -> None:
    # Outcomes are noise of the episode: whoever saw it could tell, whoever did not cannot.
    ids = np.repeat(np.arange(80), 5)
    y = np.repeat(RNG.normal(size=80), 5)
    features = np.stack([ids.astype(float), np.repeat(RNG.normal(size=80), 5)], axis=1)
    rows = TrainingRows.of(features, y, None, ids=ids, steps=None)
    guides, folds = fit_guides(rows, PLAN, categorical)
    guided = folds.guide_rows(features, rows.units)
    seen = guide_rows(guides, features)
    assert np.array_equal(guided[:, :2], features)
    assert np.corrcoef(seen[:, 3], y)[0, 1] > 0.7
    assert abs(np.corrcoef(guided[:, 3], y)[0, 1]) < 0.35
    # An episode whose outcomes change moves its own guides not at all, but for the common scale.
    changed = np.where(ids == 7, y + 100.0, y)
    other = TrainingRows.of(features, changed, None, ids=ids, steps=None)
    scale = y.std() / changed.std()
    moved = fit_guides(other, PLAN, categorical)[1].guide_rows(features, ids)[:, 2:]
    # The change is of nine spreads; splits that gain the same may fall another way by rounding.
    assert moved[ids == 7] == pytest.approx(guided[ids == 7, 2:] * scale, abs=0.05)
    assert np.ptp(moved[ids != 7], axis=0).min() > 0.1


def test_features_that_say_nothing_give_guides_that_say_nothing() -> None:
    # Not even which fold a row was in, by the mean of the others or by rounding.
    rows = TrainingRows.of(np.ones((400, 2)), Y, None, ids=None, steps=None)
    assert np.all(fit_guides(rows, PLAN, ())[1].guide_rows(rows.X, rows.units)[:, 2:] == 0.0)


def test_missing_features_and_categories_have_effects_of_their_own() -> None:
    rng = np.random.default_rng(1)
    kind, number = rng.integers(0, 4, size=600).astype(float), rng.normal(size=600)
    lost = rng.random(600) < 0.3
    effect = np.array([3.0, -2.0, 0.0, 5.0])[kind.astype(int)]
    truth = effect + np.where(lost, 4.0, number)
    features = np.stack([kind, np.where(lost, np.nan, number)], axis=1)
    guides = guides_of(features, truth + 0.1 * rng.normal(size=600), (0,))
    assert min(correlations(guides, features, truth)) > 0.99
    strange = np.array([[17.0, 1e300], [np.nan, np.nan], [2.0, -1e300]])
    assert np.isfinite(guide_rows(guides, strange)[:, 2:]).all()


def test_guides_know_no_rare_category() -> None:
    # Without a fold, the mean of a rare category would tell the fold's own outcomes.
    for n_categories, known in ((25, True), (50, False)):
        n = 1_500 // n_categories
        kinds = np.tile(np.arange(float(n_categories)), n)[:, None]
        y = np.tile(RNG.normal(size=n_categories), n)
        told = guide_rows(guides_of(kinds, y, (0,)), kinds)[:, -2:]
        spread = known * np.ptp(y) / y.std()
        assert np.ptp(told, axis=0) == pytest.approx([spread, spread], rel=0.1)


def test_columns_of_noise_hardly_blur_the_linear_guide() -> None:
    rng = np.random.default_rng(2)
    few, noise = rng.normal(size=(300, 3)), rng.normal(size=(300, 150))
    truth = few.sum(axis=1)
    y = truth + 4.0 * rng.normal(size=300)
    wide = np.concatenate([few, noise], axis=1)
    rows = TrainingRows.of(wide, y, None, ids=np.arange(300), steps=None)
    guides = fit_guides(rows, GuidePlan(5, (0,)), ())[0]
    new = rng.normal(size=(1_000, 153))
    mean = (new[:, :3].sum(axis=1) - y.mean()) / y.std()
    told = guide_rows(guides, new)[:, -1]
    assert np.square(told - mean).mean() < 0.9 * np.square(mean).mean()


def test_huge_and_tiny_numbers_stay_numbers() -> None:
    for scale in (1e-300, 1e150):
        guides = guides_of(X * scale, Y * scale)
        assert np.isfinite(guide_rows(guides, X * scale)).all()


DAMAGE = {
    "guide_terms": lambda a: a[:-1],
    "guide_category_start": lambda a: a + 1,
    "guide_categories": lambda a: a[::-1],
    "guide_effects": lambda a: a * np.inf,
    "guide_edges": lambda a: a[::-1],
    "guide_edge_start": lambda a: a[:-1],
    "guide_categorical": lambda a: a[1:],
    "guide_category_order": lambda a: np.append(a, np.uint16(0)),
    "guide_nodes": lambda a: a | (np.int64(0x7FFF) << 48),
    "guide_values": lambda a: a[:-3],
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damaged_arrays_are_refused(name: str) -> None:
    features = np.column_stack([X, np.tile(np.arange(4.0), 100)])
    arrays = guides_to_arrays(guides_of(features, Y, (5,)))
    guides_from_arrays(arrays)
    with pytest.raises(ModelFileError, match=r"damaged|needs"):
        guides_from_arrays({**arrays, name: DAMAGE[name](arrays[name])})
    if arrays[name].size:  # only files of 0.2 have an order of categories
        with pytest.raises(ModelFileError, match="need"):
            guides_from_arrays({**arrays, name: arrays[name][:0]})
    with refuses(ModelFileError, None, name):
        guides_from_arrays({key: a for key, a in arrays.items() if key != name})
