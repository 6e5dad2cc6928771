from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import InputError
from ontarget.evaluation import (
    NO_ALARM,
    alarm_curve,
    alarm_quality,
    exact_interval,
    first_alarms,
    sustained,
)
from refusals import refuses
from tests.evaluation.forecasts import panels

GRID = np.arange(0, 18) / 16


@given(panels(), st.sampled_from(GRID.tolist()))
def test_first_alarm_is_the_first_step_below_the_threshold(panel, threshold) -> None:
    p, _, _ = panel
    for episode, step in zip(p.T, first_alarms(p, threshold), strict=True):
        below = [t for t, value in enumerate(episode) if value < threshold]
        assert step == (below[0] if below else NO_ALARM)


@given(panels(), st.integers(1, 4), st.sampled_from(GRID.tolist()), st.integers(0, 2**32))
def test_a_sustained_alarm_counts_known_steps_below_in_a_row(
    panel, for_steps, threshold, seed
) -> None:
    p, _, _ = panel
    gaps = np.random.default_rng(seed).random(p.shape) < 0.2
    p = np.where(gaps, np.nan, p)
    if np.isnan(p).all():
        return
    raised = sustained(p, for_steps) < threshold
    for episode, alarms in zip(p.T, raised.T, strict=True):
        below, expected = 0, []
        for value in episode:
            if not np.isnan(value):
                below = below + 1 if value < threshold else 0
            expected.append(below >= for_steps and not np.isnan(value))
        assert alarms.tolist() == expected


@given(panels())
def test_curve_gives_at_every_threshold_what_the_rule_itself_gives(panel) -> None:
    p, met, ends = panel
    curve = alarm_curve(p, met, ends, thresholds=GRID)
    for k, threshold in enumerate(GRID):
        rule = alarm_quality(first_alarms(p, threshold), met, ends)
        np.testing.assert_equal(curve.false_alarm_rate[k], rule.false_alarms.value)
        np.testing.assert_equal(curve.detection_rate[k], rule.detections.value)
        interval = (rule.detections.low, rule.detections.high)
        np.testing.assert_allclose(curve.detection_interval[k], interval)
        false = (rule.false_alarms.low, rule.false_alarms.high)
        np.testing.assert_allclose(curve.false_alarm_interval[k], false)
        if rule.lead_steps.size:
            quartiles = np.quantile(rule.lead_steps, [0.25, 0.5, 0.75])
            np.testing.assert_allclose(curve.lead_steps[k], quartiles)
            assert rule.median_lead_steps == pytest.approx(curve.lead_steps[k, 1])
        else:
            assert np.isnan(curve.lead_steps[k]).all()
            assert np.isnan(rule.median_lead_steps)


@given(panels(), st.integers(0, 2**32))
def test_a_failure_is_caught_in_time_or_too_late_or_never(panel, seed) -> None:
    p, met, ends = panel
    decided = np.random.default_rng(seed).integers(0, ends + 1)
    curve = alarm_curve(p, met, ends, decided=decided, thresholds=GRID)
    for k, threshold in enumerate(GRID):
        first = first_alarms(p, threshold)
        rule = alarm_quality(first, met, ends, decided=decided)
        missed, raised = ~met, first != NO_ALARM
        assert rule.in_time.count == (missed & raised & (first < decided)).sum()
        assert rule.too_late.count == (missed & raised & (first >= decided)).sum()
        assert rule.never.count == (missed & ~raised).sum()
        np.testing.assert_equal(curve.in_time_rate[k], rule.in_time.value)
        np.testing.assert_equal(curve.lead_in_time[k, 1], rule.median_lead_in_time)
        np.testing.assert_allclose(curve.in_time_interval[k], (rule.in_time.low, rule.in_time.high))
        leads = (decided - first)[missed & raised & (first < decided)]
        np.testing.assert_equal(
            rule.median_lead_in_time, np.median(leads) if leads.size else np.nan
        )


@given(panels())
def test_a_higher_threshold_never_alarms_less(panel) -> None:
    curve = alarm_curve(*panel)
    if curve.n_met:
        assert (np.diff(curve.false_alarm_rate) >= 0).all()
    if curve.n_missed:
        assert (np.diff(curve.detection_rate) >= 0).all()


@given(panels())
def test_default_thresholds_hold_every_value_at_which_a_rate_changes(panel) -> None:
    p, met, ends = panel
    fine = alarm_curve(p, met, ends, thresholds=np.unique(np.r_[GRID, GRID + 1e-9]))
    curve = alarm_curve(p, met, ends)
    kept = fine.threshold <= 1.0
    if curve.n_missed:
        assert set(curve.detection_rate) == set(fine.detection_rate[kept])


def test_many_distinct_minima_are_thinned_evenly() -> None:
    rng = np.random.default_rng(0)
    curve = alarm_curve(rng.random((2, 3000)), rng.random(3000) < 0.5, np.full(3000, 2))
    assert curve.threshold.size == 500
    assert curve.threshold[0] == 0.0
    assert curve.threshold[-1] == 1.0


def test_rates_carry_exact_intervals_and_lead_times_ascend() -> None:
    found = alarm_quality([0, 4, -1, 2, -1, 9], [0, 0, 0, 1, 1, 0], [10] * 6)
    assert found.lead_steps.tolist() == [1, 6, 10]
    assert (found.detections.count, found.detections.n) == (3, 4)
    assert (found.precision.count, found.precision.n) == (3, 4)
    low, high = exact_interval(1, 2)
    assert (found.false_alarms.low, found.false_alarms.high) == (low, high)


def test_all_met_and_all_missed_give_nan_for_what_cannot_be_known() -> None:
    all_met = alarm_curve([[0.5, 0.9]], [1, 1], [1, 1])
    assert np.isnan(all_met.detection_rate).all()
    assert np.isnan(all_met.lead_steps).all()
    assert (all_met.detection_interval == [0.0, 1.0]).all()
    all_missed = alarm_curve([[0.5, 0.9]], [0, 0], [1, 1])
    assert np.isnan(all_missed.false_alarm_rate).all()


def test_bad_alarms_are_named() -> None:
    with refuses(InputError, "first_alarm", "(3)", "position 0"):
        alarm_quality([3], [1], [3])
    with refuses(InputError, "end", 0):
        alarm_quality([-1], [1], [0])
    with refuses(InputError, "first_alarm", "[0.5]"):
        alarm_quality([0.5], [1], [3])
    with refuses(InputError, "p", 0.5, "step 1"):
        alarm_curve([[0.5], [0.5]], [1], [1])
    with refuses(InputError, "thresholds", "ascending"):
        alarm_curve([[0.5]], [1], [1], thresholds=[0.5, 0.5])
