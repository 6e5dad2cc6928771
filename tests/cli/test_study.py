"""``ontarget study``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ontarget import Episodes, Target
from ontarget.study import study

from .river import call, river, told


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of the river as a CSV file with columns of other names."""
    table = Episodes.read(river().runs).take(range(150)).to_frame().filter(pl.col("step") < 12)
    path = tmp_path_factory.mktemp("study") / "log.csv"
    table.rename({"episode": "run", "step": "tick"}).write_csv(path)
    return path


def test_study_tells_people_and_programs_what_the_library_says(log: Path) -> None:
    options = ["study", log, "--target", "-20:", "--splits", 2]
    found = study(Episodes.read(log), Target.at_least(-20), splits=2, progress=False)
    text = told(options)
    assert text.endswith(f"{found}\n")
    assert "splits     2, each of 100 past and 50 new episodes" in text
    answer = json.loads(told([*options, "--json"]))
    assert answer.pop("remarks")
    assert answer == json.loads(json.dumps(found.to_json()))


@pytest.mark.parametrize(("target", "met"), [("1000:", 0), ("-1000:", 150)])
def test_a_target_of_one_kind_is_refused_after_the_outcomes_are_shown(
    log: Path, target: str, met: int
) -> None:
    result = call(["study", log, "--target", target])
    assert result.exit_code == 1
    assert f"{met} of 150" in result.stderr
    assert "outcomes   " in result.stdout


def test_a_log_too_small_or_without_features_is_refused(log: Path, tmp_path: Path) -> None:
    table = pl.read_csv(log)
    table.filter(pl.col("run") < 20).write_csv(tmp_path / "few.csv")
    assert call(["study", tmp_path / "few.csv", "--target", "-20:"]).exit_code == 1
    table.select("run", "tick", "reward").write_csv(tmp_path / "bare.csv")
    result = call(["study", tmp_path / "bare.csv", "--target", "-20:"])
    assert "--features NAMES" in result.output
