"""``evaluate --out``, ``--by`` and several targets."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ontarget import Episodes, GoalMonitor, Promised, Target
from ontarget.cli.evaluate import without_formulas

from .river import call, river, told


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """New runs in another order, under two keys, with a column that the model does not read."""
    frame = Episodes.read(river().new).to_frame().sample(fraction=1.0, shuffle=True, seed=3)
    keyed = frame.with_columns(
        season=2020 + pl.col("episode") % 2, game=pl.col("episode") // 2, note=pl.lit("as it was")
    )
    path = tmp_path_factory.mktemp("log") / "log.csv"
    keyed.drop("episode").write_csv(path)
    return path


KEYS = ["--episode", "game,season"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_log_s_own_rows_come_back_with_the_answers(
    log: Path, ending: str, tmp_path: Path
) -> None:
    out = tmp_path / f"scored.{ending}"
    text = told(["evaluate", river().model, log, *KEYS, "--target", "-60:", "--out", out])
    assert f"rows       {out}" in text
    rows = pl.read_parquet(out) if ending == "parquet" else pl.read_csv(out)
    before = pl.read_csv(log)
    assert_frame_equal(rows.select(before.columns), before)
    monitor = GoalMonitor.load(river().model)
    runs = Episodes.read(log, like=monitor, episode=["game", "season"])
    found = monitor.evaluate(runs, Target.at_least(-60))
    expected = found.to_frame(Promised("0.05"))
    name = pl.format("{}/{}", "game", "season").alias("game,season")
    joined = rows.with_columns(name).join(expected, on=["game,season", "step"], suffix="_expected")
    assert joined.height == rows.height == expected.height
    for column in ("p", "spread_low", "spread_high", "low", "high", "status", "met"):
        assert joined[column].to_list() == joined[f"{column}_expected"].to_list()
    assert set(rows["status"]) >= {"OK", "ALARM"}


def test_text_that_a_spreadsheet_would_run_is_quoted() -> None:
    formulas = ["=1+1", "@SUM(A1)", "+cmd|'/c calc'!A0", "-2+HYPERLINK(A1)", "\t=1", "\r=1"]
    harmless = ["-5", "+3.5", "-1:30", "-", "a=1", "", None]
    table = pl.DataFrame({"=x": formulas + harmless, "n": [-1.5] * 13})
    found = without_formulas(table)
    assert found["'=x"].to_list() == [f"'{one}" for one in formulas] + harmless
    assert found["n"].to_list() == [-1.5] * 13


def test_measures_by_a_column_that_the_model_does_not_read(log: Path) -> None:
    arguments = ["evaluate", river().model, log, *KEYS, "--target", "-60:", "--by", "season"]
    found = json.loads(told([*arguments, "--json"]))
    assert [part["value"] for part in found["by"]] == ["2020", "2021"]
    assert [part["episodes"] for part in found["by"]] == [60, 60]
    brier = sum(part["brier"]["value"] for part in found["by"]) / 2  # all runs have 50 steps
    assert brier == pytest.approx(found["brier"]["value"])
    assert "season  episodes  it said" in told(arguments)
    arguments[-1] = "step"
    steps = json.loads(told([*arguments, "--json"]))["by"]
    assert len(steps) == 4
    both = json.loads(told([*arguments, "--by", "season", "--json"]))["by"]
    assert [part["column"] for part in both] == ["step"] * 4 + ["season"] * 2
    text = told([*arguments, "--by", "season"])
    assert text.index("step  episodes") < text.index("season  episodes")
    arguments[-1] = "weather"
    assert "), got 'weather'" in call(arguments).stderr


def test_several_targets_are_checked_at_once(tmp_path: Path) -> None:
    out = tmp_path / "scored.parquet"
    arguments = ["evaluate", river().model, river().new, "--target", "-60:"]
    one = json.loads(told([*arguments, "--json"]))
    both = json.loads(told([*arguments, "--target", ":-70", "--json", "--out", out]))
    assert both["targets"][0] == {k: v for k, v in one.items() if k != "remarks"}
    assert both["targets"][1]["target"] == str(Target.at_most(-70))
    rows = pl.read_parquet(out)
    assert {"p [-60, inf)", "p (-inf, -70]", "status (-inf, -70]"} <= set(rows.columns)
    text = told([*arguments, "--target", ":-70"])
    assert text.count("verdict    ") == text.count("target     ") == 2
    refused = call([*arguments, "--target", ":-70", "--report", tmp_path / "r.html"])
    assert refused.exit_code == 2
    assert "pass --target once" in refused.stderr


def test_a_column_that_the_answers_need_is_refused_unless_dropped(
    log: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / "log.parquet", tmp_path / "scored.parquet"
    pl.read_csv(log).with_columns(p=pl.lit(0.5)).write_parquet(path)
    arguments = ["evaluate", river().model, path, *KEYS, "--target", "-60:", "--out", out]
    assert "the log has a column 'p' already" in call(arguments).stderr
    assert not out.exists()
    told([*arguments, "--drop", "p"])
    assert pl.read_parquet(out)["p"].n_unique() > 10


def test_an_output_that_cannot_be_written_is_refused_first(log: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", river().model, log, *KEYS, "--target", "-60:", "--out"]
    assert "end in .parquet or .csv" in call([*arguments, tmp_path / "rows.xlsx"]).stderr
    assert "no such folder" in call([*arguments, tmp_path / "none" / "rows.csv"]).stderr
