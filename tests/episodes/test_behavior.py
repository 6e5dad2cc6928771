from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.episodes import Column, DiscountedSum, Episodes, Sum, behavior_of
from ontarget.errors import EpisodesError

rewards = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)
ALL = ["sum", "discounted:0.9", "last", "max", "min", "mean"]


def naive(spec: str, so_far: list[float]) -> float:
    if spec == "sum":
        return sum(so_far, 0.0)
    if spec.startswith("discounted"):
        return sum((0.9**t * r for t, r in enumerate(so_far)), 0.0)
    if not so_far:
        return math.nan
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
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-6, nan_ok=True)
    assert runs.outcomes[0] == pytest.approx(naive(spec, rewards), rel=1e-12, abs=1e-6)


@pytest.mark.parametrize("spec", ALL)
@given(rewards=rewards)
def test_live_updates_give_the_recorded_bits(spec: str, rewards: list[float]) -> None:
    runs = Episodes.from_arrays(
        [np.zeros((len(rewards), 1))] * 2, [rewards, rewards], behavior=spec
    )
    behavior = behavior_of(spec)
    live = behavior.initial
    for t, reward in enumerate(rewards):
        recorded = runs.at(t).behavior[0]
        assert live == recorded or (math.isnan(live) and math.isnan(recorded))
        live = float(behavior.update(live, reward, t))
    assert live == runs.outcomes[0]


@pytest.mark.parametrize("spec", [*ALL, "column:height", "total:fuel"])
def test_spec_names_the_behavior_it_came_from(spec: str) -> None:
    assert behavior_of(spec).spec == spec
    assert behavior_of(behavior_of(spec).spec) == behavior_of(spec)


def test_only_amounts_that_pile_up_are_additive() -> None:
    additive = {spec: behavior_of(spec).additive for spec in [*ALL, "column:h", "total:h"]}
    assert [spec for spec, yes in additive.items() if yes] == ["sum", "discounted:0.9", "total:h"]
    assert Sum().initial == 0.0
    assert math.isnan(Column("h").initial)


def test_additive_behavior_leaves_a_remainder_and_others_the_outcome() -> None:
    states, gains = np.zeros((3, 4, 2)), np.arange(12.0).reshape(3, 4)
    step = Episodes.from_arrays(states, gains).at(2)
    assert step.remaining.tolist() == [5.0, 13.0, 21.0]
    assert step.response.tolist() == step.remaining.tolist()
    assert step.inputs.shape == (3, 2)
    step = Episodes.from_arrays(states, gains, behavior="max").at(2)
    assert step.remaining is None
    assert step.response.tolist() == [3.0, 7.0, 11.0]
    assert step.inputs[:, 2].tolist() == [1.0, 5.0, 9.0]


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


@pytest.mark.parametrize("spec", ["median", "discounted:x", "discounted:1.5", "discounted:0", ""])
def test_an_unknown_behavior_is_refused_with_the_choices(spec: str) -> None:
    with pytest.raises(EpisodesError, match=r"behavior needs one of|discounted needs"):
        behavior_of(spec)


def test_sums_too_large_for_floats_are_refused() -> None:
    with pytest.raises(EpisodesError, match="too large"):
        Episodes.from_arrays(np.zeros((1, 2, 1)), np.full((1, 2), 1.7e308))


def test_discount_of_one_is_the_sum() -> None:
    gains = np.random.default_rng(0).normal(size=(5, 9))
    plain = Episodes.from_arrays(np.zeros((5, 9, 1)), gains)
    discounted = Episodes.from_arrays(np.zeros((5, 9, 1)), gains, behavior=DiscountedSum(1.0))
    assert plain.outcomes.tolist() == discounted.outcomes.tolist()
