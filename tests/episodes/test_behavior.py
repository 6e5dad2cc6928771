from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.episodes import (
    Column,
    DiscountedSum,
    Episodes,
    FirstStep,
    Last,
    Mean,
    Min,
    ShareOfSteps,
    Translation,
    behavior_of,
)
from ontarget.errors import EpisodesError
from ontarget.target import Target
from refusals import refuses

rewards = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)
ALL = ["sum", "discounted:0.9", "last", "max", "min", "mean", "first:<0.5:20", "share:>=0.5"]


def naive(spec: str, so_far: list[float]) -> float:
    if spec == "sum":
        return sum(so_far, 0.0)
    if spec.startswith("discounted"):
        return sum((0.9**t * r for t, r in enumerate(so_far)), 0.0)
    if spec.startswith("first"):
        return next((float(t) for t, r in enumerate(so_far) if r < 0.5), 20.0)
    if not so_far:
        return math.nan
    if spec.startswith("share"):
        return sum(r >= 0.5 for r in so_far) / len(so_far)
    if spec == "mean":
        return math.fsum(so_far) / len(so_far)
    return {"last": so_far[-1], "max": max(so_far), "min": min(so_far)}[spec]


@pytest.mark.parametrize("spec", ALL)
@given(rewards=rewards)
def test_recorded_behavior_is_the_summary_of_the_rewards_so_far(
    spec: str, rewards: list[float]
) -> None:
    runs = Episodes.from_arrays([np.zeros((len(rewards), 1))], [rewards], behavior=spec)
    for t in range(len(rewards)):
        found, expected = runs.at(t).behavior[0], naive(spec, rewards[:t])
        assert found == pytest.approx(expected, rel=1e-12, abs=runs.grid + 1e-6, nan_ok=True)
    expected = naive(spec, rewards)
    assert runs.outcomes[0] == pytest.approx(expected, rel=1e-12, abs=runs.grid + 1e-6)


@pytest.mark.parametrize("spec", ALL)
@given(rewards=rewards)
def test_live_updates_give_the_recorded_bits(spec: str, rewards: list[float]) -> None:
    runs = Episodes.from_arrays(
        [np.zeros((len(rewards), 1))] * 2, [rewards, rewards], behavior=spec
    )
    behavior = behavior_of(spec)
    live = behavior.initial
    for t, reward in enumerate(rewards):
        recorded = runs._store.before[2 * t]  # as recorded, not yet on the grid
        assert live == recorded or (math.isnan(live) and math.isnan(recorded))
        live = float(behavior.update(live, reward, t))
    assert live == runs._store.outcomes[0]


@pytest.mark.parametrize("spec", [*ALL, "column:height", "total:fuel"])
def test_spec_names_the_behavior_it_came_from(spec: str) -> None:
    assert behavior_of(spec).spec == spec
    assert behavior_of(behavior_of(spec).spec) == behavior_of(spec)


KINDS = {
    "sum": Translation.SHIFT,
    "discounted:0.9": Translation.SHIFT,
    "last": Translation.KEEP,
    "max": Translation.FLOOR,
    "min": Translation.CEILING,
    "mean": Translation.KEEP,
    "column:h": Translation.KEEP,
    "total:h": Translation.SHIFT,
}


def test_models_read_the_behavior_so_far_unless_the_target_moves_by_it() -> None:
    assert {spec: behavior_of(spec).translation for spec in KINDS} == KINDS
    for spec, kind in KINDS.items():
        behavior = behavior_of(spec)
        adds_up = kind is Translation.SHIFT
        assert (behavior.additive, behavior.reads_so_far) == (adds_up, not adds_up)
        assert behavior.initial == 0.0 if adds_up else math.isnan(behavior.initial)
        assert behavior.vectorised


def test_a_behavior_says_what_it_reads_and_how_it_is_called() -> None:
    found = [behavior_of(spec) for spec in KINDS]
    assert [one.told for one in found] == [spec.endswith(":h") for spec in KINDS]
    assert [one.column for one in found if one.told] == ["h", "h"]
    assert [one.spec for one in found if one.forgets] == ["last"]
    rewards = ["last reward", "largest reward", "smallest reward", "mean reward"]
    sums = ["sum of rewards", "discounted sum of rewards"]
    assert [one.label for one in found] == [*sums, *rewards, "h", "h"]


def test_what_remains_is_the_rest_the_future_extreme_or_the_outcome() -> None:
    states, gains = np.zeros((2, 4, 2)), np.array([[5.0, 1, 2, 3], [0, 7, 9, 8]])
    remaining = {
        spec: Episodes.from_arrays(states, gains, behavior=spec).at(2).remaining.tolist()
        for spec in ("sum", "max", "min", "mean", "last")
    }
    first = Episodes.from_arrays(states, gains, behavior="first:<3:9").at(2)
    assert (first.behavior.tolist(), first.remaining.tolist()) == ([1.0, 0.0], [2.0, 9.0])
    assert remaining["sum"] == [5.0, 17.0]
    assert remaining["max"] == [3.0, 9.0]
    assert remaining["min"] == [2.0, 8.0]
    assert remaining["mean"] == [2.75, 6.0]
    assert remaining["last"] == [3.0, 8.0]
    step = Episodes.from_arrays(states, gains, behavior="max").at(2)
    assert step.response.tolist() == [3.0, 9.0]
    assert step.outcomes.tolist() == [5.0, 9.0]


def test_a_column_holds_the_value_after_its_row() -> None:
    height = np.array([[3.0, 2.0, 7.0]])
    runs = Episodes.from_arrays(np.zeros((1, 3, 1)), None, behavior_values=height)
    assert math.isnan(runs.at(0).behavior[0])
    assert [runs.at(t).behavior[0] for t in (1, 2)] == [3.0, 2.0]
    assert runs.outcomes.tolist() == [7.0]


def test_a_total_starts_at_zero_and_leaves_a_remainder() -> None:
    fuel = np.array([[1.0, 4.0]])
    runs = Episodes.from_arrays(
        np.zeros((1, 2, 1)), None, behavior=Column("fuel", accumulates=True), behavior_values=fuel
    )
    assert runs.at(0).behavior.tolist() == [0.0]
    assert runs.at(1).remaining.tolist() == [3.0]
    named = Episodes.from_arrays(
        np.zeros((1, 2, 1)), None, behavior="total:fuel", behavior_values=fuel
    )
    assert named.behavior == runs.behavior


@pytest.mark.parametrize(("t", "scale"), [(0, 1.0), (1, 2.0), (10, 1024.0), (50, 1e12)])
def test_late_discounted_remainders_are_scaled_up_but_not_without_end(t: int, scale: float) -> None:
    assert behavior_of("discounted:0.5").scale(t) == scale
    assert behavior_of("discounted:0.5").scale(5000) == 1e12
    assert behavior_of("sum").scale(t) == 1.0


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("median", ("behavior", "discounted:GAMMA", "'median'")),
        ("discounted:x", (None, "discounted:GAMMA", "'x'")),
        ("discounted:1.5", (None, "gamma", 1.5)),
        ("discounted:0", (None, "gamma", 0.0)),
        ("", ("behavior", "discounted:GAMMA", "''")),
    ],
)
def test_an_unknown_behavior_is_refused_with_the_choices(spec: str, shown: tuple) -> None:
    with refuses(EpisodesError, *shown):
        behavior_of(spec)


def test_sums_too_large_for_floats_are_refused() -> None:
    with refuses(EpisodesError, None, "inf", "1e300", "episode 0"):
        Episodes.from_arrays(np.zeros((1, 2, 1)), np.full((1, 2), 1.7e308))
    with refuses(EpisodesError, None, -2e300, "episode 0"):
        Episodes.from_arrays(np.zeros((1, 2, 1)), np.full((1, 2), -1e300))
    with refuses(EpisodesError, None, 2e300, "episode 0, step 2"):
        Episodes.from_arrays(np.zeros((1, 3, 1)), [[1e300, 1e300, -2e300]])
    assert Episodes.from_arrays(np.zeros((1, 1, 1)), [[1e299]]).outcomes == pytest.approx(1e299)


def test_discount_of_one_is_the_sum() -> None:
    gains = np.random.default_rng(0).normal(size=(5, 9))
    plain = Episodes.from_arrays(np.zeros((5, 9, 1)), gains)
    discounted = Episodes.from_arrays(np.zeros((5, 9, 1)), gains, behavior=DiscountedSum(1.0))
    assert plain.outcomes.tolist() == discounted.outcomes.tolist()


def test_the_first_step_cannot_lie_before_now_and_is_settled_once_it_came() -> None:
    first = behavior_of("first:<3:9")
    assert first.ahead(4, bounds=(None, None), horizon=8, declared=True) == (4.0, 9.0)
    assert first.translate(Target.at_most(5), 2.0, t=4).is_everything
    assert not first.translate(Target.at_least(5), 2.0, t=4)


@pytest.mark.parametrize(
    ("spec", "argument", "form"),
    [
        ("first:<3", None, "first:CONDITION:N"),
        ("share:<3:9", None, "share:CONDITION"),
        ("first:<x:9", None, "condition"),
        ("first:=3:9", "behavior", "first:CONDITION:NUMBER"),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(
    spec: str, argument: str | None, form: str
) -> None:
    with refuses(EpisodesError, argument, repr(spec), form):
        behavior_of(spec)


def test_a_condition_reads_as_it_was_written() -> None:
    assert behavior_of("last") == Last()
    assert behavior_of("min") == Min()
    assert behavior_of("mean") == Mean()
    assert FirstStep(">=", 2.0, never=9.0).condition == ">=2"
    assert ShareOfSteps("<", 0.5).condition == "<0.5"
    assert ShareOfSteps("<", 0.5).comparison == "<"
