"""p and its spread: what they are where the truth is known (M17, M20)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from ontarget import Episodes, GoalMonitor, Target
from ontarget.fitted import curves as curves
from ontarget.fitted.curves import RankTable
from ontarget.fitted.kernels import SPREAD_HIGH, SPREAD_LEVEL, SPREAD_LOW, UNPROVED
from ontarget.fitted.law import Question, StepLaw
from ontarget.live.answering import answer_episodes
from ontarget.models import Marginal
from validity.checks import CHANCE
from validity.turns import STEPS, TARGET, World

# -- the spread ------------------------------------------------------------------------------------

DRIFTS = np.array([-1.0, 0.3, 2.0])
ASKED = [TARGET, Target(0.0, 0.0), Target(-2.0, 1.0), Target.at_most(-4.0)]


def first_step() -> StepLaw:
    """The first step of a monitor whose law is wrong and has atoms."""
    world = World(0, atoms=True, forest=False)
    return world.fitted(*world.episodes()).fitted.at(0)


def ranks_of_new_runs(step: StepLaw, n: int, rng: np.random.Generator) -> np.ndarray:
    """The ranks of so many runs of `validity.turns.runs` at the first step."""
    drift = rng.normal(size=n)
    rewards = np.rint(0.5 * drift[:, None] + rng.normal(size=(n, STEPS)))
    rewards[np.arange(STEPS) >= rng.integers(2, STEPS + 1, size=n)[:, None]] = 0.0
    X = step.inputs(np.stack([drift, rng.normal(size=n)], axis=1), np.zeros(n))
    left, right = step.cdf_limits(X, rewards.sum(axis=1))
    return left + rng.random(n) * (right - left)


def shares_in_spread(n: int = 40, replicates: int = 600, copies: int = 1) -> np.ndarray:
    """(drifts, targets): in how many replicates the calibrated share lies in the spread of p.

    Each rank is counted ``copies`` times; more than once is a mistake.
    """
    step, rng = first_step(), np.random.default_rng(40)
    states = np.stack([DRIFTS, np.zeros(3)], axis=1)
    X, question = step.inputs(states, np.zeros(3)), Question.of(ASKED, 1e-9)
    many = np.sort(ranks_of_new_runs(step, 400_000, rng))
    ends = np.array([(one.components[0].lower, one.components[0].upper) for one in ASKED])
    below = step.cdf_limits(X, np.tile(ends[:, 0], (3, 1)))[0]
    upto = step.cdf_limits(X, np.tile(ends[:, 1], (3, 1)))[1]
    counts = [np.searchsorted(many, at, side="right") for at in (below, upto)]
    share = (counts[1] - counts[0]) / many.size
    inside = np.zeros(share.shape, dtype=int)
    for _ in range(replicates):
        drawn = np.repeat(np.sort(ranks_of_new_runs(step, n, rng)), copies)
        ranks = RankTable.of([drawn], 1).at(0, 0)
        found = replace(step, ranks=ranks).outlook(states, np.zeros(3), question, np.empty(0))
        inside += (found[..., SPREAD_LOW] <= share) & (share <= found[..., SPREAD_HIGH])
    return inside


def test_the_calibrated_share_lies_in_the_spread_as_often_as_it_says() -> None:
    inside = shares_in_spread()
    assert np.all(binom.cdf(inside, 600, SPREAD_LEVEL) > CHANCE / inside.size), inside / 600
    assert inside.mean() < 0.99 * 600


def test_a_spread_that_is_too_narrow_is_caught() -> None:
    assert np.any(binom.cdf(shares_in_spread(copies=4), 600, SPREAD_LEVEL) < CHANCE)


# -- p as a measure of targets ---------------------------------------------------------------------

WORLDS = [World(0, atoms=True, forest=True), World(0, atoms=False, forest=False)]
of_every_monitor = pytest.mark.parametrize("world", WORLDS, ids=str)
points = st.one_of(st.integers(-8, 8), st.floats(-8, 8))
cuts = st.lists(points, min_size=1, max_size=6, unique=True)


@cache
def fitted(world: World, **options: Any) -> tuple[GoalMonitor, Episodes]:
    """The world's monitor and its pool."""
    learn, pool = world.episodes()
    return world.fitted(learn, pool, **options), pool


def asked(world: World, run: int, t: int, targets: Any) -> Any:
    """The outlooks of one recorded run at its last step up to t."""
    monitor, pool = fitted(world)
    one = pool.take([run])
    step = one.at(min(t, int(one.lengths[0]) - 1))
    return monitor.outlook(step.t, step.states, step.behavior, targets)


@of_every_monitor
@given(st.integers(0, 19), st.integers(0, STEPS - 1), cuts)
def test_p_adds_up_over_any_partition_and_over_unions(world, run, t, at) -> None:
    ends = [-math.inf, *sorted(at), math.inf]
    parts = [Target(a, b, closed="left") for a, b in pairwise(ends)]
    every_second = parts[0]
    for part in parts[2::2]:
        every_second |= part
    found = asked(world, run, t, [*parts, every_second])
    *p, together = found.p[0].tolist()
    few = len(ends) * UNPROVED  # an estimate is never 0, not even of what no run ever did
    assert sum(p) == pytest.approx(1.0, abs=few)
    assert together == pytest.approx(sum(p[::2]), abs=few)


@of_every_monitor
@given(st.integers(0, 19), st.integers(0, STEPS - 1), cuts, cuts)
def test_a_wider_target_never_has_a_lower_p_and_bounds_stay_in_order(
    world, run, t, one, other
) -> None:
    inner = Target(min(one), max(one))
    outer = inner | Target(min(other), max(other))
    found = asked(world, run, t, [inner, outer])
    assert found.p[0, 0] <= found.p[0, 1] + 1e-12
    assert np.all((found.low >= 0.0) & (found.low <= found.high) & (found.high <= 1.0))
    assert np.all((found.spread[..., 0] <= found.p) & (found.p <= found.spread[..., 1]))


@given(st.integers(0, 19), st.integers(0, STEPS), st.integers(-60, 60))
def test_what_arithmetic_decides_is_exactly_certain_and_nothing_else_is(run, t, v) -> None:
    monitor, pool = fitted(WORLDS[0], reward_bounds=(-9, 9))
    so_far, reach = float(pool.outcomes[run]), 9.0 * (STEPS - t)
    found = monitor.outlook(t, pool.at(0).states[[run]], so_far, Target.at_least(v)).of(0)
    numbers = {found.p, *found.spread, found.low, found.high, found.plausibility, found.assurance}
    if so_far - reach < v <= so_far + reach:
        assert not found.decided
    else:
        assert numbers == {float(v <= so_far - reach)}


# -- p of few episodes -----------------------------------------------------------------------------

HORIZON, FEW = 6, 40


def walks(n: int, rng: np.random.Generator) -> Episodes:
    """Random walks that know where they are: P(Y ≥ 0) is Φ(b/√(steps left))."""
    gains = rng.normal(size=(n, HORIZON))
    so_far = np.cumsum(gains, axis=1) - gains
    return Episodes.from_arrays(
        so_far[:, :, None], gains, ids=rng.integers(0, 2**60, n), horizon=HORIZON
    )


def errors(monitor: GoalMonitor, new: Episodes) -> tuple[float, float]:
    """Mean squared errors to the truth: of p and of the law's own probability."""
    asked = monitor.contracts.asked(TARGET)
    found = answer_episodes(asked, asked.alike(new))
    truth = np.array([ndtr(new.at(t).behavior / math.sqrt(HORIZON - t)) for t in range(HORIZON)])
    return float(np.mean((found.p - truth) ** 2)), float(np.mean((found.raw - truth) ** 2))


class NearlyTrue:
    """The true law of what a walk still earns, a little too high; it learns nothing."""

    def fit(self, X: Any, y: Any) -> NearlyTrue:
        return self

    def _scale(self, X: Any, asked: np.ndarray) -> np.ndarray:
        found = np.sqrt(HORIZON - X[:, -1])  # the last number of a row is the step
        return found[:, None] if asked.ndim == 2 else found

    def cdf_limits(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(y, dtype=float)
        found = ndtr((values - 0.1) / self._scale(X, values))
        return found, found.copy()

    def quantile(self, X: Any, q: Any, *, side: str = "left") -> np.ndarray:
        levels = np.broadcast_to(q, (len(X), *np.shape(q)))
        return 0.1 + self._scale(X, levels) * ndtri(levels)


def errors_of(make: Any, *, train: int, replicates: int = 30) -> np.ndarray:
    """(3, replicates): errors · 10⁴ of p, of raw p and of the paper's p.

    Each is given 40 episodes; in the paper's way so many of them train and the others calibrate.
    """
    found = []
    for replicate in range(replicates):
        rng = np.random.default_rng([40, replicate])
        few, new = walks(FEW, rng), walks(60, rng)
        monitor, paper = (
            GoalMonitor(make(), min_calibration=1).fit(split=split, progress=False)
            for split in (
                few.split(assure=0),
                few.split(train=train, calibrate=FEW - train, assure=0),
            )
        )
        found.append([*errors(monitor, new), errors(paper, new)[0]])
    return 1e4 * np.array(found).T


def standard_errors(difference: np.ndarray) -> float:
    """How many standard errors the mean of paired differences lies above 0."""
    return float(difference.mean() / (difference.std(ddof=1) / math.sqrt(difference.size)))


# Five standard errors are passed by chance once in three million times.
BEYOND_CHANCE = 5.0


@pytest.mark.parametrize(
    ("make", "train", "times"), [(NearlyTrue, 1, 4.0), (Marginal, FEW // 2, 1.5)]
)
def test_few_episodes_leave_p_as_good_as_raw_where_the_paper_s_way_makes_it_much_worse(
    make: Any, train: int, times: float
) -> None:
    p, raw, paper = errors_of(make, train=train)
    said = f"errors · 10⁴: p {p.mean():.1f}, raw {raw.mean():.1f}, paper {paper.mean():.1f}"
    assert standard_errors(p - raw) < BEYOND_CHANCE, said
    assert paper.mean() > times * max(p.mean(), raw.mean()), said


def test_a_curve_that_trusts_few_episodes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_PRIOR", 0.0)
    p, raw, _ = errors_of(NearlyTrue, train=1)
    assert standard_errors(p - raw) > BEYOND_CHANCE
