"""Venn–Abers is isotonic regression with one more label, precomputed for every place of it."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known import Atoms, Shifted, Uniform
from ontarget.conformal.venn_abers import Envelopes, VennAbers
from ontarget.errors import CalibrationError, InputError, UnfittedError
from ontarget.target import Target
from refusals import refuses

with np.errstate():  # importing the package switches NumPy's warnings off for the whole process
    from venn_abers.venn_abers import calc_p0p1, calc_probs

labelled = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=25)


def slow_isotonic(pairs: list[tuple[float, bool]], score: float, label: bool) -> Fraction:
    """The isotonic value at the score, added with the label: the min-max formula."""
    groups: dict[float, list[bool]] = {}
    for s, z in [*pairs, (score, label)]:
        groups.setdefault(s, []).append(z)
    keys = sorted(groups)
    j = keys.index(score)

    def mean(a: int, b: int) -> Fraction:
        pooled = [z for key in keys[a : b + 1] for z in groups[key]]
        return Fraction(sum(pooled), len(pooled))

    return max(min(mean(a, b) for b in range(j, len(keys))) for a in range(j + 1))


@given(labelled, st.integers(-1, 26))
def test_pair_is_exactly_the_isotonic_value_with_either_label(
    pairs: list[tuple[int, bool]], twice: int
) -> None:
    score = twice / 2  # on a calibration score, between two, or beyond them all
    known = [(float(s), z) for s, z in pairs]
    p0, p1 = Envelopes.of([s for s, _ in known], [z for _, z in known]).pair(score)
    assert p0 == float(slow_isotonic(known, score, False))
    assert p1 == float(slow_isotonic(known, score, True))


@given(labelled)
def test_pair_is_ordered_monotone_and_brackets_the_one_number(
    pairs: list[tuple[int, bool]],
) -> None:
    envelopes = Envelopes.of([s for s, _ in pairs], [z for _, z in pairs])
    low, p, high = envelopes.probability(np.arange(-1.0, 14.0, 0.25))
    assert np.all((low >= 0) & (low <= p) & (p <= high) & (high <= 1))
    assert np.all(low < high)
    for part in (low, p, high):
        assert np.all(np.diff(part) >= 0)


def package(scores: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it divides 0 by 0 and takes it from there
        p0, p1, c = calc_p0p1(np.column_stack((1 - scores, scores)), labels.astype(float))
        return calc_probs(p0, p1, c, np.column_stack((1 - at, at)))[1]


@pytest.mark.parametrize("decimals", [None, 2, 1])
@pytest.mark.parametrize("n", [1, 2, 30, 1000])
def test_equals_the_venn_abers_package(n: int, decimals: int | None) -> None:
    # With ties (decimals) the package pools equal scores as well, so there is no difference.
    rng = np.random.default_rng(n)
    scores, at = rng.random(n), rng.random(500)
    labels = rng.random(n) < scores
    if decimals is not None:
        scores, at = scores.round(decimals), at.round(decimals)
    ours = np.column_stack(Envelopes.of(scores, labels).pair(at))
    assert ours == pytest.approx(package(scores, labels, at), abs=1e-12)


def test_score_comes_from_the_uncalibrated_distribution_of_each_episode() -> None:
    model = Shifted(Uniform())
    rng = np.random.default_rng(0)
    X = rng.random((300, 1))
    offset = rng.integers(0, 3, 300).astype(float)
    y = X[:, 0] + rng.random(300)
    target = Target(0.4, 0.9) | Target.at_least(1.5)
    venn_abers = VennAbers(model, target).calibrate(X, y, offset=offset)

    def score(x: float, b: float) -> float:
        def cdf(end: float) -> float:
            return min(max(end - b - x, 0.0), 1.0)

        return cdf(0.9) - cdf(0.4) + 1.0 - cdf(1.5)

    scores = [score(x, b) for x, b in zip(X[:, 0], offset, strict=True)]
    by_hand = Envelopes.of(scores, target.contains(y + offset)).probability(scores)
    ours = venn_abers.probability(X, offset)
    assert ours.p == pytest.approx(by_hand.p, abs=1e-9)
    assert venn_abers.n_calibration == 300


def test_labels_are_taken_on_the_grid() -> None:
    y = np.array([0.1 + 0.2, 0.3, 0.2])
    model = Atoms([0.2, 0.3], [1, 1])
    venn_abers = VennAbers(model, Target.at_most(0.3), grid=1e-9).calibrate(np.zeros((3, 1)), y)
    assert venn_abers.probability(np.zeros((1, 1))).low == 0.75


def test_target_may_be_a_predicate_over_several_outcomes() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    y = X + rng.normal(0.0, 0.1, (500, 2))
    venn_abers = VennAbers(
        lambda rows: np.asarray(rows).min(axis=1), lambda out: (out > 0.5).all(axis=1)
    ).calibrate(X, y)
    p = venn_abers.probability(np.array([[0.1, 0.9], [0.9, 0.9]])).p
    assert p[0] < 0.1
    assert p[1] > 0.9


def test_fixed_target_is_calibrated_where_pcqr_is_not() -> None:
    # The model is wrong about the spread; for the rare target only Venn–Abers is right on average.
    from ontarget.conformal.pcqr import PCQR

    rng = np.random.default_rng(5)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.integers(0, 2, (n, 1)).astype(float)
        return X, np.where(X[:, 0] == 0, rng.random(n), X[:, 0] + rng.random(n) ** 4)

    X, y = draw(4000)
    model, target = Shifted(Uniform()), Target(1.9, 2.0)
    fresh, outcome = draw(4000)
    truth = target.contains(outcome).mean()
    ours = VennAbers(model, target).calibrate(X, y).probability(fresh).p.mean()
    pcqr = PCQR(model).calibrate(X, y).probability(fresh, target).p.mean()
    assert abs(ours - truth) < 0.01
    assert abs(pcqr - truth) > 0.012


def test_bad_input_is_refused_with_a_reason() -> None:
    X = np.zeros((2, 1))
    with refuses(InputError, "scores", "(1,) and (2,)"):
        Envelopes.of([0.1], [True, False])
    with refuses(InputError, "scores", "finite"):
        Envelopes.of([math.nan], [True])
    with refuses(InputError, "labels"):
        Envelopes.of([0.1], [3])
    with refuses(CalibrationError, None, "Venn–Abers"):
        Envelopes.of([], [])
    with refuses(InputError, "model", "int"):
        VennAbers(3, Target())  # type: ignore[arg-type]
    with refuses(InputError, "target", 3):
        VennAbers(Uniform(), 3)  # type: ignore[arg-type]
    with refuses(InputError, "target", "function"):
        VennAbers(Uniform(), lambda y: y > 0)
    with refuses(UnfittedError, None, "VennAbers"):
        VennAbers(Uniform(), Target()).probability(X)
    with refuses(InputError, "y", "nan", "row 1"):
        VennAbers(Uniform(), Target()).calibrate(X, [0.1, math.nan])
    with refuses(InputError, "target", "float64", "(2,)"):
        VennAbers(lambda rows: rows[:, 0], lambda y: np.asarray(y)).calibrate(X, [0.1, 0.2])
    with refuses(InputError, "model", "(2, 1)"):
        VennAbers(lambda rows: rows, Target()).calibrate(X, [0.1, 0.2])
