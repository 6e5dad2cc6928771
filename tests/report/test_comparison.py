from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from ontarget import Below, GoalMonitor, Promised, Target
from ontarget.errors import InputError
from ontarget.evaluation import Difference
from ontarget.models import Marginal
from ontarget.report import compare
from refusals import refuses
from tests.walks import shifted, walks

from .walked import monitor_of

GOAL = Target.at_least(0.3)
NEW = walks(300, seed=5)
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")


def good() -> GoalMonitor:
    return monitor_of(1000)


@cache
def blind() -> GoalMonitor:
    return GoalMonitor(Marginal()).fit(walks(1000), progress=False)


def evaluated(monitor: GoalMonitor, episodes=NEW):
    return monitor.evaluate(episodes, GOAL, resamples=50)


def test_the_monitor_that_sees_the_state_is_deployed_whatever_its_place() -> None:
    for order in ((good(), blind()), (blind(), good())):
        names = ("good", "blind") if order[0] is good() else ("blind", "good")
        found = compare(evaluated(order[0]), evaluated(order[1]), Promised(0.1), names)
        assert found.preferred == "good"
        assert found.verdict.startswith("deploy good: its p is better than that of blind")
    assert found.brier.difference.value == pytest.approx(found.brier.first - found.brier.second)
    assert found.in_time.difference.low < found.in_time.first - found.in_time.second


def test_false_alarms_speak_against_a_better_p() -> None:
    found = compare(evaluated(good()), evaluated(blind()), Below(0.35), ("good", "blind"))
    assert "but" not in found.verdict  # the worse one has more of them
    more = found.false_alarms._replace(first=0.6, difference=Difference(0.15, 0.04, 0.07, 0.23))
    said = replace(found, false_alarms=more).verdict
    assert said.endswith(", but 60\xa0% of good runs raise its alarm, more than with the other")


def test_a_monitor_is_no_better_than_itself() -> None:
    found = compare(evaluated(good()), evaluated(good()), Below(0.5))
    assert found.preferred is None
    assert found.brier.difference == found.log_loss.difference
    assert "no difference shows on these 300 episodes" in str(found)


def test_episodes_of_the_fit_settle_nothing() -> None:
    seen = walks(1000)
    found = compare(evaluated(good(), seen), evaluated(blind(), seen), Below(0.5), ("a", "b"))
    assert found.preferred is None
    assert "cannot say: a was fitted on 1,000 of these 1,000 episodes" in found.verdict


def test_an_alarm_that_cannot_be_promised_is_left_out_with_the_reason() -> None:
    found = compare(evaluated(good()), evaluated(blind()), Promised(0.001))
    assert found.false_alarms is None
    assert found.no_alarms.startswith("false_alarm_rate=0.001 needs at least 999")
    assert "not compared: false_alarm_rate=0.001 needs at least 999" in str(found)
    assert json.loads(json.dumps(found.to_json()))["false_alarms"] is None


def test_only_the_same_episodes_and_target_are_compared() -> None:
    with refuses(InputError, None, "same episodes"):
        compare(evaluated(good()), evaluated(blind(), shifted(300, 5, 0.1)), Below(0.5))
    other = good().evaluate(NEW, Target.at_least(0.5), resamples=5)
    with refuses(InputError, None, "[0.3, inf)", "[0.5, inf)"):
        compare(evaluated(good()), other, Below(0.5))


def test_a_renewed_monitor_has_the_same_p_and_other_promises() -> None:
    renewed = good().recalibrate(shifted(400, 21, -0.1))
    found = compare(evaluated(good()), evaluated(renewed), Promised(0.1), ("old", "renewed"))
    assert found.same_p
    assert found.false_alarms.first != found.false_alarms.second
    told = str(found)
    assert "the same in both, which have the same models" in told
    assert "deploy the renewed one if the old one's promises no longer hold" in told
    for name in ("Brier", "log loss", "ECE", "keep the one that is in use"):
        assert name not in told
    assert found.to_json()["same_p"] is True
    assert compare(evaluated(good()), evaluated(good()), Below(0.5)).same_p is False
