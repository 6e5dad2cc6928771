from __future__ import annotations

import math

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget.episodes import Column
from ontarget.errors import InputError
from ontarget.evaluation import first_alarms, sustained
from ontarget.fitted.guarantee import alarm_scores
from ontarget.models import Marginal
from refusals import refuses
from tests.walks import walks

MONITOR = GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)
STATE = np.zeros(2)


def watch(**options):
    return MONITOR.watch(Target.at_least(0.0), **{"alarm_below": 0.5, **options})


def test_states_follow_a_run_from_pending_to_done() -> None:
    run = watch()
    assert run.status is Status.PENDING
    assert run.step(STATE).status is Status.OK
    assert run.step(STATE, -3.0).status is Status.ALARM
    assert run.step(STATE, 6.0).status is Status.OK
    done = run.end(1.0)
    assert (done.status, done.p, done.low, done.high) == (Status.DONE, 1.0, 1.0, 1.0)
    assert [(c.t, c.status.name) for c in run.changes] == [
        (0, "PENDING"),
        (0, "OK"),
        (1, "ALARM"),
        (2, "OK"),
        (3, "DONE"),
    ]
    assert "alarm below 0.5" in run.changes[2].reason
    assert "inside" in run.changes[4].reason
    assert "at 4" in run.changes[4].reason


def test_the_call_at_the_horizon_is_done_and_later_ones_unknown() -> None:
    run = watch()
    for t in range(6):
        assert run.step(STATE, -1.0 if t else 0.0).t == t
    done = run.step(STATE, -1.0)
    assert (done.t, done.status, done.p) == (6, Status.DONE, 0.0)
    late = run.step(STATE)
    assert late.status is Status.UNKNOWN
    assert "over" in late.reason
    assert run.end().status is Status.UNKNOWN
    run.reset()
    assert run.step(STATE).status is Status.OK


def test_alarm_waits_for_consecutive_steps_and_clears_above() -> None:
    run = watch(for_steps=2, clear_above=0.95)
    run.step(STATE)
    assert run.step(STATE, -3.0).status is Status.OK
    assert run.step(STATE, 0.0).status is Status.ALARM
    better = run.step(STATE, 3.2)
    assert 0.5 < better.p < 0.95
    assert better.status is Status.ALARM
    assert run.step(STATE, 6.0).status is Status.OK


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ([0.0, math.nan], "feature 'x1' is missing, and it was never missing in training"),
        ([math.inf, 0.0], "feature 'x0' needs a number, got inf"),
        ([0.0], "needs 2 features"),
        ({"x0": 1.0}, "lacks the feature 'x1'"),
        ({"x0": 1.0, "x1": "warm"}, "'x1' needs a number, got 'warm'"),
        ("nonsense", "state needs numbers"),
        (None, "state needs"),
    ],
)
def test_a_bad_state_is_unknown_with_its_reason_and_the_run_goes_on(state, reason: str) -> None:
    run = watch()
    run.step(STATE)
    bad = run.step(state, -1.0)
    assert bad.status is Status.UNKNOWN
    assert reason in bad.reason
    assert math.isnan(bad.p)
    good = run.step(STATE, 0.0)
    assert good.status is not Status.UNKNOWN
    clean = watch()
    clean.step(STATE)
    clean.step(STATE, -1.0)
    assert good.p == clean.step(STATE, 0.0).p
    strict = watch(on_bad="raise")
    strict.step(STATE)
    with refuses(InputError, None, "step 1", reason):
        strict.step(state, -1.0)


def test_a_lost_reward_stays_unknown_until_the_behavior_is_told() -> None:
    run = watch()
    run.step(STATE)
    assert "got nan" in run.step(STATE, math.nan).reason
    assert run.step(STATE, 1.0).status is Status.UNKNOWN
    repaired = run.step(STATE, 1.0, behavior=2.0)
    assert repaired.status is Status.OK
    clean = watch()
    for t in range(3):
        clean.step(STATE, 1.0 if t else 0.0)
    assert repaired.p == clean.step(STATE, behavior=2.0).p
    run = watch()
    run.step(STATE)
    run.step(STATE, "x")
    assert run.end(1.0).status is Status.UNKNOWN


def test_nothing_is_earned_before_the_first_step() -> None:
    first = watch().step(STATE, 1.0)
    assert first.status is Status.UNKNOWN
    assert "first step" in first.reason
    assert watch().end(1.0).status is Status.UNKNOWN


def test_a_bad_reading_resets_the_count_and_raises_nothing() -> None:
    run = watch(for_steps=2)
    run.step(STATE)
    assert run.step(STATE, -3.0).status is Status.OK
    assert run.step([math.nan, 0.0]).status is Status.UNKNOWN
    assert run.step(STATE).status is Status.OK
    assert run.step(STATE).status is Status.ALARM


def test_states_may_come_by_name() -> None:
    one, other = watch(), watch()
    assert one.step({"x1": 2.0, "x0": 1.0}).p == other.step([1.0, 2.0]).p


def test_a_behavior_that_is_read_must_be_told() -> None:
    rng = np.random.default_rng(0)
    heights = rng.normal(size=(200, 4)).cumsum(axis=1)
    runs = Episodes.from_arrays(
        rng.normal(size=(200, 4, 1)), None, behavior=Column("height"), behavior_values=heights
    )
    run = GoalMonitor(Marginal()).fit(runs, progress=False).watch(Target.at_least(0))
    assert run.step([0.0]).known
    assert "behavior=" in run.step([0.0]).reason
    assert run.step([0.0], behavior=1.0).known
    assert run.end(behavior=-1.0).p == 0.0


def test_missing_features_are_fine_where_training_missed_them() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(200, 3, 2))
    states[::5, :, 0] = np.nan
    runs = Episodes.from_arrays(states, rng.normal(size=(200, 3)))
    run = GoalMonitor(Marginal()).fit(runs, progress=False).watch(Target.at_least(0))
    assert run.step([math.nan, 0.0]).known
    assert not run.step([0.0, math.nan]).known


def test_promised_threshold_is_the_order_statistic_of_successes() -> None:
    target = Target.at_least(0.0)
    trigger = MONITOR.watch(target, false_alarm_rate=0.1).trigger
    curve = MONITOR.alarm_curve(target, rates=[0.1])
    assert trigger.threshold == curve.threshold[0]
    assert trigger.promised.m == curve.n_met
    low, high = trigger.promised.spread()
    assert low < 0.1 < high


def test_alarm_scores_say_exactly_when_an_alarm_is_raised() -> None:
    rng = np.random.default_rng(1)
    p = np.round(rng.random((7, 300)), 1)
    p[rng.random(p.shape) < 0.2] = np.nan
    for for_steps in (1, 2, 3):
        scores = alarm_scores(p, for_steps)
        for threshold in (0.0, 0.3, 0.5, 1.0):
            raised = first_alarms(sustained(p, for_steps), threshold) >= 0
            assert raised.tolist() == (scores < threshold).tolist()


def test_alarm_curve_rises_with_the_false_alarm_rate() -> None:
    curve = MONITOR.alarm_curve(Target.at_least(0.0))
    assert np.all(np.diff(curve.threshold) >= 0)
    assert np.all(np.diff(curve.detection_rate) >= 0)
    assert curve.n_met + curve.n_missed == 60


def test_integers_beyond_floats_are_bad_readings() -> None:
    run = watch()
    assert run.step([10**400, 0]).status is Status.UNKNOWN
    assert run.step(STATE, 10**400).status is Status.UNKNOWN


def test_alarm_curve_prints_as_a_table() -> None:
    curve = MONITOR.alarm_curve(Target.at_least(0.0), rates=[0.0001, 0.1])
    head, never, often, note = str(curve).splitlines()
    assert head.startswith("promised   surely up to   alarm below   failures caught")
    assert note.startswith("surely up to: with 95 % confidence")
    assert "too few" in never
    caught = f"{100 * curve.detection_rate[1]:.1f}"
    sure = f"{100 * curve.rate_at_most[1]:.1f}"
    threshold = f"{curve.threshold[1]:.3f}"
    assert often.split()[:7] == ["10.0", "%", sure, "%", threshold, caught, "%"]
    assert repr(curve).startswith("<PromisedAlarms: 2 rates from 0.0001 to 0.1; ")
    assert len(str(MONITOR.alarm_curve(Target.at_least(0.0))).splitlines()) == 14


def test_past_an_inferred_horizon_a_run_is_unknown_until_it_ends_on_every_face() -> None:
    rng = np.random.default_rng(0)
    recorded = Episodes.from_arrays(rng.normal(size=(200, 3, 1)), rng.normal(size=(200, 3)))
    monitor = GoalMonitor(Marginal()).fit(recorded, progress=False)
    target = Target.at_least(0.0)
    watch, fleet = monitor.watch(target, alarm_below=0.2), monitor.fleet(target, 1, alarm_below=0.2)
    for t in range(5):
        reward = 1.0 if t else 0.0
        one, many = watch.step([0.0], reward), fleet.step([[0.0]], reward)
        expected = Status.OK if t < 3 else Status.UNKNOWN
        assert (one.status, many.status[0], one.t) == (expected, expected, t)
    assert "(3 steps)" in one.reason
    batch = monitor.outlook(4, [[0.0]], 4.0, target)
    assert batch.status[0] == Status.UNKNOWN
    assert batch.words(0) == one.reason
    resumed = monitor.watch(target, alarm_below=0.2).resume(watch.run_state)
    assert resumed.end(1.0) == watch.end(1.0)
    assert (watch.peek().status, watch.peek().p) == (Status.DONE, 1.0)
    longer = Episodes.from_arrays(np.zeros((4, 6, 1)), np.ones((4, 6)), ids=list("abcd"))
    assert monitor.evaluate(longer, target).p.shape == (3, 4)


def test_a_run_that_is_cut_off_is_unknown_on_every_face() -> None:
    target = Target.at_least(0.0)
    one, fleet = watch(), MONITOR.fleet(target, 2, alarm_below=0.5)
    one.step(STATE)
    fleet.step([STATE, STATE])
    assert one.step(STATE, -3.0).status is Status.ALARM
    cut = one.end(9.0, truncated=True)
    assert (cut.t, cut.status, math.isnan(cut.p)) == (2, Status.UNKNOWN, True)
    assert cut.reason == (
        "the run was cut off after 2 steps, before the monitor's horizon of 6, so its outcome is "
        "unknown"
    )
    assert one.run_state.ended
    assert repr(watch().resume(one.run_state).peek()) == repr(cut)  # NaN is not itself
    many = fleet.end(9.0, agents=[1], truncated=True)
    assert (many.status[0], np.isnan(many.p[0])) == (Status.UNKNOWN, True)
    fleet.step([STATE], 0.5, agents=[0])
    assert "after 1 step" in fleet.peek().words(1)
    assert fleet.peek().status.tolist() == [Status.OK, Status.UNKNOWN]


def test_a_run_that_is_cut_off_at_the_horizon_is_complete() -> None:
    run = watch()
    for t in range(6):
        run.step(STATE, 1.0 if t else 0.0)
    done = run.end(1.0, truncated=True)
    assert (done.t, done.status, done.p) == (6, Status.DONE, 1.0)
