"""A behavior that a user writes: any state, one reward at a time."""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Target
from ontarget.episodes import Behavior, Episodes, Translation, behavior_of
from ontarget.errors import EpisodesError, EpisodesFileError
from refusals import refuses


@dataclass(frozen=True)
class Median(Behavior):
    """The lower median of the rewards; the state is all of them, sorted."""

    def start(self):
        return ()

    def update(self, state, reward, t):
        place = bisect.bisect(state, reward)
        return (*state[:place], reward, *state[place:])

    def value(self, state):
        return state[(len(state) - 1) // 2] if state else float("nan")


@dataclass(frozen=True)
class FirstBelow(Behavior):
    """The first step whose reward is below a limit; ``never`` if there is none."""

    limit: float
    never: float = 99.0

    def start(self):
        return (False, self.never)

    def update(self, state, reward, t):
        return state if state[0] or reward >= self.limit else (True, float(t))

    def value(self, state):
        return state[1]

    def translate(self, target, so_far, t, grid=None):
        if so_far < self.never:
            return Target() if target.contains(so_far) else Target.empty()
        return target & Target.at_least(t)


class Clipped(Behavior):
    """A sum of rewards of at most 1: a class of plain Python that adds up."""

    translation = Translation.SHIFT

    def start(self):
        return 0.0

    def update(self, state, reward, t):
        return state + min(reward, 1.0)


gains = st.lists(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=7), min_size=1)


def recorded(rewards: list[list[float]], behavior: Behavior) -> Episodes:
    return Episodes.from_arrays(
        [np.zeros((len(one), 1)) for one in rewards], rewards, behavior=behavior
    )


@given(gains)
def test_a_structured_state_gives_the_behavior_at_every_step(rewards: list[list[float]]) -> None:
    runs = recorded(rewards, Median())
    assert runs.outcomes.tolist() == [sorted(one)[(len(one) - 1) // 2] for one in rewards]
    assert np.isnan(runs.at(0).behavior).all()
    for t in range(1, runs.horizon):
        step = runs.at(t)
        expected = [sorted(rewards[i][:t])[(t - 1) // 2] for i in step.index]
        assert step.behavior.tolist() == expected
        assert step.remaining.tolist() == step.outcomes.tolist()


@given(gains, st.integers(0, 7), st.integers(0, 7))
def test_a_translation_of_ones_own_agrees_with_the_outcomes(
    rewards: list[list[float]], low: int, width: int
) -> None:
    behavior, target = FirstBelow(0.0), Target.between(low, low + width)
    runs = recorded(rewards, behavior)
    assert behavior.translation is Translation.OWN
    for t in range(runs.horizon):
        step = runs.at(t)
        for i, so_far in enumerate(step.behavior):
            ahead = behavior.translate(target, so_far, t)
            assert ahead.contains(step.remaining[i]) == target.contains(step.outcomes[i])


def test_a_class_that_adds_up_leaves_a_remainder() -> None:
    runs = recorded([[5.0, 0.5, -2.0]], Clipped())
    assert runs.outcomes.tolist() == [-0.5]
    assert runs.at(1).remaining.tolist() == [-1.5]
    assert Clipped().translate(Target.at_least(0), 1.0, 1) == Target.at_least(-1)
    assert not Clipped().reads_so_far


def test_a_state_survives_json() -> None:
    state = FirstBelow(0.0).update(FirstBelow(0.0).start(), -1.0, 3)
    assert FirstBelow(0.0).value(json.loads(json.dumps(state))) == 3.0


def test_ones_own_behavior_names_itself_with_its_settings() -> None:
    assert FirstBelow(0.5).spec == "own:FirstBelow(limit=0.5, never=99.0)"
    assert Clipped().spec == "own:Clipped()"
    assert (Median().label, Median().told, Median().vectorised) == ("outcome", False, False)
    with refuses(EpisodesError, None, "behavior=FirstBelow(limit=0.5, never=99.0)"):
        behavior_of(FirstBelow(0.5).spec)


def test_a_frame_is_judged_by_ones_own_behavior() -> None:
    log = pl.DataFrame(
        {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "x": [1, 2, 3, 4], "reward": [1, -1, 2, 3]}
    )
    runs = Episodes.from_frame(log, behavior=FirstBelow(0.0))
    assert runs.outcomes.tolist() == [1.0, 99.0]
    assert Episodes.from_frame(log, like=runs).behavior == FirstBelow(0.0)


def test_a_file_keeps_the_name_and_asks_for_the_class(tmp_path: Path) -> None:
    runs = recorded([[1.0, -1.0], [2.0, 3.0]], FirstBelow(0.0))
    path = tmp_path / "runs.parquet"
    runs.write(path)
    with refuses(EpisodesFileError, None, "runs.parquet", "FirstBelow"):
        Episodes.read(path)
    for options in ({"behavior": FirstBelow(0.0)}, {"like": runs}):
        again = Episodes.read(path, **options)
        assert again.outcomes.tolist() == runs.outcomes.tolist()
    assert Episodes.read(path, behavior="sum").outcomes.tolist() == [0.0, 5.0]


def test_an_outcome_that_is_no_number_is_refused_with_the_episode() -> None:
    class Never(Clipped):
        def value(self, state):
            return float("nan")

    with refuses(EpisodesError, None, "nan", "episode 0", "own:Never()"):
        recorded([[1.0]], Never())


def test_a_behavior_without_update_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="update"):
        Behavior()
