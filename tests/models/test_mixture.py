"""Mixtures of models: sums of their limits, and quantiles that invert those sums exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from known import Atoms, Shifted, Uniform
from ontarget.errors import InputError
from ontarget.models import Marginal, QuantileForest, StackedForest
from ontarget.models.base import Side
from ontarget.models.mixture import Parts, mixture_limits, mixture_quantile
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = X[:, 0] + RNG.normal(size=200)
QUERIES = RNG.normal(size=(30, 2))
FOREST = QuantileForest(8).fit(X, Y)
ATOMS = QuantileForest(8, smooth=False).fit(X, np.round(Y))
STACKED = StackedForest(8).fit(X, np.where(X[:, 1] > 1.0, 0.0, Y))
FLAT = Marginal().fit(X[:, :1], Y)
LEVELS = [-0.5, 0.0, 1e-9, 0.1, 1 / 3, 0.5, 0.9, 1 - 1e-9, 1.0, 1.5]
SIDES: list[Side] = ["left", "right"]

MIXTURES: dict[str, Parts] = {
    "continuous": [(0.7, FOREST), (0.3, STACKED)],
    "atoms": [(0.25, ATOMS), (0.75, ATOMS)],
    "both": [(0.1, ATOMS), (0.2, FOREST), (0.7, STACKED)],
    "tenths": [(0.1, FOREST)] * 10,  # which sum to a little less than 1
    "nothing of one": [(1.0, FOREST), (0.0, STACKED)],
}


class Law:
    """A continuous law of SciPy's, the same for every row."""

    def __init__(self, law) -> None:
        self.law = law

    def fit(self, X, y):
        raise NotImplementedError

    def cdf_limits(self, X, y):
        values = self.law.cdf(np.asarray(y, dtype=float))
        mass = np.broadcast_to(values, (len(X),)) if values.ndim == 0 else values
        return mass, mass

    def quantile(self, X, q, *, side="left"):
        return np.tile(self.law.ppf(np.clip(q, 0.0, 1.0)), (len(X), 1))


@pytest.mark.parametrize("model", [FOREST, ATOMS, STACKED])
def test_a_mixture_of_one_is_that_model_to_the_last_bit(model: QuantileForest) -> None:
    ys = RNG.normal(size=(30, 4))
    for y in (ys, ys[:, 0], 0.3):
        found = mixture_limits([(1.0, model)], [QUERIES], y)
        assert np.array_equal(found, model.cdf_limits(QUERIES, y))
    for side in SIDES:
        found = mixture_quantile([(1.0, model)], [QUERIES], LEVELS, side)
        assert np.array_equal(found, model.quantile(QUERIES, LEVELS, side=side))


def test_limits_are_the_weighted_sums_of_rows_that_each_model_reads_in_its_own_way() -> None:
    ys = RNG.normal(size=(30, 4))
    found = mixture_limits([(0.7, FOREST), (0.3, FLAT)], [QUERIES, QUERIES[:, :1]], ys)
    for side in range(2):
        own = FOREST.cdf_limits(QUERIES, ys)[side], FLAT.cdf_limits(QUERIES[:, :1], ys)[side]
        assert np.array_equal(found[side], 0.7 * own[0] + 0.3 * own[1])


@pytest.mark.parametrize("name", list(MIXTURES))
def test_certainty_is_exactly_1_whatever_the_weights_sum_to(name: str) -> None:
    parts = MIXTURES[name]
    left, right = mixture_limits(parts, [QUERIES] * len(parts), np.tile([-1e9, 1e9], (30, 1)))
    assert np.all(right[:, 1] == 1.0)
    assert np.all((left >= 0.0) & (left <= right) & (right <= 1.0))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", list(MIXTURES))
def test_the_level_is_reached_at_its_quantile_and_not_one_float_before(
    name: str, side: Side
) -> None:
    parts = MIXTURES[name]
    inputs = [QUERIES] * len(parts)
    found = mixture_quantile(parts, inputs, LEVELS, side)
    assert found.shape == (30, len(LEVELS))
    for k, q in enumerate(LEVELS):
        at = found[:, k]
        assert np.array_equal(mixture_quantile(parts, inputs, q, side), at)
        rows = np.flatnonzero(np.isfinite(at))
        before = np.nextafter(at[rows], -np.inf)
        asked = [QUERIES[rows]] * len(parts)
        here, there = (mixture_limits(parts, asked, y)[1] for y in (at[rows], before))
        assert np.all(here > q if side == "right" else here >= q)
        assert np.all(there <= q if side == "right" else there < q)
    ends = {"left": ([0, 1], [9]), "right": ([0], [8, 9])}[side]
    assert np.all(found[:, ends[0]] == -np.inf)
    assert np.all(found[:, ends[1]] == np.inf)
    assert np.isfinite(found[:, 3:7]).all()


@given(
    first=st.lists(st.integers(1, 5), min_size=4, max_size=4),
    second=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    weight=st.floats(0.01, 0.99),
    q=st.floats(0.0, 1.0) | st.sampled_from([0.25, 0.5, 1.0]),
    side=st.sampled_from(SIDES),
)
def test_quantiles_of_atoms_are_found_by_trying_every_atom(
    first: list[int], second: list[int], weight: float, q: float, side: Side
) -> None:
    parts = [(weight, Atoms([-3.0, 0.0, 1.0, 7.0], first)), (1 - weight, Atoms([0, 2, 7], second))]
    rows = np.zeros((1, 1))
    found = mixture_quantile(parts, [rows, rows], q, side)[0]
    reached = [
        value
        for value in (-3.0, 0.0, 1.0, 2.0, 7.0)
        if (mass := mixture_limits(parts, [rows, rows], value)[1][0]) > q
        or (mass == q and side == "left")
    ]
    wanted = reached[0] if reached else np.inf
    assert found == (-np.inf if q == 0.0 and side == "left" else wanted)
    assert not (found == 0.0 and np.signbit(found))


def test_quantiles_of_continuous_laws_invert_the_known_sum() -> None:
    laws = [(0.4, Law(stats.norm(-1.0, 0.5))), (0.6, Law(stats.expon(1.0, 3.0)))]
    rows = np.zeros((2, 1))
    levels = np.array([1e-6, 0.2, 0.4, 0.7, 0.999])
    found = mixture_quantile(laws, [rows, rows], levels)
    for y, q in zip(found[0], levels, strict=True):
        mass = 0.4 * stats.norm(-1.0, 0.5).cdf(y) + 0.6 * stats.expon(1.0, 3.0).cdf(y)
        assert mass == pytest.approx(q, abs=1e-14)
    # Half on [0, 1], half on [10, 11]: flat between, where both inverses part.
    apart = [(0.5, Uniform()), (0.5, Shifted(Uniform()))]
    inputs = [np.zeros((1, 1)), np.full((1, 1), 10.0)]
    assert mixture_quantile(apart, inputs, [0.25, 0.5, 0.75], "left").tolist() == [[0.5, 1.0, 10.5]]
    above = mixture_quantile(apart, inputs, 0.5, "right")[0]
    assert above == pytest.approx(10.0, abs=1e-14)
    assert above > 10.0


def test_no_more_than_64_rounds_and_two_looks_at_the_bracket_are_needed() -> None:
    class Counting(Law):
        asked = 0

        def cdf_limits(self, X, y):
            self.asked += 1
            return super().cdf_limits(X, y)

        def quantile(self, X, q, *, side="left"):
            return np.full((len(X), len(q)), 1e300)  # a bracket that is of no use

    parts = [(0.5, Counting(stats.norm())), (0.5, Counting(stats.norm()))]
    found = mixture_quantile(parts, [np.zeros((3, 1))] * 2, [0.3, 0.5])
    assert found[0] == pytest.approx(stats.norm.ppf([0.3, 0.5]), abs=1e-12)
    assert parts[0][1].asked <= 66


def test_bad_questions_are_refused_and_no_rows_get_no_answers() -> None:
    parts = MIXTURES["continuous"]
    with refuses(InputError, "side", "'up'"):
        mixture_quantile(parts, [QUERIES] * 2, 0.5, "up")  # type: ignore[arg-type]
    with refuses(InputError, "q", "NaN"):
        mixture_quantile(parts, [QUERIES] * 2, np.nan)
    assert mixture_quantile(parts, [QUERIES[:0]] * 2, [0.1, 0.9]).shape == (0, 2)
