from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import AlarmRule, Below, Episodes, GoalMonitor, Promised, RuledOut, Target
from ontarget.cli.view import LiveView
from tests.walks import walks

from .river import QUICK, call, river, told


def test_evaluate_measures_what_the_library_measures() -> None:
    answer = json.loads(
        told(["evaluate", river().model, river().new, "--target", "-60:", "--json"])
    )
    found = GoalMonitor.load(river().model).evaluate(
        Episodes.read(river().new), Target.at_least(-60)
    )
    assert answer["ece"]["value"] == found.ece().value
    assert answer["met"] == found.met.mean()
    promised = found.alarms(Promised("0.05"))
    assert answer["alarm"]["below"] == [promised.triggers[0].threshold]
    assert answer["alarm"]["detection_rate"] == promised.quality.detections.value
    assert answer["alarm"]["in_time_rate"] == promised.quality.in_time.value
    assert answer["verdict"]["reason"] == found.verdict(Promised("0.05")).reason


def test_evaluate_takes_the_common_map_if_asked() -> None:
    arguments = ["evaluate", river().model, river().new, "--target", "-60:", "--json"]
    monitor, new = GoalMonitor.load(river().model), Episodes.read(river().new)
    ways = (("common", "by one map for all targets"), ("target", "map, learned from 480 episodes"))
    for name, words in ways:
        answer = json.loads(told([*arguments, "--calibration", name]))
        found = monitor.evaluate(new, Target.at_least(-60), calibration=name)
        assert answer["brier"]["value"] == found.brier().value
        assert words in answer["calibration"]
    refused = call([*arguments, "--calibration", "exact"])
    assert refused.exit_code == 2
    assert "'--calibration'" in refused.stderr


def test_evaluate_reads_a_file_of_other_names_in_the_models_shape(tmp_path: Path) -> None:
    table = Episodes.read(river().new).to_frame()
    spoilt = table.rename({"episode": "run", "step": "tick"}).with_columns(extra=pl.lit(1.0))
    spoilt.write_csv(tmp_path / "log.csv")
    same = told(["evaluate", river().model, river().new, "--target", "-60:", "--json"])
    other = told(["evaluate", river().model, tmp_path / "log.csv", "--target", "-60:", "--json"])
    assert json.loads(same)["met"] == json.loads(other)["met"]
    assert json.loads(same)["brier"]["value"] == json.loads(other)["brier"]["value"]


def test_an_alarm_that_cannot_be_promised_is_no_failure() -> None:
    text = told(["evaluate", river().model, river().new, "--target", "1000:"])
    assert "can be promised: none of the 120 assure episodes met the target" in text
    text = told(["evaluate", river().model, river().new, "--target", "-11:"])
    assert "can be promised: it takes 19" in text
    arguments = ["evaluate", river().model, river().new, "--target", "1000:", "--json"]
    assert json.loads(told(arguments))["alarm"] is None


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--ruled-out", "0.1"], RuledOut("0.1")),
        (["--ruled-out", "0.1", "--for-steps", "2"], RuledOut("0.1", 2)),
        (["--alarm-below", "0.4", "--for-steps", "3"], Below(0.4, 3)),
        (["--false-alarm-rate", "0.2"], Promised("0.2")),
        (["--false-alarm-rate", "0.2", "--confidence", "0.9"], Promised("0.2", confidence="0.9")),
        (["--ruled-out", "0.1", "--confidence", "0.9"], RuledOut("0.1", confidence="0.9")),
    ],
)
def test_evaluate_judges_the_alarm_that_was_asked_for(options: list[str], rule: AlarmRule) -> None:
    arguments = ["evaluate", river().model, river().new, "--target", "-60:", *options]
    answer = json.loads(told([*arguments, "--json"]))["alarm"]
    monitor = GoalMonitor.load(river().model)
    found = monitor.evaluate(Episodes.read(river().new), Target.at_least(-60), resamples=2)
    raised = found.alarms(rule)
    assert answer["compared"] == rule.compared_name
    assert answer["below"] == [trigger.threshold for trigger in raised.triggers]
    assert answer["false_alarm_rate"] == raised.quality.false_alarms.value
    assert answer["detection_rate"] == raised.quality.detections.value
    rate = getattr(rule, "rate", None)
    assert answer["promised"] == (rate if rate is None else float(rate))
    sure = getattr(rule, "confidence", None)
    assert answer["confidence"] == (sure if sure is None else float(sure))
    assert f"below {rule.compared_name} = {answer['below'][0]:.3g}" in told(arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate", "MODEL", "NEW", "--target", "x:"], 1, "target needs numbers in LO:HI"),
        (["evaluate", "NEW", "NEW", "--target", "1:"], 1, "new.parquet"),
        (["evaluate", "MODEL", "MODEL", "--target", "1:"], 1, "episodes are read from"),
        (["evaluate", "MODEL", "NEW"], 2, "pass --target"),
        (
            ["evaluate", "MODEL", "NEW", "--target", "1:", "--report", "no/r.html"],
            1,
            "no such folder",
        ),
        (["inspect", "NEW"], 1, "new.parquet"),
        (["inspect"], 2, "Missing argument"),
        (["nothing"], 2, "No such command 'nothing'"),
    ],
)
def test_mistakes_exit_with_their_code(arguments: list[str], code: int, message: str) -> None:
    files = {"MODEL": str(river().model), "NEW": str(river().new)}
    result = call([files.get(one, one) for one in arguments])
    assert result.exit_code == code
    assert message in result.stderr


@pytest.mark.parametrize("option", ["--false-alarm-rate", "--ruled-out"])
@pytest.mark.parametrize("rate", ["0", "1", "five"])
def test_a_rate_that_is_none_is_a_mistake(rate: str, option: str) -> None:
    arguments = ["evaluate", river().model, river().new, "--target", "-60:"]
    result = call([*arguments, option, rate])
    assert result.exit_code == 1
    assert f"{option} needs a number strictly between 0 and 1, got '{rate}'" in result.stderr


def test_episodes_of_the_fit_are_told() -> None:
    arguments = ["evaluate", river().model, river().runs, "--target", "-60:"]
    assert "was fitted on 600 of these 600 runs, so all figures look better" in told(arguments)
    assert json.loads(told([*arguments, "--json"]))["fitted_on"] == 600
    arguments[2] = river().new
    assert json.loads(told([*arguments, "--json"]))["fitted_on"] == 0


def test_the_model_remembers_the_columns_of_its_log(tmp_path: Path) -> None:
    names = {"episode": "night", "step": "t_s", "reward": "euros"}
    for path in (river().runs, river().new):
        table = Episodes.read(path).take(range(100)).to_frame().rename(names)
        table.write_csv(tmp_path / f"{path.stem}.csv")
    given = [word for part, name in names.items() for word in (f"--{part}", name)]
    model = tmp_path / "m.ontarget"
    told(["fit", tmp_path / "runs.csv", "-o", model, *QUICK, *given])
    text = told(["evaluate", model, tmp_path / "new.csv", "--target", "-60:"])
    assert "of 100 runs" in text


def test_a_rate_without_assure_episodes_is_called_measured(tmp_path: Path) -> None:
    model, new = tmp_path / "few.ontarget", tmp_path / "new.parquet"
    walks(40, seed=7).write(new)
    walks(60).write(tmp_path / "runs.parquet")
    fit = json.loads(told(["fit", tmp_path / "runs.parquet", "-o", model, "--assure", 0, "--json"]))
    assert (fit["learn"], fit["assure"]) == (60, 0)
    arguments = ["evaluate", model, new, "--target", "0.05:", "--false-alarm-rate", "0.1"]
    assert "set for 10 %: measured, not promised" in told(arguments)
    alarm = json.loads(told([*arguments, "--json"]))["alarm"]
    assert (alarm["promised"], alarm["measured"]) == (None, 0.1)
    refused = told(["evaluate", model, new, "--target", "0.05:", "--ruled-out", "0.1"])
    assert "--false-alarm-rate" in refused
    contract = (
        GoalMonitor.load(model).sessions(Target.at_least(0.05), false_alarm_rate=0.1).contract
    )
    assert "false alarms: 10 %, measured, not promised" in LiveView(contract, "few")._promise()


def test_a_check_fails_where_many_steps_have_no_answer(tmp_path: Path) -> None:
    model = tmp_path / "walk.ontarget"
    monitor = GoalMonitor().fit(walks(300), progress=False)
    monitor.save(model)
    frame, feature = walks(300, seed=7).to_frame(), monitor.schema.names[0]
    for share, code in ((0.0, 0), (0.3, 4)):
        gone = pl.Series(np.random.default_rng(0).random(len(frame)) < share)
        gaps = frame.with_columns(
            pl.when(gone).then(None).otherwise(pl.col(feature)).alias(feature)
        )
        gaps.write_parquet(tmp_path / "new.parquet")
        asked = ["evaluate", model, tmp_path / "new.parquet", "--target", "0.05:"]
        found = call([*asked, "--json", "--fail-unless-held"])
        answer = json.loads(found.stdout)
        assert found.exit_code == code
        assert answer["unanswered"]["share"] == pytest.approx(share, abs=0.05)
        assert ("bad_reading" in answer["unanswered"]["reasons"]) is (share > 0)


def test_a_target_that_every_run_met_is_not_held(tmp_path: Path) -> None:
    asked = ["evaluate", river().model, river().new, "--target", "-1e9:"]
    found = call([*asked, "--json", "--fail-unless-held"])
    answer = json.loads(found.stdout)
    assert found.exit_code == 4
    assert answer["one_sided"]
    assert answer["verdict"]["judgement"] != "held"
    both = json.loads(told([*asked[:-1], "-60:", "--json"]))
    assert both["one_sided"] == ""


def test_inspect_tells_how_learning_runs_ended() -> None:
    found = json.loads(told(["inspect", river().model, "--json"]))["outcomes"]
    outcomes = GoalMonitor.load(river().model).fitted.runs.outcomes
    assert (found["least"], found["most"]) == (outcomes.min(), outcomes.max())
    assert found["runs"] == outcomes.size


@pytest.mark.parametrize("rare", [0.0, 0.7])
def test_fit_suggests_no_target_that_every_run_met(rare: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rewards = np.zeros((100, 3))
    rewards[:, -1] = rng.random(100) < rare
    Episodes.from_arrays(rng.normal(size=(100, 3, 2)), rewards).write(tmp_path / "runs.csv")
    text = told(["fit", tmp_path / "runs.csv", "-o", tmp_path / "m.ontarget", *QUICK])
    last = text.splitlines()[-1]
    assert "0:" not in last
    assert ":1" not in last
