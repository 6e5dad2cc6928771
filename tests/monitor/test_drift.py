from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from ontarget import Episodes
from ontarget.errors import CalibrationError, EpisodesError, GroupError, InputError
from ontarget.models import Marginal
from ontarget.monitor import GoalMonitor
from ontarget.monitor.drift import DriftBet, DriftGuard
from tests.walks import walks

MONITOR = GoalMonitor(Marginal()).fit(walks(400), progress=False)


def test_evidence_stays_low_on_runs_like_those_recorded_and_rises_on_others() -> None:
    same = MONITOR.drift_guard().observe(walks(150, seed=3))
    assert same.n == 150
    assert not same.alarm
    rng = np.random.default_rng(0)
    worse = Episodes.from_arrays(rng.normal(size=(150, 6, 2)), rng.normal(-0.3, 0.2, (150, 6)))
    assert MONITOR.drift_guard().observe(worse).alarm


def test_early_finishers_are_held_back_until_those_before_them_are_in() -> None:
    runs = walks(5, seed=4)
    in_order, held = MONITOR.drift_guard(), MONITOR.drift_guard()
    for i in range(5):
        held.begin(runs.ids[i])
        in_order.observe(runs.take([i]))
    for i in (4, 2, 1):
        assert held.observe(runs.take([i])).n == 0
    assert held.observe(runs.take([0])).n == 3
    assert held.observe(runs.take([3])) == in_order.reading


def test_episodes_are_announced_all_or_none_and_once() -> None:
    guard, runs = MONITOR.drift_guard(), walks(3, seed=5)
    guard.begin(runs.ids[0])
    with pytest.raises(InputError, match="never began"):
        guard.observe(runs.take([1]))
    with pytest.raises(InputError, match="begun already"):
        guard.begin(runs.ids[0])


def test_all_stay_announced_once_one_was() -> None:
    guard, runs = MONITOR.drift_guard(), walks(2, seed=5)
    guard.begin(runs.ids[0])
    assert guard.observe(runs.take([0])).n == 1
    with pytest.raises(InputError, match="never began"):
        guard.observe(runs.take([1]))


def test_nobody_waits_for_an_episode_that_ended_before_the_guarded_step() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5)
    guard = monitor.fit(walks(400, ragged=True), progress=False).drift_guard(t=3)
    runs = walks(6, seed=2, ragged=True)
    early = runs.lengths <= 3
    assert early.any()
    assert not early.all()
    for episode_id in runs.ids:
        guard.begin(episode_id)
    assert guard.observe(runs).n == np.count_nonzero(~early)
    short = Episodes.from_arrays(np.zeros((1, 2, 2)), np.zeros((1, 2)), ids=["short"])
    guard.begin("short")
    assert guard.observe(short).n == np.count_nonzero(~early)


def test_only_episodes_like_the_monitors_are_observed() -> None:
    with pytest.raises(EpisodesError, match="behavior sum, got max"):
        MONITOR.drift_guard().observe(walks(3, seed=5, behavior="max"))
    grouped = GoalMonitor(Marginal(), group="group").fit(walks(400, groups=2), progress=False)
    guard, runs = grouped.drift_guard(group="0"), walks(4, seed=5, groups=2)
    assert guard.observe(runs.take([0, 2])).n == 2
    with pytest.raises(GroupError, match="guard each group by itself"):
        guard.observe(runs.take([1]))


def test_a_step_that_cannot_be_guarded_is_refused() -> None:
    few = GoalMonitor(Marginal(), min_calibration=30).fit(walks(100, ragged=True), progress=False)
    with pytest.raises(CalibrationError, match="step 5 cannot be guarded"):
        few.drift_guard(t=5)
    with pytest.raises(InputError, match="from 0 to 5, got 6"):
        MONITOR.drift_guard(t=6)


def test_an_alarm_stays_raised() -> None:
    bet = DriftBet(np.linspace(0.01, 0.99, 99), level=0.95)
    readings = [bet.observe(0.995) for _ in range(40)]
    first = next(i for i, reading in enumerate(readings) if reading.alarm)
    assert readings[first].evidence >= 20
    assert all(reading.alarm for reading in readings[first:])
    for j in range(400):
        last = bet.observe((j % 97) / 97)
    assert last.alarm
    assert math.isfinite(last.evidence)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_stored_guard_goes_on_where_it_was(again: Callable[[DriftGuard], DriftGuard]) -> None:
    runs, guard = walks(40, seed=6), MONITOR.drift_guard(t=2)
    for episode_id in runs.ids.tolist():
        guard.begin(episode_id)
    guard.observe(runs.take(range(10, 20)))  # held back for the first ten
    stored = again(guard)
    for part in (runs.take(range(10)), runs.take(range(20, 40))):
        assert stored.observe(part) == guard.observe(part)
    assert guard.reading.n == 40
    alone = again(guard)
    alone.begin("other")  # a copy shares nothing that changes
    guard.begin("other")
