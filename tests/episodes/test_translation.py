"""A target for the outcome and its translation agree on every run (M18)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Target
from ontarget._grid import snap
from ontarget.episodes import Column, Episodes, behavior_of
from ontarget.episodes.behavior import advance, begin, values_of

SPECS = ["sum", "discounted:0.9", "last", "max", "min", "mean", "column:h", "total:h"]
# Decimals with few digits tie often, and their sums miss their own literals in the last bits.
rewards = st.integers(-30, 30).map(lambda n: n / 10)
runs_of_rewards = st.lists(st.lists(rewards, min_size=1, max_size=6), min_size=1, max_size=4)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    whole = Target.empty()
    for _ in range(draw(st.integers(1, 3))):
        low, high = sorted((draw(rewards), draw(rewards)))
        kind = draw(st.sampled_from(["both", "left", "right", "neither", "least", "most"]))
        if kind == "least":
            whole = whole | Target.at_least(low)
        elif kind == "most":
            whole = whole | Target.at_most(high)
        else:
            whole = whole | (Target(low, high, kind) if low < high else Target(low, high))
    return whole


def recorded(spec: str, gains: list[list[float]]) -> Episodes:
    behavior = behavior_of(spec)
    return Episodes.from_arrays(
        [np.zeros((len(one), 1)) for one in gains],
        None if behavior.told else gains,
        behavior=behavior,
        behavior_values=gains if behavior.told else None,
    )


@pytest.mark.parametrize("spec", SPECS)
@given(gains=runs_of_rewards, target=targets())
def test_outcome_meets_the_target_exactly_where_the_remainder_meets_its_translation(
    spec: str, gains: list[list[float]], target: Target
) -> None:
    runs = recorded(spec, gains)
    grid = runs.grid
    for t in range(runs.horizon):
        step = runs.at(t, grid=grid)
        met = target.contains(step.outcomes, grid)
        for i in range(len(step)):
            ahead = runs.behavior.translate(target, step.behavior[i], t, grid)
            assert ahead.contains(step.remaining[i], grid) == met[i]
            assert ahead.contains(step.remaining[i]) == met[i]


@pytest.mark.parametrize("spec", SPECS)
@given(gains=runs_of_rewards)
def test_outcome_is_the_behavior_so_far_combined_with_the_remainder(
    spec: str, gains: list[list[float]]
) -> None:
    runs = recorded(spec, gains)
    for t in range(runs.horizon):
        step = runs.at(t, grid=runs.grid)
        again = snap(runs.behavior.combine(step.behavior, step.remaining), runs.grid)
        assert again.tolist() == step.outcomes.tolist()


@pytest.mark.parametrize("spec", SPECS)
@given(
    past=st.lists(rewards, min_size=1, max_size=5),
    futures=st.lists(st.lists(rewards, min_size=1, max_size=4), min_size=1, max_size=4),
    target=targets(),
)
def test_what_is_decided_holds_for_every_continuation(
    spec: str, past: list[float], futures: list[list[float]], target: Target
) -> None:
    runs = recorded(spec, [past + future for future in futures])
    step = runs.at(len(past), grid=runs.grid)
    ahead = runs.behavior.translate(target, step.behavior[0], len(past), runs.grid)
    met = target.contains(runs.outcomes, runs.grid)
    if ahead.is_everything:
        assert met.all()
    if not ahead:
        assert not met.any()


@given(had=rewards, target=targets())
def test_an_extreme_is_decided_as_soon_as_no_reward_can_change_the_verdict(
    had: float, target: Target
) -> None:
    # Rewards at, between and beyond all ends stand for all that may come.
    ends = [end for c in target for end in (c.lower, c.upper) if math.isfinite(end)]
    marks = np.unique([had, *ends])
    points = np.concatenate([marks, marks[:-1] + np.diff(marks) / 2, [marks[0] - 1, marks[-1] + 1]])
    for spec, extreme in (("max", np.fmax), ("min", np.fmin)):
        met = target.contains(extreme(had, points))
        ahead = behavior_of(spec).translate(target, had, 1)
        assert ahead.is_everything == bool(met.all())
        assert bool(ahead) == bool(met.any())


@pytest.mark.parametrize("spec", ["last", "max", "min", "mean", "column:h"])
def test_before_the_first_reward_the_target_is_what_it_is(spec: str) -> None:
    target = Target(0, 1, "left") | Target.at_least(3)
    assert behavior_of(spec).translate(target, math.nan, 0) == target


def test_ends_between_points_of_the_grid_leave_the_points_on_their_side() -> None:
    target = Target.at_least(0.5)
    assert behavior_of("sum").translate(target, 1.0, 1, grid=1.0) == Target.at_least(0)
    assert behavior_of("max").translate(target, 1.0, 1, grid=1.0).is_everything
    assert not behavior_of("min").translate(target, 0.0, 1, grid=1.0)


COMPUTED = [spec for spec in SPECS if not behavior_of(spec).told]


@pytest.mark.parametrize("spec", COMPUTED)
@given(
    gains=runs_of_rewards,
    slack=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    beyond=st.integers(0, 3),
    declared=st.booleans(),
)
def test_remainders_lie_in_the_range_that_reward_bounds_leave(
    spec: str, gains: list[list[float]], slack: tuple[int, int], beyond: int, declared: bool
) -> None:
    runs = recorded(spec, gains)
    assert runs.reward_range is not None
    low, high = runs.reward_range
    bounds = (low - slack[0] / 10, high + slack[1] / 10)
    for t in range(runs.horizon):
        lower, upper = runs.behavior.ahead(
            t, bounds=bounds, horizon=runs.horizon + beyond, declared=declared
        )
        found = runs.at(t, grid=runs.grid).remaining
        assert snap(lower, runs.grid) <= found.min()
        assert snap(upper, runs.grid) >= found.max()


def test_the_range_of_a_sum_is_reached_by_the_extreme_runs() -> None:
    total, faded = behavior_of("sum"), behavior_of("discounted:0.5")
    known, guessed = {"horizon": 5, "declared": True}, {"horizon": 5, "declared": False}
    assert total.ahead(2, bounds=(-1.0, 2.0), **known) == (-3.0, 6.0)
    assert total.ahead(2, bounds=(1.0, 2.0), **known) == (1.0, 6.0)
    assert total.ahead(2, bounds=(-2.0, -1.0), **known) == (-6.0, -1.0)
    assert total.ahead(2, bounds=(0.0, None), **guessed) == (0.0, math.inf)
    assert total.ahead(2, bounds=(-1.0, 0.0), **guessed) == (-math.inf, 0.0)
    assert total.ahead(2, bounds=(-1.0, 2.0), **guessed) == (-math.inf, math.inf)
    assert faded.ahead(1, bounds=(-4.0, 4.0), horizon=3, declared=True) == (-3.0, 3.0)
    assert faded.ahead(1, bounds=(4.0, 4.0), **guessed) == (2.0, 4.0)
    assert faded.ahead(2000, bounds=(None, 1.0), **guessed)[0] == -math.inf
    assert behavior_of("max").ahead(2, bounds=(None, 7.0), **guessed) == (-math.inf, 7.0)
    assert Column("h").ahead(2, bounds=(0.0, 1.0), **known) == (-math.inf, math.inf)


@pytest.mark.parametrize("spec", COMPUTED)
@given(gains=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1))
def test_many_runs_at_once_get_the_bits_of_one(spec: str, gains: list[list[float]]) -> None:
    behavior = behavior_of(spec)
    states, alone = begin(behavior, len(gains)), [behavior.start()] * len(gains)
    for t in range(3):
        states = advance(behavior, states, np.array([one[t] for one in gains]), t)
        alone = [behavior.update(state, one[t], t) for state, one in zip(alone, gains, strict=True)]
        assert values_of(behavior, states).tolist() == [behavior.value(one) for one in alone]
