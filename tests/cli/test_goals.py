from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor

from .river import call, told

GOAL = "gain >= -1 & spent <= 3"


class Files(NamedTuple):
    runs: Path
    new: Path
    model: Path


def write(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain = rng.normal(size=(n, 3))
    spent = 0.5 - 0.4 * gain + 0.3 * rng.normal(size=(n, 3))
    Episodes.from_arrays(
        np.cumsum(gain, axis=1)[:, :, None] - gain[:, :, None],
        {"reward": gain.round(3), "energy": spent.round(3)},
        ids=np.arange(n) + 1000 * seed,
        behavior={"gain": "sum", "spent": "sum:energy"},
    ).write(path)


@cache
def files() -> Files:
    folder = Path(mkdtemp(prefix="ontarget-goals-"))
    found = Files(folder / "runs.csv", folder / "new.csv", folder / "goals.ontarget")
    write(found.runs, 200, 1)
    write(found.new, 80, 2)
    told(
        [
            "fit",
            found.runs,
            "-o",
            found.model,
            "--behavior",
            "gain=sum",
            "--behavior",
            "spent=sum:energy",
        ]
    )
    return found


def test_fit_takes_several_behaviors_and_inspect_shows_them() -> None:
    shown = told(["inspect", files().model])
    assert "behaviors  gain (sum), spent (sum:energy)" in shown
    assert json.loads(told(["inspect", files().model, "--json"]))["behaviors"] == {
        "gain": "sum",
        "spent": "sum:energy",
    }


def test_evaluate_measures_a_goal() -> None:
    arguments = ["evaluate", files().model, files().new, "--target", GOAL, "--alarm-below", "0.3"]
    text = told(arguments)
    assert "gain >= -1 & spent <= 3: met by" in text
    found = json.loads(told([*arguments, "--json"]))
    assert set(found["parts"]) == {"gain", "spent"}
    assert found["met"] <= found["parts"]["gain"]["met"]


def test_watch_replays_a_goal_with_p_of_each_behavior() -> None:
    replay = ["--replay", files().new, "--run", "2000", "--json"]
    watch = ["watch", files().model, "--target", GOAL, "--alarm-below", "0.1", *replay]
    lines = told(watch).splitlines()
    answers = [json.loads(line) for line in lines]
    assert [one["status"] for one in answers][-1] == "DONE"
    assert set(answers[0]["parts"]) == {"gain", "spent"}
    assert answers[0]["p"] <= 1.02 * min(answers[0]["parts"].values())


def test_watch_names_a_signal_that_a_line_lacks() -> None:
    sent = [
        {"agent": "a", "state": [0.0]},
        {"agent": "a", "state": [0.1], "reward": {"reward": 0.1}},
    ]
    lines = told(
        ["watch", files().model, "--target", GOAL, "--alarm-below", "0.1"],
        input="\n".join(map(json.dumps, sent)),
    ).splitlines()
    assert "no signal 'energy'" in json.loads(lines[1])["reason"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--behavior", "sum", "--behavior", "max"], "--behavior needs NAME=BEHAVIOR"),
        (["--behavior", "a=sum", "--behavior", "a=max"], "--behavior needs NAME=BEHAVIOR"),
        (["--behavior", "a=sum:speed"], "no behavior column 'speed'"),
    ],
)
def test_behaviors_that_cannot_be_read_are_refused(options: list[str], said: str) -> None:
    result = call(["fit", files().runs, "-o", files().model.with_name("other.ontarget"), *options])
    assert result.exit_code != 0
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_an_unknown_behavior_in_a_goal_is_told_with_the_known_ones() -> None:
    result = call(["evaluate", files().model, files().new, "--target", "speed >= 1"])
    assert "behaviors among gain, spent, got 'speed'" in result.stderr


BEHAVIORS = ["--behavior", "gain=sum", "--behavior", "spent=sum:energy"]


def test_look_counts_a_goal_and_looks_at_each_behavior() -> None:
    arguments = ["look", files().runs, *BEHAVIORS, "--target", GOAL]
    text = told(arguments)
    assert "gain >= -1 & spent <= 3: met by" in text
    assert "behavior   gain" in text
    assert "behavior   spent" in text
    found = json.loads(told([*arguments, "--json"]))
    assert set(found["behaviors"]) == {"gain", "spent"}
    assert found["met"] <= found["behaviors"]["gain"]["met"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["look", *BEHAVIORS, "--target", "60:"], "so --target needs a goal such as 'gain >= 60'"),
        (["look", "--target", GOAL], "a goal needs behaviors with names"),
        (["study", "--target", GOAL], "gain"),
        (["study", *BEHAVIORS, "--target", "2:"], "gain, spent"),
        (["study", *BEHAVIORS, "--target", "gain > 99 & spent < 3"], "0 of "),
        (
            ["fit", "-o", "x.ontarget", *BEHAVIORS, "--reward-bounds", "0:"],
            "a mapping from the names of the behaviors",
        ),
        (["fit", "-o", "x.ontarget", "--reward-bounds", "gain=0"], "or NAME=LO:HI"),
    ],
)
def test_what_several_behaviors_cannot_do_is_told(arguments: list[str], said: str) -> None:
    result = call([arguments[0], files().runs, *arguments[1:]])
    assert result.exit_code != 0
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_bounds_are_declared_by_name() -> None:
    path = files().model.with_name("bounded.ontarget")
    bounds = ["--reward-bounds", "gain=-9:,spent=-9:9"]
    told(["fit", files().runs, "-o", path, *BEHAVIORS, *bounds, "--json"])
    assert GoalMonitor.load(path).only("spent").reward_bounds == (-9.0, 9.0)


def test_explain_names_the_likely_culprit_of_a_goal() -> None:
    arguments = ["explain", files().model, files().new, "--run", "2000", "--step", "1"]
    text = told([*arguments, "--target", GOAL])
    assert "the likely culprit is " in text
    assert "spent so far" in text
    found = json.loads(told([*arguments, "--target", GOAL, "--json"]))
    moved = sum(one["change"] for one in found["contributions"])
    assert moved == pytest.approx(found["p"] - found["p_before"], abs=1e-9)
    assert set(found["precedents"][0]["ends_at"]) == {"gain", "spent"}
    assert "that the outcome is" in told([*arguments, "--target", "spent <= 3"])


def test_a_goal_is_compared_with_later_runs_and_other_models() -> None:
    arguments = [files().model, files().new, "--target", GOAL]
    assert "verdict    no sign of a change" in told(["drift", *arguments])
    assert "verdict    no sign of a change" in told(["drift", *arguments[:-1], "spent <= 3"])
    again = files().model.with_name("again.ontarget")
    assert "promises rest on 80" in told(["recalibrate", *arguments[:2], "-o", again])
    rule = ["--alarm-below", "0.3"]
    text = told(["compare", files().model, again, files().new, "--target", GOAL, *rule])
    assert "target     gain >= -1 & spent <= 3, 80 episodes" in text


def test_a_goal_is_studied_beside_classifiers() -> None:
    options = [*BEHAVIORS, "--target", GOAL, "--splits", "2", "--json"]
    found = json.loads(told(["study", files().runs, *options]))
    assert set(found["scores"]) >= {"ontarget", "boosted classifier"}
