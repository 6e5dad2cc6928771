from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from ontarget.errors import InputError
from ontarget.evaluation import crps, crps_of_points
from ontarget.models.marginal import Marginal
from refusals import refuses

NUMBERS = st.floats(-100, 100, allow_nan=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_crps_of_a_point_is_the_distance_to_it(pairs) -> None:
    points, y = np.array(pairs).T
    np.testing.assert_allclose(crps_of_points(points[:, None], y), np.abs(points - y), atol=1e-12)
    found = [crps([v], [[0.0]], [[1.0]], [w])[0] for v, w in pairs]
    np.testing.assert_allclose(found, np.abs(points - y), atol=1e-12)


@given(st.lists(NUMBERS, min_size=1, max_size=15), NUMBERS, st.integers(0, 2**32))
def test_crps_of_points_is_mean_distance_less_half_their_spread(points, y, seed) -> None:
    values = np.array(points)
    weights = np.random.default_rng(seed).random(values.size) + 0.01
    share = weights / weights.sum()
    spread = np.abs(values[:, None] - values[None, :])
    expected = share @ np.abs(values - y) - 0.5 * share @ spread @ share
    found = crps_of_points(values, [y], weights=weights)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert found[0] >= 0.0


def by_quadrature(cdf, y, knots):
    low, high = min(knots[0], y) - 1.0, max(knots[-1], y) + 1.0
    breaks = np.unique([low, *knots, y, high])
    pieces = [
        integrate.quad(lambda x: (cdf(x) - (x >= y)) ** 2, a, b, limit=200)[0]
        for a, b in itertools.pairwise(breaks)
    ]
    return sum(pieces)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(-3, 8))
def test_crps_with_jumps_and_slopes_agrees_with_quadrature(seed, y) -> None:
    rng = np.random.default_rng(seed)
    knots = np.cumsum(rng.random(4) + 0.1)
    # Eight rising numbers: the left and the right limit at each of four knots.
    steps = np.sort(rng.random(8))
    steps[rng.random(8) < 0.2] = 0.0
    steps = np.sort(steps)
    left, right = steps[::2].copy(), steps[1::2].copy()
    left[0], right[-1] = 0.0, 1.0

    def cdf(x):
        if x < knots[0]:
            return 0.0
        if x >= knots[-1]:
            return 1.0
        j = np.searchsorted(knots, x, side="right") - 1
        part = (x - knots[j]) / (knots[j + 1] - knots[j])
        return right[j] + part * (left[j + 1] - right[j])

    found = crps(knots, left[None], right[None], [y])[0]
    assert found == pytest.approx(by_quadrature(cdf, y, knots), abs=1e-7)


def test_crps_of_a_normal_on_fine_knots_is_its_closed_form() -> None:
    knots = np.linspace(-9, 9, 20_001)
    y = np.array([-2.0, 0.0, 0.3, 4.0])
    cdf = np.tile(stats.norm.cdf(knots), (4, 1))
    closed = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(crps(knots, cdf, cdf, y), closed, atol=1e-6)


def test_leaving_out_the_logistic_share_of_the_smoothed_cdf_changes_next_to_nothing() -> None:
    rng = np.random.default_rng(0)
    values = np.sort(rng.normal(size=40)) * 10
    start = values[0] - (values[-1] - values[0]) / 39
    knots = np.concatenate(([start], values))
    mass = np.linspace(0, 1, 41)
    scale = np.subtract(*np.quantile(values, [0.75, 0.25]))

    def smoothed(x):
        tail = stats.logistic.cdf(x, loc=np.median(values), scale=scale)
        return (1 - 1e-6) * np.interp(x, knots, mass) + 1e-6 * tail

    for y in (-40.0, 0.0, 3.0, 55.0):
        at_knots = smoothed(knots)[None]
        exact = by_quadrature(smoothed, y, np.concatenate(([-2000.0], knots, [2000.0])))
        assert crps(knots, at_knots, at_knots, [y])[0] == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("kind", ["continuous", "atoms", "mixed"])
def test_crps_of_a_models_smoothed_cdf_is_its_integral(kind) -> None:
    rng = np.random.default_rng(1)
    training = {
        "continuous": rng.normal(size=60) * 5,
        "atoms": rng.integers(0, 6, size=60).astype(float),
        "mixed": np.concatenate((rng.normal(size=50) * 5, np.zeros(10))),
    }[kind]
    model = Marginal().fit(np.zeros((60, 1)), training)
    start, values = model.support_.tail[0], model.support_.values
    knots = values if kind == "atoms" else np.concatenate(([start], values))
    y = np.array([-7.3, 0.0, 2.5, 20.0])
    left, right = model.cdf_limits(np.zeros((4, 1)), np.tile(knots, (4, 1)))
    # A fine grid with every knot in it, half open cells: the integral without the closed form.
    grid = np.sort(np.concatenate((np.linspace(-60, 60, 400_001), knots, y)))
    middle = (grid[:-1] + grid[1:]) / 2
    cdf = model.cdf_limits(np.zeros((1, 1)), middle[None])[1][0]
    for found, outcome in zip(crps(knots, left, right, y), y, strict=True):
        integral = np.diff(grid) @ (cdf - (middle >= outcome)) ** 2
        assert found == pytest.approx(integral, abs=1e-4)


def test_rows_are_scored_alone_whatever_the_batch(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    knots = np.sort(rng.random((50, 6)), axis=1)
    cdf = np.sort(rng.random((50, 6)), axis=1)
    y = rng.random(50)
    whole = crps(knots, cdf, cdf, y)
    monkeypatch.setattr("ontarget.evaluation.distributions._BLOCK", 12)
    np.testing.assert_array_equal(crps(knots, cdf, cdf, y), whole)
    one = [crps(k, c[None], c[None], [v])[0] for k, c, v in zip(knots, cdf, y, strict=True)]
    np.testing.assert_array_equal(one, whole)


def test_a_step_function_scores_as_its_points() -> None:
    points, y = np.array([[1.0, 2.0, 4.0, 8.0]]), np.array([3.0])
    right = np.array([[0.25, 0.5, 0.75, 1.0]])
    left = np.array([[0.0, 0.25, 0.5, 0.75]])
    np.testing.assert_allclose(crps(points[0], left, right, y), crps_of_points(points, y))


@pytest.mark.parametrize(
    ("arguments", "argument", "shown"),
    [
        (([0.0, 0.0], [[0.0, 1.0]], [[0.0, 1.0]], [0.5]), "knots", "ascending"),
        (([0.0, 1.0], [[0.5, 0.2]], [[0.5, 0.2]], [0.5]), "left", "CDF"),
        (([0.0, 1.0], [[0.0, 1.0]], [[0.0, 1.1]], [0.5]), "left", "CDF"),
        (([0.0, 1.0], [[0.5, 1.0]], [[0.4, 1.0]], [0.5]), "left", "CDF"),
        (([0.0, 1.0], [[0.0, 1.0]], [[0.0, 1.0]], [0.5, 0.6]), "left", "(1, 2)"),
        (([0.0], [[0.0, 1.0]], [[0.0, 1.0]], [0.5]), "knots", "(2,)"),
        (([0.0, np.inf], [[0.0, 1.0]], [[0.0, 1.0]], [0.5]), "knots", "infinite"),
        (([0.0, 1.0], [[0.0, 1.0]], [[0.0, 1.0]], [np.nan]), "y", "nan"),
    ],
)
def test_what_is_no_distribution_is_refused(arguments, argument, shown) -> None:
    with refuses(InputError, argument, shown):
        crps(*arguments)


def test_bad_weights_are_refused() -> None:
    with refuses(InputError, "weights", "sum"):
        crps_of_points([1.0, 2.0], [0.0], weights=[-1.0, 2.0])
    with refuses(InputError, "weights", "sum"):
        crps_of_points([1.0, 2.0], [0.0], weights=[0.0, 0.0])
    with refuses(InputError, "points", "(2,) and (3,)"):
        crps_of_points([1.0, 2.0], [0.0], weights=[1.0, 1.0, 1.0])
