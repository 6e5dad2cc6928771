"""``ontarget study`` and ``ontarget evaluate --beside``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ontarget import Episodes, Target
from ontarget.study import run_study

from .river import call, river, told

STUDY = ["--target", "-60:", "--splits", 2, "--model", "marginal"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of the river as a CSV file with columns of other names."""
    table = Episodes.read(river().runs).take(range(150)).to_frame().filter(pl.col("step") < 12)
    path = tmp_path_factory.mktemp("study") / "log.csv"
    table.rename({"episode": "run", "step": "tick"}).write_csv(path)
    return path


def test_study_tells_people_who_is_better_and_draws(log: Path, tmp_path: Path) -> None:
    figure = tmp_path / "study.png"
    text = told(["study", log, "--target", "-20:", *STUDY[2:], "--figure", figure])
    assert "guessed by name: episode = run" in text
    assert "time       about 10 seconds for 2 splits" in text
    assert "splits     2, each of 100 past and 50 new episodes" in text
    table = [line.split("  ")[0] for line in text.splitlines()]
    assert {"ontarget", "boosted classifier", "logistic regression", "the past's rate"} <= {*table}
    said = [line for line in text.splitlines() if line.startswith("beside     ")]
    assert len(said) == 2
    assert all("Brier score" in line for line in said)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_study_in_json_is_the_librarys(log: Path) -> None:
    from ontarget import GoalMonitor
    from ontarget.models import Marginal

    answer = json.loads(told(["study", log, "--target", "-20:", *STUDY[2:], "--json"]))
    found = run_study(
        Episodes.read(log),
        Target.at_least(-20),
        monitor=GoalMonitor(Marginal()),
        splits=2,
        progress=False,
    )
    assert answer.pop("remarks")
    assert answer == json.loads(json.dumps(found.to_json()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "1000:"], "none of the 150 episodes met the target [1000, inf)"),
        (["--target", "-1000:"], "none of the 150 episodes missed the target"),
        (["--target", "-20:", "--model", "magic"], "--model needs one of default, paper, "),
        (["--target", "-20:", "--figure", "study.pdf"], "study.pdf needs to end in .png or .svg"),
        (["--target", "-20:", "--reward-bounds", "a:b"], "--reward-bounds needs LO:HI"),
    ],
)
def test_study_says_at_once_what_cannot_be(log: Path, options: list[str], message: str) -> None:
    result = call(["study", log, *options], env={"COLUMNS": "200"})
    assert result.exit_code != 0
    assert message in result.output
    assert "time" not in result.stdout


def test_a_log_too_small_or_without_features_is_refused(log: Path, tmp_path: Path) -> None:
    table = pl.read_csv(log)
    table.filter(pl.col("run") < 20).write_csv(tmp_path / "few.csv")
    result = call(["study", tmp_path / "few.csv", "--target", "-20:"])
    assert "a comparison needs at least 60 episodes, got 20; record more" in result.output
    table.select("run", "tick", "reward").write_csv(tmp_path / "bare.csv")
    result = call(["study", tmp_path / "bare.csv", "--target", "-20:"])
    assert "no feature, so no method can know more" in result.output
    assert "--features NAMES" in result.output


@pytest.mark.slow
def test_evaluate_sets_the_monitor_beside_classifiers() -> None:
    arguments = ["evaluate", river().model, river().new, "--target", "-60:"]
    text = told([*arguments, "--beside", river().runs])
    said = [line for line in text.splitlines() if line.startswith("beside     ")]
    assert len(said) == 2
    assert text.splitlines()[-1].startswith("verdict    ")
    answer = json.loads(told([*arguments, "--beside", river().runs, "--json"]))
    beside = answer["beside"]
    assert (beside["past"], beside["new"], beside["splits"]) == (600, 120, 1)
    assert beside["scores"]["ontarget"]["brier"] == pytest.approx(answer["brier"]["value"])
    assert "beside" not in json.loads(told([*arguments, "--json"]))


def test_rivals_may_not_learn_from_what_they_are_asked_about() -> None:
    result = call(
        ["evaluate", river().model, river().new, "--target", "-60:", "--beside", river().new]
    )
    assert result.exit_code == 1
    assert "120 of the 120 evaluated episodes are also past episodes" in result.output
