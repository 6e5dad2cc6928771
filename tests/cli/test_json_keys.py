"""What programs read from ``--json`` and from ``watch``: keys may be added, none may go."""

from __future__ import annotations

import json

import pytest

from .river import messages, river, told

TARGET = ("--target", "-60:")
# docs/stability.md promises these; announce a change in CHANGELOG.md.
KEYS = {
    "inspect": "behavior blocks bytes features groups horizon kinds outcomes parameters seed sizes",
    "evaluate": "alarm assured_wrongly brier drift ece episodes fitted_on log_loss met one_sided "
    "raw remarks ruled_out_wrongly target unanswered verdict",
    "compare": "brier ece episodes false_alarms forecasts in_time log_loss names preferred same_p "
    "target unanswered verdict",
    "drift": "bias by change episodes judgement since step target verdict",
    "explain": "change contributions p p_before precedents t t_before target",
    "look": "cautions columns episodes horizon lengths outcomes remarks",
    "plan": "accuracy at_all_thresholds at_one_threshold coverage level record successes",
}


def words(command: str) -> list[object]:
    files = river()
    return {
        "inspect": [files.model],
        "evaluate": [files.model, files.new, *TARGET],
        "compare": [files.model, files.model, files.new, *TARGET],
        "drift": [files.model, files.new, *TARGET],
        "explain": [files.model, files.new, "--run", 3, "--step", 4, *TARGET],
        "look": [files.runs],
        "plan": [],
    }[command]


@pytest.mark.parametrize("command", KEYS)
def test_the_json_of_a_command_keeps_its_keys(command: str) -> None:
    found = json.loads(told([command, *words(command), "--json"]))
    assert not set(KEYS[command].split()) - set(found)


def test_an_answer_of_watch_keeps_its_keys() -> None:
    lines = "".join(json.dumps(one) + "\n" for one in messages())
    answers = told(["watch", river().model, *TARGET], input=lines).splitlines()
    kept = {"agent", "assurance", "high", "low", "n", "p", "plausibility", "spread", "status", "t"}
    assert not kept - set(json.loads(answers[0]))
    assert not (kept | {"end", "reason"}) - set(json.loads(answers[-1]))
