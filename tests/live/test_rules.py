"""Alarm rules are values: what they compare, when they clear, and what they warn of."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ontarget import Below, Episodes, GoalMonitor, Promised, RuledOut, Status, Target
from ontarget.episodes import PaperSplit
from ontarget.errors import AlarmWarning, CalibrationError, FewEpisodesError, InputError
from ontarget.live.rules import rule_of
from ontarget.models import Marginal
from refusals import refuses
from tests.walks import replay, walks

MONITOR = GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)
TARGET = Target.at_least(0.0)
STATE = np.zeros(2)


def test_shorthands_are_rules() -> None:
    assert rule_of() == Below(0.9)
    assert rule_of(alarm_below=0.5, for_steps=3) == Below(0.5, 3)
    assert rule_of(false_alarm_rate="0.05", clear_above=0.5) == Promised("0.05", 1, 0.5)
    assert rule_of(RuledOut(0.1)) == RuledOut(0.1)
    assert rule_of(false_alarm_rate=0.1, confidence=0.9) == Promised(0.1, confidence=0.9)
    for wrong, refusal in (
        ({"alarm": 0.5}, (InputError, "alarm", "got 0.5")),
        ({"alarm": Below(0.5), "for_steps": 2}, (InputError, "alarm", "`for_steps`")),
        (
            {"alarm_below": 0.5, "false_alarm_rate": 0.1},
            (InputError, "alarm_below", "`false_alarm_rate`"),
        ),
        ({"alarm_below": 1.5}, (InputError, "alarm_below", "0 to 1", "got 1.5")),
        ({"false_alarm_rate": 7}, (InputError, "false_alarm_rate", "got 7")),
        ({"for_steps": 0}, (InputError, "for_steps", "got 0")),
        (
            {"confidence": 0.9},
            (InputError, "confidence", "false_alarm_rate=0.05"),
        ),
        ({"false_alarm_rate": 0.1, "confidence": 95}, (InputError, "confidence", "got 95")),
    ):
        with refuses(*refusal):
            rule_of(**wrong)


def test_a_confidence_sets_the_alarm_lower_or_says_how_many_episodes_it_needs() -> None:
    plain = MONITOR.watch(TARGET, false_alarm_rate=0.3).trigger
    sure = MONITOR.watch(TARGET, false_alarm_rate=0.3, confidence=0.9).trigger
    assert sure.threshold < plain.threshold
    assert (sure.promised.confidence, plain.promised.confidence) == (0.9, None)
    assert sure.promised.spread(0.8)[1] <= 0.3 < plain.promised.spread(0.8)[1]
    met = int(TARGET.contains(MONITOR.fitted.assure.outcomes).sum())
    with refuses(FewEpisodesError, "false_alarm_rate", "=0.05", 0.95, 59, f"has {met};"):
        MONITOR.watch(TARGET, false_alarm_rate=0.05, confidence=0.95)
    with refuses(FewEpisodesError, None, 0.01, 459, "got 60"):
        MONITOR.watch(TARGET, alarm=RuledOut(0.01, confidence=0.99))
    band = [MONITOR.band(0, [STATE], 0.0, 0.8, confidence=sure) for sure in (None, 0.9)]
    assert band[1].lower[0] <= band[0].lower[0] < band[0].upper[0] <= band[1].upper[0]
    with refuses(CalibrationError, "level", "level=0.99", "confidence=0.95", 299, "has 60"):
        MONITOR.interval(0, [STATE], 0.0, 0.99, confidence=0.95)


def test_learning_episodes_cannot_make_anything_sure() -> None:
    monitor = GoalMonitor(Marginal()).fit(split=walks(100).split(assure=0), progress=False)
    assert monitor.watch(TARGET, false_alarm_rate=0.2).trigger.measured is not None
    with refuses(FewEpisodesError, "confidence", "measured"):
        monitor.watch(TARGET, false_alarm_rate=0.2, confidence=0.9)
    assert np.isnan(monitor.alarm_curve(TARGET, rates=[0.2]).rate_at_most).all()


def test_an_alarm_curve_bounds_the_rates_of_all_rows_at_once() -> None:
    curve = MONITOR.alarm_curve(TARGET)
    assert (curve.rate_at_most > curve.false_alarm_rate).all()
    assert (np.diff(curve.rate_at_most) > 0).all()
    assert (MONITOR.alarm_curve(TARGET, confidence=0.5).rate_at_most < curve.rate_at_most).all()
    assert "95 % confidence" in str(curve)


@given(st.floats(0, 1))
def test_an_alarm_clears_above_its_threshold_and_never_out_of_reach(threshold: float) -> None:
    clear = Below(threshold).trigger(None).clear_at
    assert threshold <= clear <= 1.0
    assert clear - threshold == pytest.approx(min(0.05, (1 - threshold) / 2))


def test_an_alarm_does_not_flap_around_its_threshold() -> None:
    watch = MONITOR.watch(TARGET, alarm_below=0.5)
    seen = [watch.step(STATE)]
    while seen[-1].p >= 0.5:
        seen.append(watch.step(STATE, -0.1))
    assert seen[-1].alarm
    # Back above the threshold, but not by five points: the alarm stands.
    better = watch.step(STATE, 0.0)
    assert better.alarm is (better.p < 0.55)


def test_an_alarm_latches_through_everything_unknown() -> None:
    few = GoalMonitor(Marginal(), steps_per_model=1, min_calibration=15).fit(
        walks(60, ragged=True), progress=False
    )
    watch = few.watch(TARGET, alarm_below=0.9)
    watch.step(STATE)
    alarm = watch.step(STATE, -3.0)
    assert alarm.alarm
    blind = watch.step([math.nan, 0.0])
    assert (blind.status, blind.known) == (Status.ALARM, False)
    assert blind.reason.startswith("in alarm since step 0; feature 'x0' is missing")
    late = [watch.step(STATE) for _ in range(3)][-1]
    assert (late.status, late.known) == (Status.ALARM, False)  # too few runs reach this step
    assert "learning episodes" in late.reason
    assert watch.end(-1.0).status is Status.DONE
    watch.reset()
    assert watch.step([math.nan, 0.0]).status is Status.UNKNOWN


def test_ruled_out_never_clears_and_compares_plausibility() -> None:
    watch = MONITOR.watch(TARGET, alarm=RuledOut(0.2))
    watch.step(STATE)
    lost = watch.step(STATE, -1.5)
    assert lost.plausibility <= 0.2
    assert lost.alarm
    assert lost.reason.startswith("plausibility = ")
    back = watch.step(STATE, 3.0)
    assert back.plausibility > 0.2
    assert back.alarm


def test_ruled_out_alarms_exactly_where_the_target_is_ruled_out() -> None:
    new = walks(80, seed=7)
    found = MONITOR.evaluate(new, TARGET, resamples=2)
    ruled_out = np.fmin.reduce(found.plausibility, axis=0) <= 0.1
    assert ((found.alarms(RuledOut(0.1)).first >= 0) == ruled_out).all()
    assert 0 < ruled_out.sum() < 80


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 59), st.sampled_from([Below(0.4), Below(0.7, 3), Promised(0.2, 2)]))
def test_first_alarms_of_recorded_runs_are_those_of_a_live_watch(i: int, rule) -> None:
    found = MONITOR.evaluate(NEW, TARGET, resamples=2).alarms(rule)
    live = [o.t for o in replay(MONITOR.watch(TARGET, alarm=rule), NEW, i)[:-1] if o.alarm]
    assert found.first[i] == (live[0] if live else -1)


NEW = walks(60, seed=11, ragged=True)


def test_a_rule_that_never_fires_says_so_when_it_is_made() -> None:
    with pytest.warns(AlarmWarning, match="60 assure"):
        MONITOR.watch(TARGET, alarm=Below(0.0))
    with pytest.warns(AlarmWarning, match="missed"):
        MONITOR.fleet(TARGET, 2, alarm=RuledOut(0.001))
    MONITOR.watch(Target(-math.inf, math.inf), alarm=Below(0.0))  # nothing can be missed


def test_without_assure_episodes_there_is_nothing_to_promise_or_rule_out() -> None:
    parts = walks(120).split(train=0.5, calibrate=0.5, assure=0)
    monitor = GoalMonitor(Marginal()).fit(split=parts, progress=False)
    assert monitor.watch(TARGET).step(STATE).known
    for rule in (Promised(0.1), RuledOut(0.1)):
        with refuses(FewEpisodesError, None, "no assure"):
            monitor.watch(TARGET, alarm=rule)


def test_ruled_out_raises_false_alarms_at_most_at_its_rate() -> None:
    """M9 as an alarm, by simulation on a wrong model: one bit per replicate."""
    bits = []
    for replicate in range(500):
        rng = np.random.default_rng([23, replicate])

        def runs(n: int, drift: float, rng: np.random.Generator = rng) -> Episodes:
            rewards = rng.integers(-2, 3, size=(n, 3)) + drift
            ids = rng.integers(0, 2**60, size=n)
            return Episodes.from_arrays(np.sign(rewards)[:, :, None], rewards, ids=ids)

        parts = PaperSplit(runs(30, 2.0), runs(30, 0.0), runs(19, 0.0), None)
        monitor = GoalMonitor(Marginal(), min_calibration=1).fit(split=parts, progress=False)
        new = runs(1, 0.0)
        itself = Target(new.outcomes[0], new.outcomes[0])  # the worst target of all, chosen after
        bits.append(monitor.evaluate(new, itself, resamples=2).alarms(RuledOut(0.2)).first[0] >= 0)
    assert stats.binom.sf(sum(bits) - 1, len(bits), 0.2) > 1e-8
    assert sum(bits) > 0.02 * len(bits)  # not kept by silence


def test_a_robust_promise_holds_where_readings_fail_less_often_live() -> None:
    """The default promise does not: with more good readings there are more chances to alarm."""
    rng = np.random.default_rng(0)
    steps, m, false = 12, 39, {False: 0, True: 0}
    for _ in range(2000):
        p = rng.random((steps, m + 1))
        broken = (rng.random((steps, m)) < 0.9) & (rng.random(m) < 0.2)  # a fifth of the sensors
        assured = SimpleNamespace(
            met=np.ones(m, dtype=bool),
            ever_broken=broken.any(axis=0),
            part="assure",
            promises=True,
            stopped=0,
            scores=lambda f, p=p, broken=broken: np.where(broken, np.inf, p[:, :m]).min(axis=0),
        )
        for robust in false:
            trigger = Promised("0.3", robust=robust).trigger(assured)
            false[robust] += p[:, m].min() < trigger.raise_below
    assert 0.05 < false[True] / 2000 < 0.3
    assert false[False] / 2000 > 0.33


def test_an_alarm_curve_of_a_target_that_no_episode_met_is_empty() -> None:
    never = Target.at_least(1e6)
    curve = MONITOR.alarm_curve(never)
    assert (curve.n_met, curve.threshold.size) == (0, 0)
    assert str(curve)
    asked = MONITOR.alarm_curve(never, rates=[0.1, 0.2])
    assert np.isnan(asked.threshold).all()
    assert np.isnan(asked.rate_at_most).all()
