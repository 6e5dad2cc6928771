"""A target's own map on arrays: what each candidate is, and how the candidates are weighed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from ontarget.conformal.venn_abers import VennAbers
from ontarget.fitted import target_map
from ontarget.fitted._map_kernel import fit_slopes
from ontarget.fitted.kernels import KNOTS
from ontarget.fitted.target_map import FOLDS, Maps, StepAnswers, faded, fit_maps, folds_of

N_CANDIDATES = 13


def answers(p: np.ndarray, who: np.ndarray | None = None) -> StepAnswers:
    return StepAnswers(np.arange(p.size) if who is None else who, p)


def mapped(steps: list[StepAnswers], met: np.ndarray, *, fading: bool = True) -> Maps:
    return fit_maps(steps, met, folds_of(met), fading=fading)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[StepAnswers], np.ndarray]:
    """Episodes at three steps, some over early, with p that may be far from the truth."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, slope = draw(st.integers(2, 120)), draw(st.sampled_from([-1.0, 0.3, 1.0, 3.0]))
    z = draw(st.sampled_from([0.2, 2.0, 8.0])) * rng.normal(size=n)
    met = rng.random(n) < expit(slope * z + draw(st.sampled_from([-2.0, 0.0, 1.0])))
    steps = []
    for lasting in (1.0, 0.7, 0.2):
        who = np.flatnonzero(rng.random(n) < lasting)
        p = expit(z[who] + 0.2 * rng.normal(size=who.size))
        steps.append(answers(np.round(p, draw(st.sampled_from([1, 9]))), who))
    return steps, met


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_map_rises_with_p_and_stays_a_probability(case) -> None:
    steps, met = case
    maps = mapped(steps, met)
    assert np.all(np.diff(maps.tables, axis=-1) >= 0.0)
    assert maps.tables.min() >= 0.0
    assert maps.tables.max() <= 1.0
    np.testing.assert_allclose(maps.weights.sum(axis=1), 1.0)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_mixture_never_foretells_worse_than_the_identity_by_more_than_its_price(case) -> None:
    steps, met = case
    maps = mapped(steps[:1], met)  # no step beside it, so that its own losses weigh the candidates
    if np.isnan(maps.losses[0, 0]):
        assert maps.weights[0].tolist() == [1.0] + [0.0] * (N_CANDIDATES - 1)
        return
    n = steps[0].p.size
    # The log loss of a mean of forecasts is at most the mean of their log losses.
    assert maps.weights[0] @ maps.losses[0] <= maps.losses[0, 0] + np.log(2.0) / n + 1e-12


@settings(max_examples=25, deadline=None)
@given(cases(), st.randoms())
def test_the_order_of_the_rows_makes_no_difference(case, random) -> None:
    steps, met = case
    shuffled = []
    for one in steps:
        order = list(range(one.p.size))
        random.shuffle(order)
        shuffled.append(answers(one.p[order], one.episodes[order]))
    one, other = mapped(steps, met), mapped(shuffled, met)
    np.testing.assert_allclose(one.tables, other.tables, atol=1e-9)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-9)


@pytest.mark.parametrize("label", [True, False])
def test_without_both_labels_the_map_is_the_identity(label: bool) -> None:
    p = np.random.default_rng(0).random(50)
    maps = mapped([answers(p), answers(np.empty(0), np.empty(0, dtype=int))], np.full(50, label))
    assert np.array_equal(maps.tables, np.broadcast_to(KNOTS, maps.tables.shape))
    assert maps.weights[:, 0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("seed", range(4))
def test_a_right_p_stays_what_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=3000)
    maps = mapped([answers(expit(z))], rng.random(3000) < expit(z))
    assert maps.weights[0, 0] > 0.25
    assert np.abs(maps.tables[FOLDS, 0] - KNOTS).max() < 0.02


@pytest.mark.parametrize("slope", [(0.4, 0.4), (2.0, 0.5)], ids=["one slope", "two slopes"])
def test_a_wrong_p_is_put_right(slope: tuple[float, float]) -> None:
    rng = np.random.default_rng(2)
    z = 2.0 * rng.normal(size=4000)

    def truth(at: np.ndarray) -> np.ndarray:
        return expit(0.5 + slope[0] * np.minimum(at, 0.0) + slope[1] * np.maximum(at, 0.0))

    maps = mapped([answers(expit(z))], rng.random(4000) < truth(z))
    at = expit(np.linspace(-3.0, 3.0, 13))
    found = np.interp(at, KNOTS, maps.tables[FOLDS, 0])
    assert maps.weights[0, 0] < 1e-6
    assert np.abs(found - truth(logit(at))).mean() < 0.025
    assert np.abs(at - truth(logit(at))).mean() > 0.05


def test_jumps_that_no_slope_can_follow_are_left_to_venn_abers() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(4000)
    maps = mapped([answers(p)], rng.random(4000) < np.where(p < 0.7, 0.2, 0.9))
    assert maps.weights[0, -4:].sum() > 0.99
    wanted = np.where(KNOTS < 0.7, 0.2, 0.9)
    assert np.abs(maps.tables[FOLDS, 0] - wanted).mean() < 0.03


def test_the_venn_abers_candidate_is_the_librarys_own(monkeypatch: pytest.MonkeyPatch) -> None:

    only_last = np.zeros(N_CANDIDATES)
    only_last[-1] = 1.0
    monkeypatch.setattr(target_map, "_weights", lambda losses, steps, place: only_last)
    rng = np.random.default_rng(4)
    p, met = np.round(rng.random(200), 2), rng.random(200) < 0.6
    maps = fit_maps([answers(p)], met, folds_of(met), fading=False)
    for fold, rows in [*((f, folds_of(met) != f) for f in range(FOLDS)), (FOLDS, slice(None))]:
        library = VennAbers(lambda rows: rows[:, 0], lambda y: np.asarray(y) > 0.5)
        library.calibrate(p[rows, None], met[rows].astype(float))
        np.testing.assert_allclose(
            maps.tables[fold, 0], library.probability(KNOTS[:, None]).p, atol=1e-12
        )


def test_steps_beside_one_help_to_judge_it_and_to_learn_its_slopes() -> None:
    rng = np.random.default_rng(5)
    z = 1.5 * rng.normal(size=2000)
    met = rng.random(2000) < expit(0.4 * z)
    few = np.arange(60)
    alone = mapped([answers(expit(z[few]), few)], met)
    beside = mapped([answers(expit(z)), answers(expit(z[few]), few), answers(expit(z))], met)
    gap = [
        np.abs(one - expit(0.4 * logit(KNOTS[1:-1]))).max()
        for one in (alone.tables[FOLDS, 0, 1:-1], beside.tables[FOLDS, 1, 1:-1])
    ]
    assert gap[1] < gap[0]


def test_folds_share_successes_evenly() -> None:
    met = np.random.default_rng(6).random(103) < 0.3
    fold = folds_of(met)
    for label in (True, False):
        counts = np.bincount(fold[met == label], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.sampled_from([1.0, 10.0, 250.0]),
    st.booleans(),
)
def test_slopes_are_those_of_a_general_optimiser(
    seed: int, n: int, strength: float, two: bool
) -> None:
    rng = np.random.default_rng(seed)
    z = rng.choice([0.3, 2.0, 6.0]) * rng.normal(size=n)
    low, high = (np.minimum(z, 0.0), np.maximum(z, 0.0)) if two else (z, np.zeros(n))
    precision = strength * np.array([1.0, 2.0, 2.0] if two else [1.0, 4.0, 1.0])
    weights = rng.choice([0.0, 0.5, 2.0], n)
    hits = weights * (rng.random(n) < expit(3.0 * rng.normal() + 2.0 * rng.normal() * z))

    def lost(theta: np.ndarray) -> tuple[float, np.ndarray]:
        eta, away = theta[0] + theta[1] * low + theta[2] * high, theta - [0.0, 1.0, 1.0]
        value = np.sum(weights * np.logaddexp(0.0, eta) - hits * eta)
        residual = weights * expit(eta) - hits
        gradient = np.array([residual.sum(), residual @ low, residual @ high])
        return value + 0.5 * np.sum(precision * away**2), gradient + precision * away

    start = np.array([0.0, 1.0, 1.0])
    best = minimize(
        lost, start, jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None), (0, None)],
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000},
    )  # fmt: skip
    found = start.copy()
    fit_slopes(low, high, hits, weights, precision, found)
    assert found[1:].min() >= 0.0
    assert lost(found)[0] <= best.fun + 1e-7


def test_a_map_is_the_identity_where_no_p_was_seen() -> None:
    """M31: no learning run has a low p here, so the map may not lift the p of a run about to fail.

    The planted bug is the map without fading, which extrapolates .003 to a quarter.
    """
    rng = np.random.default_rng(6)
    p = rng.uniform(0.55, 0.95, 400)
    met = rng.random(400) < 0.75
    maps = [fit_maps([answers(p)], met, folds_of(met), fading=f).tables[FOLDS, 0] for f in (1, 0)]
    with_fading, without = (np.interp(0.003, KNOTS, one) for one in maps)
    assert with_fading < 0.01
    assert without > 0.2
    inside = (np.sort(p)[20] < KNOTS) & (np.sort(p)[-20] > KNOTS)
    np.testing.assert_array_equal(maps[0][inside], maps[1][inside])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.02, 1.0, 9.0]))
def test_fading_keeps_a_map_rising_and_as_it_is_where_p_was_seen(seed, n, spread) -> None:
    rng = np.random.default_rng(seed)
    table = np.sort(expit(spread * rng.normal(size=KNOTS.size)))[None]
    p = np.sort(rng.beta(*rng.uniform(0.2, 4.0, 2), n))
    found = faded(table, p)[0]
    assert np.all(np.diff(found) >= 0.0)
    kept = min(20, (n + 1) // 2)
    inside = (p[kept - 1] <= KNOTS) & (p[-kept] >= KNOTS)
    np.testing.assert_array_equal(found[inside], table[0, inside])


def test_a_map_of_few_episodes_is_the_identity_where_maps_fade() -> None:
    rng = np.random.default_rng(8)
    p, met = rng.random(49), rng.random(49) < 0.9  # far too low, as it seems
    few, old = (mapped([answers(p)], met, fading=fading) for fading in (True, False))
    np.testing.assert_array_equal(few.tables[FOLDS, 0], KNOTS)
    assert np.abs(old.tables[FOLDS, 0] - KNOTS).max() > 0.05
