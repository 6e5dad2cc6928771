from __future__ import annotations

import copy

import numpy as np
import pytest

from ontarget import AlarmRule, Below, Episodes, Goal, GoalMonitor, RunState, Status, Target
from ontarget.errors import InputError
from ontarget.models import QuantileForest
from refusals import refuses
from tests.walks import walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(400), progress=False)


class Low(AlarmRule):
    """A rule of a user's own."""

    def alarming(self, outlook) -> bool:
        return outlook.p < 0.5


@pytest.mark.parametrize("rule", [Below(0.5), Low()])
def test_an_alarm_that_was_acted_on_stays_on_until_the_end(rule: AlarmRule) -> None:
    watch, alone = MONITOR.watch(GOAL, alarm=rule), MONITOR.watch(GOAL, alarm=rule)
    for one in (watch, alone):
        assert one.step([-2.0, 0.0]).alarm
    taken = watch.intervene()
    assert taken.alarm
    assert "step 0" in taken.reason
    better = [one.step([2.0, 0.0], reward=5.0) for one in (watch, alone)]
    assert [one.status for one in better] == [Status.ALARM, Status.OK]
    assert better[0].p == better[1].p
    end = watch.end(0.0)
    assert (end.status, end.p) == (Status.DONE, 1.0)
    assert end.reason.endswith("step 0")
    watch.reset()
    assert watch.intervened_at is None
    assert not watch.step([2.0, 0.0], reward=0.0).reason


def test_a_run_taken_over_is_known_as_such_wherever_it_goes_on() -> None:
    watch = MONITOR.watch(GOAL, alarm_below=0.5)
    watch.step([-2.0, 0.0])
    watch.intervene()
    assert watch.intervene() == watch.peek()
    assert watch.run_state.intervened_at == 0
    again = MONITOR.watch(GOAL, alarm_below=0.5)
    again.resume(RunState.from_json(watch.run_state.to_json()))
    for one in (watch, again, copy.deepcopy(watch)):
        assert one.intervened_at == 0
        assert one.step([2.0, 0.0], reward=5.0).status is Status.ALARM


def test_a_run_without_an_alarm_may_be_taken_over_too() -> None:
    watch = MONITOR.watch(GOAL, alarm_below=0.1)
    watch.step([2.0, 0.0])
    assert watch.intervene().status is Status.OK
    assert "step 0" in watch.changes[-1].reason


def test_nobody_takes_over_a_run_that_is_over() -> None:
    watch = MONITOR.watch(GOAL)
    watch.step([0.0, 0.0])
    watch.end(1.0)
    with refuses(InputError, None, "run is over"):
        watch.intervene()


def test_a_message_takes_a_run_over() -> None:
    sessions = MONITOR.sessions(GOAL, alarm_below=0.5)
    sessions.answer({"agent": "a", "state": [-2.0, 0.0]})
    assert "step 0" in sessions.answer({"agent": "a", "intervened": True})["reason"]
    assert sessions.answer({"agent": "a", "state": [2.0, 0.0], "reward": 5.0})["status"] == "ALARM"
    both = sessions.answer({"agent": "b", "state": [-2.0, 0.0], "intervene": True})
    assert "step 0" in both["reason"]
    assert "'c' has" in sessions.answer({"agent": "c", "intervene": True})["reason"]


def test_every_answer_of_a_run_that_was_taken_over_says_so() -> None:
    sessions = MONITOR.sessions(GOAL)
    messages = [
        {"state": [0.0, 0.0]},
        {"state": [0.0, 0.0], "intervened": True},
        {"state": [0.0, 0.0]},
        {"end": True},
        {"state": [0.0, 0.0]},
    ]
    said = [sessions.answer(one).get("intervened") for one in messages]
    assert said == [None, True, True, True, None]


@pytest.mark.parametrize("rule", [Below(0.5), Low()])
def test_a_fleet_treats_runs_that_were_taken_over_as_a_watch_does(rule: AlarmRule) -> None:
    watch = MONITOR.watch(GOAL, alarm=rule)
    fleet = MONITOR.fleet(GOAL, ["a", "b", "c"], alarm=rule)
    low, high = [-2.0, 0.0], [2.0, 0.0]
    for one in (watch.step(low), fleet.step([low] * 3).of(1)):
        assert one.alarm
    assert fleet.intervene(["b"]).of(0) == watch.intervene()
    assert fleet.intervened.tolist() == [False, True, False]
    fleet.join(["d"])  # its table grows
    many = fleet.step([high] * 3, 5.0, agents=["a", "b", "c"])
    assert many.of(1) == watch.step(high, 5.0)
    assert many.status.tolist() == [Status.OK, Status.ALARM, Status.OK]
    assert fleet.run_state("b") == watch.run_state
    other = MONITOR.fleet(GOAL, 1, alarm=rule)
    other.resume(0, RunState.from_json(fleet.run_state("b").to_json()))
    assert other.intervened.tolist() == [True]
    assert fleet.end(0.0, agents=["b"]).of(0) == watch.end(0.0)
    with refuses(InputError, None, "'b'", "over"):
        fleet.intervene(["a", "b"])
    assert fleet.intervened.tolist() == [False, True, False, False]
    fleet.reset(["b"])
    assert not fleet.intervened.any()


def test_a_run_held_to_a_goal_is_taken_over_as_any_other() -> None:
    rng = np.random.default_rng(0)
    gains, spent = rng.normal(size=(2, 150, 3))
    runs = Episodes.from_arrays(
        gains[:, :, None],
        {"reward": gains, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    monitor = GoalMonitor(QuantileForest(n_trees=8, min_leaf=5)).fit(runs, progress=False)
    goal = Goal.parse("gain >= 0 & spent <= 9")
    fleet = monitor.fleet(goal, ["a", "b"], alarm_below=0.6)
    fleet.step([[-3.0], [-3.0]])
    assert fleet.peek().alarm.tolist() == [True, True]
    taken = fleet.intervene(["a"]).of(0)
    assert "step 0" in taken.reason
    assert fleet.run_state("a").intervened_at == 0
    earned = {"reward": 20.0, "energy": 0.0}
    better = fleet.step([[3.0], [3.0]], [earned, earned])
    assert better.status.tolist() == [Status.ALARM, Status.OK]
    assert better.p[0] == better.p[1]
    assert fleet.end([earned], agents=["b"]).of(0).status is Status.DONE
    with refuses(InputError, None, "'b'", "over"):
        fleet.intervene(["b"])
    fleet.reset(["a"])
    assert fleet.run_state("a").intervened_at is None
