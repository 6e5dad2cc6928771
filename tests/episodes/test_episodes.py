from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes
from ontarget._keyed import keys_of
from ontarget.episodes.facts import fingerprints
from ontarget.errors import CensoredError, EpisodesError, InputError
from refusals import refuses


def ragged(lengths: list[int], d: int = 2, seed: int = 0) -> tuple[list, list]:
    rng = np.random.default_rng(seed)
    return (
        [rng.normal(size=(t, d)) for t in lengths],
        [rng.integers(-5, 5, size=t).astype(float) for t in lengths],
    )


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@given(lengths)
def test_a_step_holds_exactly_the_episodes_alive_there(lengths: list[int]) -> None:
    states, gains = ragged(lengths)
    runs = Episodes.from_arrays(states, gains)
    assert runs.horizon == max(lengths)
    for t in range(runs.horizon):
        alive = [i for i, length in enumerate(lengths) if length > t]
        step = runs.at(t)
        assert step.index.tolist() == alive
        assert step.ids.tolist() == alive
        assert len(step) == len(alive)
        assert step.states.tolist() == [states[i][t].tolist() for i in alive]
        assert step.behavior.tolist() == [sum(gains[i][:t].tolist(), 0.0) for i in alive]
        assert step.outcomes.tolist() == [sum(gains[i].tolist(), 0.0) for i in alive]
        assert runs.rewards_at(t).tolist() == [gains[i][t] for i in alive]


@given(lengths, st.data())
def test_a_part_answers_as_if_it_had_been_recorded_alone(
    lengths: list[int], data: st.DataObject
) -> None:
    states, gains = ragged(lengths)
    chosen = data.draw(st.lists(st.sampled_from(range(len(lengths))), min_size=1, unique=True))
    judged = data.draw(st.sampled_from(["sum", "max", "min"]))
    part = Episodes.from_arrays(states, gains, horizon=6, behavior=judged).take(chosen)
    alone = Episodes.from_arrays(
        [states[i] for i in chosen],
        [gains[i] for i in chosen],
        ids=chosen,
        horizon=6,
        behavior=judged,
    )
    assert len(part) == len(alone)
    assert part.outcomes.tolist() == alone.outcomes.tolist()
    for t in range(6):
        one, other, copied = part.at(t), alone.at(t), part.compact().at(t)
        assert one.remaining.tolist() == other.remaining.tolist() == copied.remaining.tolist()
        assert one.keys.tolist() == other.keys.tolist() == copied.keys.tolist()
        assert one.states.tolist() == other.states.tolist()
        np.testing.assert_array_equal(one.behavior, other.behavior)
        assert one.ids.tolist() == other.ids.tolist()
        assert one.index.tolist() == other.index.tolist()
    assert part.to_frame().equals(alone.to_frame())
    assert part.compact().to_frame().equals(alone.to_frame())
    assert part.compact()._index is None
    assert part.reward_range == alone.reward_range
    values = [gain for i in chosen for gain in gains[i]]
    assert part.reward_range == (min(values), max(values))


def test_rectangular_and_listed_arrays_are_the_same_episodes() -> None:
    rng = np.random.default_rng(1)
    states, gains = rng.normal(size=(6, 4, 3)), rng.normal(size=(6, 4))
    one = Episodes.from_arrays(states, gains)
    other = Episodes.from_arrays(list(states), list(gains))
    assert one.to_frame().equals(other.to_frame())


def test_arrays_of_the_user_are_copied_and_ours_are_read_only() -> None:
    states, gains = np.zeros((1, 3, 2)), np.ones((1, 3))
    runs = Episodes.from_arrays(states, gains)
    states[:] = 7
    gains[:] = 7
    assert runs.at(0).states.tolist() == [[0.0, 0.0]]
    assert runs.outcomes.tolist() == [3.0]
    for array in (runs.outcomes, runs.at(0).states, runs.ids, runs.take([0]).outcomes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_step_is_on_the_grid_of_its_episodes_or_another() -> None:
    runs = Episodes.from_arrays(np.zeros((1, 3, 1)), [[0.1, 0.2, 0.3]])
    assert runs._store.before[2] != 0.3
    for step in (runs.at(2), runs.at(2, grid=1e-9)):
        assert step.behavior[0] == 0.3
        assert step.remaining[0] == 0.3
    assert runs.at(2, grid=0.2).behavior[0] == 0.4
    assert runs.grid == 1e-9


def test_parts_of_a_split_share_the_grid_of_train() -> None:
    rewards = np.ones((20, 1))
    for fine in range(20):
        rewards[:] = 1e9
        rewards[fine] = 1e9 + 0.25
        runs = Episodes.from_arrays(np.zeros((20, 1, 1)), rewards)
        parts = [
            part for part in runs.split(train=0.4, calibrate=0.3, assure=0.2) if part is not None
        ]
        learned = 0.01 if fine in parts[0].ids else 1.0
        assert {part.grid for part in parts} == {learned}
        assert parts[1].take([0]).grid == parts[1].compact().grid == learned


def test_ids_are_hashed_once_whatever_is_asked_of_them(monkeypatch) -> None:
    hashed = []
    monkeypatch.setattr(
        "ontarget.episodes.store.keys_of", lambda ids: hashed.append(ids.size) or keys_of(ids)
    )
    names = [f"run {i}" for i in range(10)]
    runs = Episodes.from_arrays(np.zeros((10, 3, 1)), np.ones((10, 3)), ids=names)
    for part in (runs, *runs.split(assure=0.2)[:2]):
        for t in range(3):
            assert part.at(t).keys.tolist() == keys_of(part.ids).tolist()
    fingerprints(runs)
    assert hashed == [10]


def test_a_horizon_is_declared_only_where_someone_said_so() -> None:
    arrays = ragged([2, 3])
    seen, told = Episodes.from_arrays(*arrays), Episodes.from_arrays(*arrays, horizon=3)
    assert (seen.horizon, told.horizon) == (3, 3)
    assert (seen.horizon_declared, told.horizon_declared) == (False, True)
    assert told.take([0]).compact().horizon_declared
    table = told.to_frame()
    assert not Episodes.from_frame(table).horizon_declared
    assert Episodes.from_frame(table, horizon=4).horizon_declared
    assert Episodes.from_frame(table, like=told).horizon_declared
    assert not Episodes.from_frame(table, like=seen).horizon_declared
    assert Episodes.from_frame(table, like=seen, horizon=5).horizon_declared
    assert not Episodes.from_frame(table, like=told, horizon=None).horizon_declared


def test_episodes_without_rewards_have_no_reward_range() -> None:
    runs = Episodes.from_arrays(np.zeros((1, 2, 1)), None, behavior_values=np.ones((1, 2)))
    assert runs.reward_range is None


def test_horizon_beyond_the_longest_episode_leaves_empty_steps() -> None:
    runs = Episodes.from_arrays(*ragged([2, 3]), horizon=5)
    assert runs.horizon == 5
    assert len(runs.at(4)) == 0
    assert runs.at(4).states.shape == (0, 2)


def test_a_cut_at_the_horizon_is_complete() -> None:
    runs = Episodes.from_arrays(*ragged([4, 4, 2]), truncated=[True, False, False])
    assert len(runs) == 3
    assert runs.dropped == 0


def test_censored_episodes_are_refused_with_a_count() -> None:
    with refuses(CensoredError, "censored", "2 of 4", "horizon 5", "episode 1 "):
        Episodes.from_arrays(*ragged([5, 3, 2, 5]), truncated=[False, True, True, True])


def test_dropped_episodes_are_counted_and_gone() -> None:
    states, gains = ragged([5, 3, 2, 5])
    runs = Episodes.from_arrays(states, gains, truncated=[False, True, True, True], censored="drop")
    assert runs.ids.tolist() == [0, 3]
    assert runs.dropped == 2
    assert "2 cut-off" in runs.describe()
    assert len(runs.at(1)) == 2
    assert runs.horizon == 5


def test_dropping_every_episode_is_an_error() -> None:
    with refuses(CensoredError, "censored", "all 2", "horizon 9"):
        Episodes.from_arrays(*ragged([2, 3]), truncated=[True, True], horizon=9, censored="drop")


def test_description_says_that_unflagged_ends_are_terminations() -> None:
    text = Episodes.from_arrays(*ragged([2, 3])).describe()
    assert "1 ended" in text
    text = Episodes.from_arrays(*ragged([2, 3]), truncated=[False, False]).describe()
    assert "1 terminated early" in text
    text = Episodes.from_arrays(*ragged([3, 3]), groups=["a", "b"]).describe()
    assert "all reached" in text
    assert "a (1), b (1)" in text


def test_repr_counts_in_the_singular_and_plural() -> None:
    one = Episodes.from_arrays([[[0.0]]], [[1.0]])
    assert repr(one) == "<Episodes: 1 episode of 1 step, 1 feature, behavior sum>"
    more = Episodes.from_arrays(*ragged([1, 3]))
    assert repr(more) == "<Episodes: 2 episodes of up to 3 steps, 2 features, behavior sum>"


@pytest.mark.parametrize(
    ("build", "refusal"),
    [
        (lambda s, r: Episodes.from_arrays(s, r[:, :2]), (None, "(3, 4)", "(3, 2)")),
        (lambda s, r: Episodes.from_arrays(s[0], r), ("states", "(4, 2)")),
        (lambda s, r: Episodes.from_arrays([], []), ("states", "got none")),
        (lambda s, r: Episodes.from_arrays(s[:0], r[:0]), ("states", "(0, 4, 2)")),
        (lambda s, r: Episodes.from_arrays([s[0], s[1, :0]], list(r[:2])), (None, "episode 1")),
        (
            lambda s, r: Episodes.from_arrays([s[0], s[1, :, :1]], list(r[:2])),
            ("states", "episode 1", "(4, 1)"),
        ),
        (lambda s, r: Episodes.from_arrays(list(s), list(r[:2])), (None, "each of 3", "got 2")),
        (
            lambda s, r: Episodes.from_arrays(list(s), [r[0], r[1], r[2, :1]]),
            (None, "rewards", "episode 2", "(1,)"),
        ),
        (lambda s, r: Episodes.from_arrays(s.astype(str), r), (None, "states", "<U32")),
        (lambda s, r: Episodes.from_arrays(s, r, features=["a"]), ("features", "2 names", "got 1")),
        (lambda s, r: Episodes.from_arrays(s, r, features=["a", "a"]), ("features", "'a'")),
        (lambda s, r: Episodes.from_arrays(s, r, categorical=["z"]), ("categorical", "'z'")),
        (lambda s, r: Episodes.from_arrays(s, r, ids=[1, 2, 1]), ("ids", "got 1")),
        (lambda s, r: Episodes.from_arrays(s, r, ids=[1, 2]), ("ids", "each of 3", "(2,)")),
        (lambda s, r: Episodes.from_arrays(s, r, truncated=[0, 1, 2]), ("truncated", "got 2")),
        (
            lambda s, r: Episodes.from_arrays(s, r, horizon=3),
            ("horizon", 3, "episode 0", "horizon=4"),
        ),
        (lambda s, r: Episodes.from_arrays(s, r, horizon=0), ("horizon", "got 0")),
        (lambda s, r: Episodes.from_arrays(s, None), (None, "'sum'")),
        (
            lambda s, r: Episodes.from_arrays(s, r, censored="keep"),
            ("censored", "'keep'", "'refuse'", "'drop'"),
        ),
        (lambda s, r: Episodes.from_arrays(s.astype(int) + 2**60, r), (None, "states", "2**53")),
    ],
)
def test_bad_arrays_are_refused(build, refusal: tuple) -> None:
    with refuses(EpisodesError, *refusal):
        build(np.zeros((3, 4, 2)), np.zeros((3, 4)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_no_number_is_refused_with_its_place(value: float) -> None:
    gains = np.zeros((3, 4))
    gains[1, 2] = value
    with refuses(EpisodesError, None, "'reward'", value, "episode 1, step 2"):
        Episodes.from_arrays(np.zeros((3, 4, 2)), gains)


def test_features_may_be_missing_but_not_infinite() -> None:
    states = np.zeros((3, 4, 2))
    states[2, 1, 0] = np.nan
    assert np.isnan(Episodes.from_arrays(states, np.zeros((3, 4))).at(1).states[2, 0])
    states[2, 1, 1] = np.inf
    with refuses(EpisodesError, None, "inf", "'x1'", "episode 2, step 1"):
        Episodes.from_arrays(states, np.zeros((3, 4)))


def test_steps_and_positions_out_of_range_are_refused() -> None:
    runs = Episodes.from_arrays(*ragged([2, 3]))
    for t in (-1, 3):
        with refuses(InputError, "t", "0 to 2", f"got {t}"):
            runs.at(t)
    for index, shown in [
        ([2], "below 2"),
        ([-3], "-2 to 1"),
        ([0, 0], "twice"),
        ([0, -2], "twice"),
        ([[0]], "-2 to 1"),
    ]:
        with refuses(InputError, "index", shown):
            runs.take(index)
    with refuses(InputError, "index", "(1,)"):
        runs.take([True])
    with refuses(EpisodesError, "index"):
        runs.take([False, False])
    assert runs.take([-1]).ids.tolist() == [1]
    assert runs.take([False, True]).take([0]).ids.tolist() == [1]


def test_asking_for_rewards_that_were_never_given_is_an_error() -> None:
    runs = Episodes.from_arrays(np.zeros((1, 2, 1)), None, behavior_values=[[1.0, 2.0]])
    with refuses(EpisodesError, None, "column:behavior"):
        runs.rewards_at(0)
