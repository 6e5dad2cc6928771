"""Times as features, rows put on a clock, and outcomes known from a column."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ontarget import Episodes
from ontarget.errors import EpisodesError
from refusals import refuses

START = datetime(2026, 1, 31, 22, 30)  # a Saturday


def log(**more: object) -> pl.DataFrame:
    """Run a has readings after 0, 10, 65 and 130 minutes; b has one alone."""
    minutes = [0, 10, 65, 130, 5]
    columns = {
        "run": ["a", "a", "a", "a", "b"],
        "at": [START + timedelta(minutes=m) for m in minutes],
        "heat": [1.0, 2.0, 3.0, 4.0, 5.0],
        "reward": [10.0, 20.0, 30.0, 40.0, 50.0],
    }
    return pl.DataFrame({**columns, **more})


def states(runs: Episodes) -> list[list[list[float]]]:
    return [runs.at(t).states.tolist() for t in range(runs.horizon)]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_clock_shows_the_last_reading_and_adds_up_rewards(as_text: bool) -> None:
    frame = log().with_columns(pl.col("at").cast(pl.String)) if as_text else log()
    runs = Episodes.from_frame(frame[[3, 0, 4, 2, 1]], step="at", every="1h")
    assert runs.lengths.tolist() == [3, 1]
    assert states(runs) == [[[1.0], [5.0]], [[2.0]], [[3.0]]]
    assert [runs.rewards_at(t).tolist() for t in range(3)] == [[30.0, 50.0], [30.0], [40.0]]
    assert runs.roles.step == "at@1h"


@pytest.mark.parametrize(
    ("behavior", "rewards"), [("max", [20, 30, 40]), ("min", [10, 30, 40]), ("last", [20, 30, 40])]
)
def test_a_clock_keeps_outcomes_of_other_behaviors(behavior: str, rewards: list[float]) -> None:
    plain = Episodes.from_frame(log(), step="at", behavior=behavior)
    runs = Episodes.from_frame(log(), step="at", behavior=behavior, every="1h")
    assert runs.outcomes.tolist() == plain.outcomes.tolist()
    assert [runs.rewards_at(t)[0] for t in range(3)] == rewards
    fine = Episodes.from_frame(log(), step="at", behavior=behavior, every="7m")
    assert fine.outcomes.tolist() == plain.outcomes.tolist()


@given(
    minutes=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=6), min_size=1, max_size=4),
    every=st.integers(1, 90),
)
def test_a_clock_agrees_with_looking_row_by_row(minutes: list[list[int]], every: int) -> None:
    rows = [(i, m, k) for i, own in enumerate(minutes) for k, m in enumerate(own)]
    frame = pl.DataFrame(
        {
            "run": [i for i, _, _ in rows],
            "at": [START + timedelta(minutes=m) for _, m, _ in rows],
            "x": [float(k) for k in range(len(rows))],
            "reward": [float(2**k) for k in range(len(rows))],
        }
    )
    runs = Episodes.from_frame(frame, step="at", every=f"{every}m")
    for i, own in enumerate(minutes):
        ordered = sorted(
            (m, j) for j, (run, m, _) in enumerate(rows) if run == i
        )  # equal times: the later row counts
        first, last = ordered[0][0], ordered[-1][0]
        one = runs.take([i])
        assert one.lengths[0] == (last - first) // every + 1
        for t in range(int(one.lengths[0])):
            tick = first + t * every
            assert one.at(t).states[0, 0] == [j for m, j in ordered if m <= tick][-1]
            earned = sum(2.0**j for m, j in ordered if tick <= m < tick + every)
            assert one.rewards_at(t)[0] == earned
        assert one.outcomes[0] == sum(2.0**j for m, j in ordered)
        assert len(own) == len(ordered)


def test_a_clock_takes_flags_groups_and_behavior_columns_along(tmp_path) -> None:
    frame = log(
        done=[False, False, False, True, True],
        group=["x", "x", "x", "x", "y"],
        height=[1.0, 5.0, 2.0, 7.0, 9.0],
    ).drop("reward")
    runs = Episodes.from_frame(frame, step="at", behavior="height", every="1h")
    assert runs.outcomes.tolist() == [7.0, 9.0]
    assert [runs.at(t).behavior[0] for t in (1, 2)] == [5.0, 2.0]
    assert runs.terminated.tolist() == [True, True]
    assert runs.groups.tolist() == ["x", "y"]
    again = Episodes.from_frame(frame, like=runs)
    assert_frame_equal(again.to_frame(), runs.to_frame())
    runs.write(tmp_path / "runs.parquet")
    assert_frame_equal(Episodes.read(tmp_path / "runs.parquet").to_frame(), runs.to_frame())
    written = Episodes.read(tmp_path / "runs.parquet", like=runs)
    assert_frame_equal(written.to_frame(), runs.to_frame())


def test_times_become_hours_and_weekdays() -> None:
    runs = Episodes.from_frame(log(), step="at", times=["at"])
    assert runs.schema.names == ("at_elapsed_h", "at_hour", "at_weekday", "heat")
    assert runs.at(3).states[0, :3] == pytest.approx([130 / 60, 40 / 60, 7.0])
    again = Episodes.from_frame(log(), like=runs)
    assert_frame_equal(again.to_frame(), runs.to_frame())
    ticks = Episodes.from_frame(log(), step="at", times=["at"], every="1h")
    assert [ticks.at(t).states[0, 0] for t in range(3)] == [0.0, 1.0, 2.0]
    other = log(opened=["2026-01-31"] * 4 + ["2026-02-02T06:45:00"])
    found = Episodes.from_frame(other, step="at", times=["opened"], features=["opened_hour"])
    assert found.at(0).states.tolist() == [[0.0], [6.75]]


@pytest.mark.parametrize("values", [[0.5] * 4 + [1.0], [None, None, None, 0.5, 1.0]])
def test_an_outcome_from_a_column_is_earned_in_the_last_step(values, tmp_path) -> None:
    frame = log(result=values).drop("reward")
    runs = Episodes.from_frame(frame, step="at", outcome="result")
    assert runs.outcomes.tolist() == [0.5, 1.0]
    assert runs.schema.names == ("heat",)
    assert [runs.rewards_at(t).tolist() for t in (0, 3)] == [[0.0, 1.0], [0.5]]
    again = Episodes.from_frame(frame, like=runs)
    assert_frame_equal(again.to_frame(), runs.to_frame())
    runs.write(tmp_path / "runs.csv")
    assert_frame_equal(Episodes.read(tmp_path / "runs.csv", like=runs).to_frame(), runs.to_frame())
    clock = Episodes.from_frame(frame, step="at", outcome="result", every="1h")
    assert clock.outcomes.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"every": "1h"}, ("every", "step=NAME")),
        ({"every": "1h", "step": "heat"}, ("every", "'heat'")),
        ({"every": "soon", "step": "at"}, ("every", "'soon'")),
        ({"every": "0s", "step": "at"}, ("every", "'0s'")),
        ({"every": "1h", "step": "at", "behavior": "mean"}, ("every", "'mean'")),
        ({"times": ["heat"], "drop": ["at"]}, ("times", "'heat'")),
        ({"times": ["when"]}, (None, "'when'")),
        ({"times": "at"}, ("times", "'at'")),
        ({"outcome": "heat", "step": "at"}, ("behavior", 1, "'heat'")),
        ({"outcome": "heat", "behavior": "max"}, ("outcome", "outcome='heat'")),
        ({"outcome": "heat", "reward": "reward"}, ("outcome", "outcome='heat'")),
        ({"outcome": "prize"}, ("outcome", "'prize'")),
        ({}, ("times", "'at'", "times=['at']", "drop=['at']")),
    ],
)
def test_what_cannot_be_put_on_a_clock_or_counted_is_refused(options, refusal: tuple) -> None:
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(log(), **options)


def test_a_clock_that_would_fill_the_memory_is_refused() -> None:
    frame = log().with_columns(at=pl.Series([START + timedelta(days=400 * k) for k in range(5)]))
    with refuses(EpisodesError, "every", "'1ms'", "103,680,000,00"):
        Episodes.from_frame(frame, step="at", every="1ms")


def test_a_clock_other_than_the_fit_s_is_refused() -> None:
    runs = Episodes.from_frame(log(), step="at", every="1h")
    with refuses(EpisodesError, "every", "'1h'"):
        Episodes.from_frame(log(), like=runs, every="30m")
    plain = Episodes.from_frame(log(), step="at")
    with refuses(EpisodesError, "every", "not given"):
        Episodes.from_frame(log(), like=plain, every="1h")
    assert np.array_equal(Episodes.from_frame(log(), like=plain).outcomes, plain.outcomes)
