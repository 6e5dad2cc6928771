from __future__ import annotations

import json
from pathlib import Path

from ontarget import GoalMonitor

from .river import call, river, told


def test_recalibrate_writes_a_model_that_rests_on_the_new_runs(tmp_path: Path) -> None:
    out = tmp_path / "renewed.ontarget"
    text = told(["recalibrate", river().model, river().new, "-o", out])
    assert "learned from 480, promises rest on 120 episodes" in text
    assert "luck       5 % false alarms are promised on average" in text
    assert GoalMonitor.load(out).sizes == {"learn": 480, "assure": 120}


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
