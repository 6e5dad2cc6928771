from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.episodes.history import History, state_width
from ontarget.errors import EpisodesError, InputError
from refusals import refuses


def by_hand(states: list, rewards: list, k: int, t: int, numbers: list[int]) -> list[float]:
    """The columns of one run's state, written down as the documentation says them."""

    def mean(values: list[float]) -> float:
        known = [one for one in values if np.isfinite(one)]
        total = 0.0
        for one in known:
            total += one
        return total / len(known) if known else np.nan

    width = len(states[0])
    found = list(states[t])
    for lag in range(1, k + 1):
        found += list(states[t - lag]) if lag <= t else [np.nan] * width
    found += [rewards[t - lag] if lag <= t else np.nan for lag in range(1, k + 1)]
    found += [mean([row[j] for row in states[: t + 1]]) for j in numbers]
    return [*found, mean(rewards[:t])]


def runs(seed: int, behavior: str = "sum") -> tuple[Episodes, list, list]:
    """Ragged runs of a number with gaps and a category."""
    rng = np.random.default_rng(seed)
    lengths = [6, *rng.integers(1, 7, size=9).tolist()]
    states, rewards = [], []
    for length in lengths:
        state = np.column_stack([rng.normal(size=length), rng.integers(0, 3, size=length)])
        state[rng.random(length) < 0.3, 0] = np.nan
        states.append(state)
        rewards.append(rng.normal(size=length))
    found = Episodes.from_arrays(
        states, rewards, behavior=behavior, horizon=6, categorical=["x1"], features=["x0", "x1"]
    )
    return found, states, rewards


@pytest.mark.parametrize("k", [1, 2, 5, 9])
@pytest.mark.parametrize("behavior", ["sum", "max"])
def test_states_hold_what_the_columns_say(k: int, behavior: str) -> None:
    episodes, states, rewards = runs(k, behavior)
    recalling = episodes.with_history(k).take([3, 0, 7, 9, 1])
    for t in range(6):
        step = recalling.at(t)
        wanted = [
            by_hand(states[i].tolist(), rewards[i].tolist(), k, t, [0])
            for i in step.ids.astype(int)
        ]
        np.testing.assert_array_equal(step.states, np.array(wanted))
    assert recalling.at(0).states.shape[1] == state_width(episodes.schema, History(k))
    assert len(recalling.state_schema) == state_width(episodes.schema, History(k))


def test_changes_means_and_counts_are_what_a_hand_count_says() -> None:
    episodes, states, _ = runs(3)
    history = History(changes=(0,), means=(0,), counts=((1, 0), (1, 2)))
    recalling = episodes.with_history(history).take([3, 0, 7, 9, 1])
    names = ("x0", "x1", "change(x0)", "mean(x0)", "count(x1=0)", "count(x1=2)")
    assert recalling.state_schema.names == names
    for t in range(6):
        step = recalling.at(t)
        for i, row in zip(step.ids.astype(int), step.states, strict=True):
            run = states[i][: t + 1]
            known = [one for one in run[:, 0].tolist() if np.isfinite(one)]
            change = run[t, 0] - run[t - 1, 0] if t else np.nan
            mean = sum(known) / len(known) if known else np.nan
            counted = [float((run[:, 1] == code).sum()) for code in (0, 2)]
            np.testing.assert_array_equal(row, [*run[t], change, mean, *counted])


def test_a_told_behavior_takes_the_place_of_rewards() -> None:
    told = [[3.0, 5.0, 9.0]]
    episodes = Episodes.from_arrays(
        [[[0.0], [1.0], [2.0]]], None, behavior="column:level", behavior_values=told
    )
    step = episodes.with_history(2).at(2)
    place = dict(zip(episodes.with_history(2).state_schema.names, step.states[0], strict=True))
    assert (place["reward[-1]"], place["reward[-2]"], place["mean(reward)"]) == (5.0, 3.0, 4.0)


def test_parts_and_copies_keep_the_history_and_recoding_keeps_the_columns() -> None:
    episodes, _, _ = runs(0)
    recalling = episodes.with_history(2)
    parts = recalling.split(learn=5, assure=5)
    copied = recalling.compact()
    assert parts.learn.history == copied.history == History(2)
    assert not episodes.history
    own = np.isin(recalling.ids, parts.learn.ids)
    np.testing.assert_array_equal(parts.learn.at(1).states, recalling.take(own).at(1).states)
    np.testing.assert_array_equal(copied.at(3).states, recalling.at(3).states)
    assert recalling.state_schema.categorical == (1, 3, 5)
    assert recalling.with_history(0).at(0).states.shape[1] == 2


def test_text_features_are_remembered_by_their_categories() -> None:
    log = pl.DataFrame(
        {
            "episode": ["a", "a", "b", "b"],
            "step": [0, 1, 0, 1],
            "mode": ["on", "off", "off", "off"],
            "reward": [1.0, 2.0, 3.0, 4.0],
        }
    )
    episodes = Episodes.from_frame(log).with_history(1)
    assert episodes.state_schema.features[1].categories == episodes.schema.features[0].categories
    assert episodes.state_schema.names == ("mode", "mode[-1]", "reward[-1]", "mean(reward)")


def test_recordings_of_different_histories_are_not_joined() -> None:
    one, other = runs(0)[0], runs(1)[0]
    with refuses(EpisodesError, None, "0 first", "part 2"):
        Episodes.concat([one, other.with_history(1)])


@pytest.mark.parametrize("wrong", [-1, 101, 1.0, True, "2"])
def test_a_history_that_is_no_number_of_steps_is_refused(wrong: object) -> None:
    with refuses(InputError, "history", "0 to 100"):
        runs(0)[0].with_history(wrong)  # type: ignore[arg-type]


def test_a_feature_named_like_a_remembered_one_is_refused() -> None:
    episodes = Episodes.from_arrays(
        np.zeros((2, 2, 2)), np.ones((2, 2)), features=["x", "x[-1]"]
    ).with_history(1)
    with refuses(EpisodesError, "features", "'x[-1]'"):
        episodes.state_schema  # noqa: B018
