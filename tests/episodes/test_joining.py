from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Episodes
from ontarget.errors import EpisodesError, InputError
from refusals import refuses
from tests.episodes.recordings import recordings
from tests.walks import walks


@settings(max_examples=40)
@given(recordings(), st.data())
def test_parts_put_together_are_the_whole(frame: pl.DataFrame, data: st.DataObject) -> None:
    whole = Episodes.from_frame(frame, censored="worst-case")
    n = len(whole)
    cut = data.draw(st.integers(1, n))
    order = data.draw(st.permutations(range(n)))
    parts = [whole.take(sorted(own)) for own in (order[:cut], order[cut:]) if own]
    joined = Episodes.concat(parts)
    back = joined.take([joined.ids.tolist().index(one) for one in whole.ids.tolist()])
    assert back.compact().to_frame().equals(whole.to_frame())
    assert back.horizon == whole.horizon
    assert np.array_equal(back.cut_off, whole.cut_off)


def test_recordings_of_different_lengths_keep_every_row() -> None:
    one, other = walks(20, 6, ragged=True, seed=1), walks(30, 6, ragged=True, seed=2)
    short = Episodes.from_arrays(np.ones((2, 3, 2)), np.ones((2, 3)), ids=["a", "b"], horizon=6)
    joined = Episodes.concat([short, one, other])
    assert joined.lengths.tolist() == [3, 3, *one.lengths, *other.lengths]
    for t in range(6):
        rows = [part.at(t, grid=joined.grid) for part in (short, one, other)]
        assert np.array_equal(joined.at(t).states, np.concatenate([r.states for r in rows]))
        assert np.array_equal(joined.at(t).remaining, np.concatenate([r.remaining for r in rows]))


def test_categories_of_all_recordings_are_known() -> None:
    def log(mode: list[str], first: int) -> Episodes:
        return Episodes.from_frame(
            pl.DataFrame({"episode": [first, first + 1], "step": [0, 0], "reward": [1.0, 2.0],
                          "mode": mode})
        )  # fmt: skip

    joined = Episodes.concat([log(["on", "off"], 0), log(["idle", "off"], 2)])
    assert joined.to_frame()["mode"].to_list() == ["on", "off", "idle", "off"]


def test_the_longest_run_is_the_horizon_unless_one_was_declared() -> None:
    def runs(steps: int, first: int, **more: object) -> Episodes:
        return Episodes.from_arrays(
            np.zeros((2, steps, 1)), np.ones((2, steps)), ids=[first, first + 1], **more
        )

    assert Episodes.concat([runs(3, 0), runs(5, 2)]).horizon == 5
    with refuses(EpisodesError, None, "5 first", "part 2"):
        Episodes.concat([runs(3, 0, horizon=5), runs(5, 2)])
    with refuses(EpisodesError, None, "1 episodes", "5 steps"):
        Episodes.concat([runs(3, 0, truncated=[True, False]), runs(5, 2)])


@pytest.mark.parametrize(
    ("other", "refusal"),
    [
        ({"features": ["a"]}, ("'x0'", "'a'", "part 2")),
        ({"behavior": "max"}, ("sum first", "max", "part 2")),
        ({"groups": ["a", "b"]}, ("None first", "group")),
        ({"ids": [1, 2]}, ("got 1", "first: 1")),
        ({"ids": ["x", "y"]}, ("numbers", "texts")),
    ],
)
def test_recordings_that_differ_are_refused(other: dict, refusal: tuple) -> None:
    one = Episodes.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)))
    options = {"ids": [7, 8], **other}
    two = Episodes.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), **options)
    with refuses(EpisodesError, None, *refusal):
        Episodes.concat([one, two])


@pytest.mark.parametrize("given", [[], [3], "runs.csv"])
def test_only_episodes_can_be_put_together(given: object) -> None:
    with refuses(InputError, None, "Episodes"):
        Episodes.concat(given)


def several(n: int, first: int, seed: int) -> Episodes:
    """Runs of one to four steps with two behaviors."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, size=n)
    return Episodes.from_arrays(
        [rng.normal(size=(t, 2)) for t in lengths],
        {name: [rng.normal(size=t) for t in lengths] for name in ("reward", "height")},
        ids=np.arange(first, first + n),
        horizon=4,
        behavior={"gain": "sum:reward", "low": "min:height"},
    )


def test_several_behaviors_are_joined_row_by_row() -> None:
    parts = several(5, 0, 1), several(3, 5, 2)
    joined = Episodes.concat(parts)
    assert joined.names == ("gain", "low")
    for name in joined.names:
        own = [part.only(name) for part in parts]
        found = joined.only(name)
        ends = [y for part in own for y in part.at(0, grid=found.grid).outcomes.tolist()]
        assert found.outcomes.tolist() == ends
        for t in range(4):
            before = [b for part in own for b in part.at(t, grid=found.grid).behavior.tolist()]
            np.testing.assert_array_equal(found.at(t).behavior, before)


def test_one_behavior_and_several_are_not_joined() -> None:
    with refuses(EpisodesError, None, "gain=sum:reward", "part 2"):
        Episodes.concat([several(5, 0, 1), several(3, 5, 2).only("gain")])


def test_episodes_from_a_file_join_those_from_arrays(tmp_path: Path) -> None:
    walks(3, seed=1).write(tmp_path / "old.parquet")
    joined = Episodes.concat([Episodes.read(tmp_path / "old.parquet"), walks(2, seed=2)])
    assert joined.ids.tolist() == ["run-1-0", "run-1-1", "run-1-2", "run-2-0", "run-2-1"]
