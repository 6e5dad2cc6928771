from __future__ import annotations

import json
import math

from ontarget.conformal.levels import plan_sizes

from .river import call, told


def test_plan_counts_successes_for_alarms() -> None:
    arguments = ["plan", "--accuracy", "0.02", "--false-alarm-rate", "0.05"]
    answer = json.loads(told([*arguments, "--success-rate", "0.1", "--json"]))
    expected = plan_sizes(0.02, 0.95, false_alarm_rate=0.05)
    assert answer["successes"] == expected.successes
    assert answer["successes_to_promise"] == 19
    # One run in ten succeeds, and one recorded run in five assures.
    assert answer["record"] == math.ceil(expected.successes * 10 / 0.2)
    text = told(arguments)
    assert "19  successful assure episodes" in text
    assert "59  successful assure episodes  the fewest to promise it with confidence 0.95" in text
    assert answer["successes_surely"] == 59
    assert answer["coverage_surely"]["0.9"] == 29


def test_an_impossible_plan_is_a_mistake() -> None:
    result = call(["plan", "--accuracy", "0.7"])
    assert result.exit_code == 1
    assert "--accuracy needs a number strictly between 0 and 0.5, got 0.7" in result.stderr
    assert call(["plan", "--level", "1.5"]).exit_code == 1
    for share in ("0", "2", "nan"):
        result = call(["plan", "--success-rate", share])
        assert result.exit_code == 1
        assert "--success-rate needs a share above 0" in result.stderr
    result = call(["plan", "--false-alarm-rate", "7"])
    assert "--false-alarm-rate needs a number strictly between 0 and 1" in result.stderr
