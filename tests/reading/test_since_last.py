"""Rewards that a log writes one row late: what was earned since the row before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.cli.mistakes import as_option
from ontarget.errors import EpisodesError
from ontarget.models import Marginal
from refusals import refuses

NAMES = {"episode": "ticket", "step": "event"}


def log(n: int = 40, seed: int = 0, first: float | None = 0.0) -> pl.DataFrame:
    """Tickets with the hours since the last event, in the order of a file that is not sorted."""
    rng = np.random.default_rng(seed)
    rows = []
    for ticket in range(n):
        for event in range(int(rng.integers(1, 6))):
            hours = first if event == 0 else float(rng.integers(1, 9))
            rows.append((f"{seed}-{ticket}", event, float(rng.normal()), hours))
    found = pl.DataFrame(rows, schema=["ticket", "event", "x", "hours"], orient="row")
    return found.sample(fraction=1.0, shuffle=True, seed=seed)


def shifted(table: pl.DataFrame) -> pl.DataFrame:
    later = pl.col("hours").shift(-1).over("ticket", order_by="event").fill_null(0.0)
    return table.with_columns(hours=later)


@pytest.mark.parametrize("first", [0.0, None], ids=["0", "missing"])
def test_each_row_has_the_reward_that_the_next_one_holds(first: float | None) -> None:
    table = log(first=first)
    runs = Episodes.from_frame(table, reward="hours", reward_since_last=True, **NAMES)
    by_hand = Episodes.from_frame(shifted(log()), reward="hours", **NAMES)
    for t in range(runs.horizon):
        np.testing.assert_array_equal(runs.rewards_at(t), by_hand.rewards_at(t))
    np.testing.assert_array_equal(runs.outcomes, by_hand.outcomes)
    as_signal = Episodes.from_frame(table, behavior="sum:hours", reward_since_last=True, **NAMES)
    np.testing.assert_array_equal(runs.outcomes, as_signal.outcomes)


def test_a_model_reads_new_logs_as_it_read_the_first(tmp_path: Path) -> None:
    runs = Episodes.from_frame(log(60), reward="hours", reward_since_last=True, **NAMES)
    file = tmp_path / "model.ontarget"
    GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False).save(file)
    monitor = GoalMonitor.load(file)
    new = Episodes.from_frame(log(seed=1), like=monitor)
    by_hand = Episodes.from_frame(shifted(log(seed=1)), like=monitor, reward_since_last=False)
    assert (new.rewards_at(0) != 0.0).any()
    np.testing.assert_array_equal(new.rewards_at(0), by_hand.rewards_at(0))
    for name in ("kept.parquet", "kept.csv"):  # they hold the rewards where they belong
        new.write(tmp_path / name)
        again = Episodes.read(tmp_path / name, like=monitor)
        np.testing.assert_array_equal(again.rewards_at(0), new.rewards_at(0))
        assert again.roles.reward == "next:hours"


def test_prepared_episodes_have_the_same_rewards(tmp_path: Path) -> None:
    from ontarget.reading import prepare

    table = log()
    table.write_csv(tmp_path / "log.csv")
    options = {"reward": "hours", "reward_since_last": True, "horizon": 5, **NAMES}
    prepare(tmp_path / "log.csv", tmp_path / "prepared", **options)
    runs = Episodes.from_frame(table, **options)
    found = Episodes.read(tmp_path / "prepared")
    assert dict(zip(found.ids.tolist(), found.outcomes.tolist(), strict=True)) == dict(
        zip(runs.ids.tolist(), runs.outcomes.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"reward": "x"}, ("reward_since_last", "'x'", 0.264456)),
        ({"outcome": "hours"}, ("reward_since_last", "single behavior")),
        ({"behavior": "hours"}, ("reward_since_last", "single behavior")),
        ({"behavior": {"a": "sum:hours", "b": "max:x"}}, ("reward_since_last", "single behavior")),
    ],
)
def test_what_cannot_be_shifted_is_refused(options: dict[str, object], refusal: tuple) -> None:
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(log(), reward_since_last=True, **NAMES, **options)


def test_a_clock_needs_rewards_that_are_shifted_already() -> None:
    timed = log().with_columns(event=pl.datetime(2026, 1, 1) + pl.duration(hours="event"))
    with refuses(EpisodesError, "reward_since_last", "`every`"):
        Episodes.from_frame(timed, reward="hours", reward_since_last=True, every="1h", **NAMES)


def test_rewards_missing_in_first_rows_alone_say_what_to_pass() -> None:
    with refuses(EpisodesError, "reward_since_last", "'hours'", "reward_since_last=True") as error:
        Episodes.from_frame(log(first=None), reward="hours", **NAMES)
    assert "--reward-since-last" in error.value.told(as_option)


def test_a_look_cautions_of_rewards_that_look_a_row_late() -> None:
    runs = Episodes.from_frame(log(), reward="hours", **NAMES)
    [caution] = [one for one in runs.look().cautions if one.kind == "since last"]
    assert caution.columns == ("hours",)
    assert "--reward-since-last" in caution.told(as_option)
    assert "'hours' is 0" in runs.look().head(as_option)


def test_a_look_says_nothing_of_rewards_where_they_belong() -> None:
    half = pl.when(pl.col("event") % 2 == 0).then(0.0).otherwise("hours").alias("hours")
    good = {
        "shifted by hand": Episodes.from_frame(shifted(log()), reward="hours", **NAMES),
        "shifted": Episodes.from_frame(log(), reward="hours", reward_since_last=True, **NAMES),
        "often 0": Episodes.from_frame(log().with_columns(half), reward="hours", **NAMES),
        "few": Episodes.from_frame(log(15), reward="hours", **NAMES),
    }
    for name, runs in good.items():
        assert not [one for one in runs.look().cautions if one.kind == "since last"], name
