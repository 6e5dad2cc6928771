from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from ontarget import Episodes, GoalMonitor, Target
from ontarget.fitted.kernels import SPREAD_LEVEL, share_bounds
from ontarget.models import Marginal

TAIL = (1 - SPREAD_LEVEL) / 2
SIZES = [1, 2, 3, 16, 40, 256, 257, 1_000, 5_000, 20_000, 100_000]


def clopper_pearson(inside: np.ndarray, n: int) -> np.ndarray:
    """The reference: (2, counts), from the quantiles of SciPy's beta distribution."""
    low, high = np.zeros(inside.size), np.ones(inside.size)
    some, not_all = inside > 0, inside < n
    low[some] = beta.ppf(TAIL, inside[some], n - inside[some] + 1)
    high[not_all] = beta.isf(TAIL, inside[not_all] + 1, n - inside[not_all])
    return np.stack([low, high])


@pytest.mark.parametrize("n", SIZES)
def test_bounds_are_those_of_clopper_and_pearson_at_every_count(n) -> None:
    near = np.arange(min(n, 300) + 1)
    inside = np.unique(np.concatenate([near, n - near, np.linspace(0, n, 500).astype(int)]))
    np.testing.assert_allclose(share_bounds(inside, n), clopper_pearson(inside, n), rtol=1e-12)


@given(st.integers(1, 2_000_000), st.data())
def test_bounds_of_any_count_lie_around_its_share(n, data) -> None:
    inside = np.array([data.draw(st.integers(0, n))])
    (low,), (high,) = share_bounds(inside, n)
    assert low <= inside[0] / n <= high
    np.testing.assert_allclose([[low], [high]], clopper_pearson(inside, n), rtol=1e-10)


@pytest.mark.parametrize("share", [1e-4, 4.8e-4, 1e-3, 0.01, 0.3, 0.5, 0.97, 0.999])
@pytest.mark.parametrize("n", [40, 256, 257, 1_000, 2_000, 5_000, 20_000])
def test_a_share_lies_in_its_spread_as_often_as_it_says(n, share) -> None:
    inside = np.arange(n + 1)
    low, high = share_bounds(inside, n)
    covered = binom.pmf(inside, n, share)[(low <= share) & (share <= high)].sum()
    assert covered >= SPREAD_LEVEL - 1e-9


def test_no_episode_says_nothing() -> None:
    assert np.array_equal(share_bounds(np.array([0]), 0), [[0.0], [1.0]])


@pytest.fixture(scope="module")
def monitor() -> GoalMonitor:
    """A monitor with 700 assure episodes, all of which have two steps."""
    rng = np.random.default_rng(5)
    states = rng.normal(size=(1_000, 2, 1))
    episodes = Episodes.from_arrays(states, rng.normal(size=(1_000, 2)))
    return GoalMonitor(model=Marginal()).fit(episodes, assure=0.7)


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
@pytest.mark.parametrize("least", [0.0, 2.0, 3.5, 4.2])
def test_the_spread_of_an_answer_is_that_of_its_count_and_p(monitor, least) -> None:
    target, state = Target.at_least(least), np.zeros((1, 1))
    step = monitor.fitted.at(0)
    edge = step.cdf_limits(step.inputs(state, np.zeros(1)), np.array([[least]]))[0]
    inside = np.array([np.sum(step.ranks.values > edge[0, 0])])
    (low,), (high,) = clopper_pearson(inside, 700)
    asked = monitor.outlook(0, state, np.zeros(1), target)
    watched = monitor.watch(target, alarm_below=0.6).step(state[0])
    for found, p in [(watched.spread, watched.p), (np.ravel(asked.spread), np.ravel(asked.p)[0])]:
        assert found == pytest.approx((min(low, p), max(high, p)), rel=1e-12)
