"""A first hour with real logs, tried again row by row: what stood in the way of a user then."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from tests.cli.river import call, told

BALLS = 8
COLUMNS = ["--episode", "id,inning", "--step", "over,ball", "--reward", "runs"]


def cricket(matches: int, *, seed: int = 0, season: int = 2008, team: str = "Pune") -> pl.DataFrame:
    """Ball by ball, as such logs are: two innings a match, overs and balls, text, a date."""
    rng = np.random.default_rng(seed)
    rows = []
    for match in range(matches):
        for inning in (1, 2):
            skill = rng.normal(scale=0.5)
            for ball in range(BALLS):
                runs = int(rng.poisson(np.exp(skill)))
                rows.append(
                    {
                        "id": 335_000 + 1_000 * seed + match,
                        "inning": inning,
                        "over": ball // 4,
                        "ball": 1 + ball % 4,
                        "batting_team": [team, "Delhi"][(match + inning) % 2],
                        "form": round(skill + 0.3 * rng.normal(), 3),
                        "season": season + match * 4 // matches,
                        "runs": runs,
                    }
                )
    return pl.DataFrame(rows)


@cache
def folder() -> Path:
    """A log of the past, one of later seasons with a team that nobody knew, and a model."""
    found = Path(mkdtemp(prefix="ontarget-friction-"))
    cricket(90).write_csv(found / "past.csv")
    cricket(40, seed=1, season=2012, team="Rising Pune").write_csv(found / "later.csv")
    told(["fit", found / "past.csv", "-o", found / "m.ontarget", *COLUMNS])
    return found


def look(log: pl.DataFrame, tmp_path: Path, *options: str) -> str:
    log.write_csv(tmp_path / "log.csv")
    return told(["look", tmp_path / "log.csv", *options])


def test_a_team_that_nobody_knew_is_counted_and_said() -> None:
    found = folder()
    text = told(["evaluate", found / "m.ontarget", found / "later.csv", "--target", "8:"])
    unseen = BALLS * 40
    assert f"{unseen:,} readings" in text
    assert "verdict" in text
    watch = ["watch", found / "m.ontarget", "--target", "8:"]
    state = {"batting_team": "Rising Pune", "form": 0.1, "season": 2013}
    (answer,) = told(watch, input=json.dumps({"state": state})).splitlines()
    assert json.loads(answer)["unseen"] == {"batting_team": "Rising Pune"}
    assert json.loads(answer)["status"] != "UNKNOWN"
    replayed = call([*watch, "--replay", found / "later.csv"])
    assert f"{unseen:,} readings" in replayed.stderr
    assert "UNKNOWN" not in replayed.stdout


def test_seconds_that_only_sort_lead_to_a_sort_key(tmp_path: Path) -> None:
    log = cricket(20).filter(pl.col("inning") == 1)
    log = log.with_columns(at=1_767_272_400 + 35 * (4 * pl.col("over") + pl.col("ball")))
    columns = ["--episode", "id", "--reward", "runs", "--drop", "over,ball", "--step"]
    log.write_csv(tmp_path / "log.csv")
    wrong = call(["look", tmp_path / "log.csv", *columns, "at"])
    assert "--step NAME," in wrong.stderr
    assert "episodes   20," in told(["look", tmp_path / "log.csv", *columns, "at,"])


def cases(*, counter: str, shuffled: bool) -> pl.DataFrame:
    """Cases with a counter of their events, without times."""
    log = cricket(20).filter(pl.col("inning") == 1).with_columns(Cost=pl.col("runs"))
    events = (1 + pl.int_range(pl.len())).over("id").alias(counter)
    log = log.select(pl.col("id").alias("Case ID"), events, "form", "Cost")
    return log.sample(fraction=1.0, shuffle=True, seed=0) if shuffled else log


def test_shuffled_rows_with_a_counter_that_nobody_named_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    cases(counter="Row of case", shuffled=True).write_csv(log, separator=";")
    for command in (["look", log], ["fit", log, "-o", tmp_path / "m.ontarget"]):
        wrong = call(command)
        assert wrong.exit_code == 1
        assert "another order" in wrong.stderr
        assert "--step 'Row of case'" in wrong.stderr
        assert "--step none" in wrong.stderr
    assert "episodes   20," in told(["look", log, "--step", "Row of case"])
    assert "episodes   20," in told(["look", log, "--step", "none"])


def test_a_counter_in_the_order_of_the_rows_is_remarked(tmp_path: Path) -> None:
    text = look(cases(counter="Row of case", shuffled=False), tmp_path)
    assert "'Row of case' counts" in text


def test_dates_with_the_year_last_are_refused_with_the_remedy(tmp_path: Path) -> None:
    log = cricket(20).with_columns(at=pl.format("{}/03/2026", pl.col("ball")))
    log.write_csv(tmp_path / "log.csv")
    for columns in (["--step", "at"], ["--step", "over,ball", "--times", "at"]):
        wrong = call(["look", tmp_path / "log.csv", *COLUMNS[:2], *COLUMNS[4:], *columns])
        assert "(2026-01-31 14:05:00), got '1/03" in wrong.stderr


@pytest.mark.parametrize(
    "written", ["{}.3.2026 14:05", "{}/3/2026", "3/{}/2026, 9:30", "{}-03-2026"]
)
def test_dates_with_the_year_last_are_read_if_the_order_of_day_and_month_is_told(
    written: str, tmp_path: Path
) -> None:
    days = cricket(20).with_columns(day=pl.col("ball") + 11)
    told_order = days.with_columns(at=pl.format(written, "day")).drop("day")
    year_first = days.with_columns(at=pl.format("2026-03-{}", "day")).drop("day")
    text = look(told_order, tmp_path, *COLUMNS[:2], "--step", "over,at", "--reward", "runs")
    assert "episodes   40" in text
    read = [
        Episodes.from_frame(
            log, episode=("id", "inning"), step=("over", "at"), reward="runs", times=["at"]
        )
        for log in (told_order, year_first)
    ]
    place = read[0].schema.names.index("at_weekday")
    weekdays = [runs.at(2).states[:, place] for runs in read]
    assert np.array_equal(*weekdays)
    assert (weekdays[0] == 6).all()  # the 14th of March 2026


def test_times_that_nobody_can_read_are_no_missing_values(tmp_path: Path) -> None:
    log = cricket(20).with_columns(at=pl.format("2026-03-0{} 10h30", pl.col("ball")))
    log.write_csv(tmp_path / "log.csv")
    wrong = call(["look", tmp_path / "log.csv", *COLUMNS, "--times", "at"])
    assert "--times" in wrong.stderr
    assert "got '2026-03-0" in wrong.stderr
    text = look(log, tmp_path, *COLUMNS)
    assert "'at' is text" not in text  # four values are categories
    log.with_columns(at=pl.format("2026-03-01 {}:30:00,5", pl.col("ball") + 9)).write_csv(
        tmp_path / "commas.csv"
    )
    text = told(["look", tmp_path / "commas.csv", *COLUMNS, "--times", "at"])
    assert "at_elapsed_h, at_hour" in text
    assert "missing" not in text


@pytest.mark.parametrize("name", ["engines.csv", "engines.txt"])
def test_a_file_without_a_header_is_told_so(name: str, tmp_path: Path) -> None:
    rows = [f"{unit} {cycle} -0.0007 {0.1 * cycle:.1f}" for unit in range(9) for cycle in range(4)]
    (tmp_path / name).write_text("\n".join(rows))
    wrong = call(["look", tmp_path / name])
    assert "numbers 0, 0" in wrong.stderr
    (tmp_path / name).write_text("\n".join(["unit cycle wear", *rows]))
    wrong = call(["look", tmp_path / name])
    assert "line 2: 4 fields" in wrong.stderr
    assert "'0 0 -0.0007 0.0'" in wrong.stderr
    (tmp_path / name).write_text("\n".join(["unit cycle wear cost", *rows]))
    text = told(["look", tmp_path / name])
    assert "episode = unit, step = cycle, reward = cost" in text
    assert "by spaces" in text


def test_drift_is_told_from_few_episodes_and_in_which_direction(tmp_path: Path) -> None:
    found = folder()
    worse = cricket(120, seed=2).with_columns(runs=pl.col("runs") // 2)
    worse.write_csv(tmp_path / "worse.csv")
    text = told(["evaluate", found / "m.ontarget", tmp_path / "worse.csv", "--target", "8:"])
    text = " ".join(text.split())
    assert "not held" in text
    assert "too high" in text
    assert "changed" in text
    few = cricket(8, seed=3)
    few.write_csv(tmp_path / "few.csv")
    text = told(["evaluate", found / "m.ontarget", tmp_path / "few.csv", "--target", "8:"])
    assert "too few" in text
