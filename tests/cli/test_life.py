from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.models import Marginal
from tests.walks import walks

from .river import call, river, told


def test_recalibrate_answers_programs_in_json(tmp_path: Path) -> None:
    out = tmp_path / "renewed.ontarget"
    arguments = ["recalibrate", river().model, river().new, "-o", out, "--renew-p", "--json"]
    answer = json.loads(told(arguments))
    assert (answer["learn"], answer["assure"]) == (540, 60)
    assert answer["bytes"] == out.stat().st_size


def test_recalibrate_refuses_the_runs_of_the_fit_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "renewed.ontarget"
    result = call(["recalibrate", river().model, river().runs, "-o", out])
    assert result.exit_code == 1
    assert "600 of these 600 are among those that the monitor was fitted on" in result.stderr
    assert not out.exists()


def longer(log: pl.DataFrame) -> pl.DataFrame:
    """The same runs with one step more."""
    last = log.filter(pl.col("step") == pl.col("step").max())
    return pl.concat([log, last.with_columns(pl.col("step") + 1)])


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (lambda log: log.drop("x1"), [], "x1"),
        (longer, [], "horizon"),
        (
            lambda log: log.with_columns(chance=pl.lit(-0.1)),
            ["--censored", "weights", "--stop-probability", "chance", "--stop-bound", "2"],
            "--stop-probability needs numbers from 0 to below 1, got -0.1",
        ),
    ],
)
def test_what_cannot_recalibrate_is_refused_and_nothing_is_written(
    tmp_path: Path, spoil, options: list[str], message: str
) -> None:
    model, log, out = (tmp_path / name for name in ("m.ontarget", "new.parquet", "again.ontarget"))
    GoalMonitor(Marginal()).fit(walks(60), progress=False).save(model)
    spoil(walks(40, seed=3).to_frame()).write_parquet(log)
    for command in (
        ["recalibrate", model, log, "-o", out],
        ["drift", model, log, "--target", "0:"],
        ["compare", model, model, log, "--target", "0:"],
    ):
        result = call([*command, *options])
        assert result.exit_code == 1
        assert message in result.stderr
    assert not out.exists()


def dated(path: Path, *, by_result: bool = False) -> Path:
    """The new runs with the day and the crew of each, the later half of another crew."""
    runs = Episodes.read(river().new)
    days = np.arange(len(runs))
    if by_result:
        days = np.argsort(np.argsort(runs.outcomes, kind="stable"))
    place = pl.DataFrame(
        {
            "episode": runs.ids,
            "day": [f"2024-{1 + d // 28:02d}-{1 + d % 28:02d}" for d in days.tolist()],
            "crew": np.where(days < 60, "first", "second"),
        }
    )
    runs.to_frame().join(place, on="episode").write_parquet(path)
    return path


def test_drift_sees_no_change_in_runs_like_the_recorded_ones(tmp_path: Path) -> None:
    log = dated(tmp_path / "new.parquet")
    options = ["--target", "-60:"]
    text = told(["drift", river().model, log, *options, "--order", "day", "--by", "crew"])
    assert "verdict    no sign of a change" in text
    assert "\norder " not in text


def test_a_file_sorted_by_result_is_no_drift(tmp_path: Path) -> None:
    log = dated(tmp_path / "sorted.parquet", by_result=True)
    arguments = ["drift", river().model, log, "--target", "-60:"]
    answer = json.loads(told([*arguments, "--order", "day", "--json"]))
    assert answer["judgement"] == "no sign of a change"
    assert "one that sorts them by their outcome" in answer["order"]
    assert answer["since"] is None


def test_a_scheduled_check_fails_where_it_should(tmp_path: Path) -> None:
    calm = ["drift", river().model, river().new, "--target", "-60:", "--fail-on-change"]
    assert call(calm).exit_code == 0
    changed = Episodes.read(river().new)
    shifted = Episodes.from_arrays(
        [changed.take([i]).at(0).states for i in range(60)], [[-999.0]] * 60, horizon=50,
        features=changed.schema.names, ids=[f"new {i}" for i in range(60)],
    )  # fmt: skip
    shifted.write(tmp_path / "shifted.parquet")
    worse = ["drift", river().model, tmp_path / "shifted.parquet", "--target", "-60:"]
    assert call([*worse, "--fail-on-change"]).exit_code == 4
    assert call([*worse, "--fail-on-change", "--json"]).exit_code == 4
    assert call(worse).exit_code == 0
    judged = ["evaluate", *worse[1:]]
    assert call([*judged, "--fail-unless-held"]).exit_code == 4
    assert call([*judged, "--fail-unless-held", "--json"]).exit_code == 4
    assert call(judged).exit_code == 0


def test_evaluate_says_since_when_by_which_column_and_when_an_order_is_none(tmp_path: Path) -> None:
    log = dated(tmp_path / "sorted.parquet", by_result=True)
    arguments = ["evaluate", river().model, log, "--target", "-60:", "--by", "crew"]
    text = told([*arguments, "--order", "day"])
    assert "the order of the runs is one that sorts them by their outcome" in text
    assert "right, within chance" in text  # whole, however narrow
    answer = json.loads(told([*arguments, "--order", "day", "--json"]))["drift"]
    assert {part["column"] for part in answer["by"]} == {"crew"}
    result = call([*arguments, "--order", "date"])
    assert result.exit_code == 1
    assert "--order needs a column of the log, got 'date'; it has" in result.stderr


def test_compare_says_which_model_to_deploy(tmp_path: Path) -> None:
    renewed = tmp_path / "renewed.ontarget"
    told(["recalibrate", river().model, river().new, "-o", renewed])
    arguments = ["compare", river().model, renewed, river().new, "--target", "-60:"]
    text = told(arguments)
    assert "the same in both, which have the same models" in text  # p is not renewed
    assert "Brier" not in text
    assert f"cannot say: {renewed} was fitted on 120 of these 120" in text
    answer = json.loads(told([*arguments, "--json"]))
    assert answer["seen"] == [0, 120]
    assert answer["brier"]["difference"]["value"] == 0.0
