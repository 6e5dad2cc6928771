from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.episodes import Max, Sum
from ontarget.errors import EpisodesError
from refusals import refuses

JUDGED = {
    "return": "sum",
    "energy": "sum:energy",
    "clearance": "min:distance",
    "near": "share:distance<0.4",
    "reached": "first:distance<0.4:99",
    "height": "column:altitude",
}


def signals(n: int = 30, steps: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    names = ("reward", "energy", "distance", "altitude")
    return {name: rng.random((n, steps)).round(3) for name in names}


def recorded(n: int = 30, steps: int = 5) -> Episodes:
    states = np.random.default_rng(4).normal(size=(n, steps, 2))
    return Episodes.from_arrays(states, signals(n, steps), behavior=JUDGED)


def test_each_behavior_reads_its_own_signal() -> None:
    runs, given = recorded(), signals()
    near = given["distance"] < 0.4
    expected = {
        "return": given["reward"].sum(axis=1),
        "energy": given["energy"].sum(axis=1),
        "clearance": given["distance"].min(axis=1),
        "near": near.mean(axis=1),
        "reached": np.where(near.any(axis=1), near.argmax(axis=1), 99),
        "height": given["altitude"][:, -1],
    }
    assert runs.names == tuple(JUDGED)
    for name, outcomes in expected.items():
        assert runs.only(name).outcomes == pytest.approx(outcomes, abs=1e-7)


def test_one_of_several_behaviors_is_what_it_would_be_alone() -> None:
    runs, given = recorded(), signals()
    alone = Episodes.from_arrays(
        np.random.default_rng(4).normal(size=(30, 5, 2)), given["distance"], behavior="min"
    )
    one = runs.only("clearance")
    for t in range(5):
        assert np.array_equal(one.at(t).remaining, alone.at(t).remaining)
        assert np.array_equal(one.at(t).states, alone.at(t).states)
        assert np.array_equal(one.rewards_at(t), alone.rewards_at(t))
    assert (one.behavior, one.names, one.grid) == (alone.behavior, (), alone.grid)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_brings_every_behavior_back(tmp_path: Path, ending: str) -> None:
    runs, path = recorded(), tmp_path / f"runs.{ending}"
    runs.write(path)
    again = Episodes.read(path, **({} if ending == "parquet" else {"behavior": JUDGED}))
    assert again.names == runs.names
    assert again.schema.names == runs.schema.names  # no signal became a feature
    for name in runs.names:
        assert np.array_equal(again.only(name).outcomes, runs.only(name).outcomes)
    assert "behaviors  return (sum), energy (sum:energy)" in again.describe()


def test_like_keeps_behaviors_and_grids() -> None:
    runs = recorded()
    frame = runs.to_frame()
    parts = runs.split(0.5, 0.5)
    again = Episodes.from_frame(frame, like=parts.learn)
    for name in runs.names:
        assert again.only(name).grid == parts.learn.only(name).grid == parts.assure.only(name).grid


def test_parts_keep_every_behavior() -> None:
    runs = recorded()
    some = runs.take([4, 2, 9]).compact()
    for name in runs.names:
        assert np.array_equal(some.only(name).outcomes, runs.only(name).outcomes[[4, 2, 9]])
        assert some.only(name).at(1).behavior == pytest.approx(
            runs.only(name).at(1).behavior[[4, 2, 9]], nan_ok=True
        )


def test_ragged_runs_and_a_behavior_of_ones_own_work_too() -> None:
    states = [np.zeros((2, 1)), np.zeros((3, 1))]
    spent = {"energy": [[1.0, 2.0], [3.0, 4.0, 5.0]]}
    runs = Episodes.from_arrays(
        states, spent, behavior={"energy": "sum", "peak": (Max(), "energy"), "all": "sum:energy"}
    )
    assert [runs.only(name).outcomes.tolist() for name in runs.names] == [[3, 12], [2, 5], [3, 12]]
    assert runs.readings["energy"].spec == "sum:energy"  # by its own name


def test_a_single_behavior_may_read_a_signal_without_a_name() -> None:
    frame = pl.DataFrame({"run": [1, 1], "step": [0, 1], "x": [0.0, 1.0], "gap": [3.0, 2.0]})
    runs = Episodes.from_frame(frame, behavior="min:gap")
    assert (runs.outcomes.tolist(), runs.schema.names, runs.names) == ([2.0], ("x",), ())
    given = Episodes.from_arrays(np.zeros((1, 2, 1)), {"gap": [[3.0, 2.0]]}, behavior="min:gap")
    assert given.outcomes.tolist() == [2.0]


def test_signals_that_do_not_fit_are_refused_by_name() -> None:
    states = np.zeros((2, 3, 1))
    with refuses(EpisodesError, "rewards", "'e'", "'energy'", "'reward'"):
        Episodes.from_arrays(states, {"reward": np.ones((2, 3))}, behavior={"e": "sum:energy"})
    with refuses(EpisodesError, None, "'e'", "(2, 3)", "(2, 4)"):
        Episodes.from_arrays(states, {"energy": np.ones((2, 4))}, behavior={"e": "sum:energy"})
    broken = {"energy": [[1.0, np.nan, 1.0], [1.0, 1.0, 1.0]]}
    with refuses(EpisodesError, None, "nan", "'e'", "'energy'"):
        Episodes.from_arrays(states, broken, behavior={"e": "sum:energy"})
    frame = pl.DataFrame({"run": [1], "step": [0], "x": [0.0], "reward": [1.0]})
    with refuses(EpisodesError, "behavior", "'energy'"):
        Episodes.from_frame(frame, behavior={"e": "sum:energy"})
    with refuses(EpisodesError, "behavior", "'a&b'"):
        Episodes.from_arrays(states, np.ones((2, 3)), behavior={"a&b": Sum()})


def test_what_one_behavior_answers_says_how_to_choose_it() -> None:
    runs = recorded()
    with refuses(EpisodesError, None, "episodes.only('return')"):
        _ = runs.outcomes
    with refuses(EpisodesError, "name", "'speed'"):
        runs.only("speed")
    with refuses(EpisodesError, None, "'energy'"):
        runs.only("energy").only("energy")
