"""What house-guests bring: a model, a behavior, alarm rules and an engine, each in one file.

Nothing in the package knows of them, and everything in it works with them.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ontarget import Episodes, GoalMonitor, RegressorQuantiles, Status, Target
from ontarget.errors import InputError, ModelFileError
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.live.test_fleet import same
from tests.outside.alarm_rules import CannotBeHigh, Latched, NeitherNor
from tests.outside.first_loss import FirstLoss
from tests.outside.nearest_outcomes import NearestOutcomes
from tests.outside.one_by_one import OneByOne
from tests.outside.running_median import RunningMedian
from tests.walks import replay, walks

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
TARGET = Target.at_least(0.1)


def live_equals_batch(monitor: GoalMonitor, new: Episodes, target: Target, **options) -> None:
    """One run after the other by a watch, all of them by a fleet, and step by step in batch."""
    watch = monitor.watch(target, **options)
    runs = [replay(watch, new, i) for i in range(8)]
    fleet = monitor.fleet(target, 8, **options)
    for t in range(new.horizon):
        step = new.take(range(8)).at(t)
        rewards = new.take(range(8)).rewards_at(t - 1) if t else 0.0
        together = fleet.step(step.states, rewards)
        batch = monitor.outlook(t, step.states, step.behavior, target, calibration="target")
        for i, run in enumerate(runs):
            assert same(run[t], together.of(i))
            assert run[t].p == batch.p[i] or (math.isnan(run[t].p) and math.isnan(batch.p[i]))
            assert run[t].assurance == batch.assurance[i] or math.isnan(run[t].p)


@pytest.mark.parametrize(
    "model",
    [
        NearestOutcomes(k=15),
        RegressorQuantiles(GradientBoostingRegressor(loss="quantile", n_estimators=4), n_levels=3),
        make_pipeline(StandardScaler(), QuantileForest(n_trees=5, min_leaf=3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_from_outside_enters_a_monitor(model, tmp_path: Path) -> None:
    monitor = GoalMonitor(model, steps_per_model=3).fit(walks(), progress=False)
    live_equals_batch(monitor, walks(20, seed=3), TARGET, alarm_below=0.3)
    interval = monitor.interval(2, np.zeros((1, 2)), 0.0, 0.8)
    assert interval.lower[0] < interval.upper[0]
    path = tmp_path / "outside.ontarget"
    if isinstance(model, NearestOutcomes):
        monitor.save(path)
        loaded = GoalMonitor.load(path)
        for outlook, again in zip(
            *(replay(one.watch(TARGET), walks(20, seed=3), 1) for one in (monitor, loaded)),
            strict=True,
        ):
            assert same(outlook, again)
        with refuses(InputError, None, "NearestOutcomes", "GoalMonitor(model=…)"):
            loaded.fit(walks(), progress=False)
    else:
        with refuses(ModelFileError, None, "register(kind"):
            monitor.save(path)
        assert not path.exists()


def test_the_default_model_passed_by_name_gives_the_monitor_of_none(tmp_path: Path) -> None:
    from ontarget import StackedForest

    for name, model in (("a", None), ("b", StackedForest())):
        GoalMonitor(model).fit(walks(120), progress=False).save(tmp_path / name)
    one, other = (GoalMonitor.load(tmp_path / name).fitted for name in "ab")
    np.testing.assert_array_equal(one.ranks.values, other.ranks.values)
    for block in one.blocks:
        ours, theirs = (found.models[block.index].to_arrays() for found in (one, other))
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("behavior", "target"),
    [
        (FirstLoss(), Target.at_least(4)),
        (FirstLoss(), Target(1, 3)),
        (RunningMedian(), Target.at_least(0.1)),
    ],
    ids=["first loss late", "first loss between", "median"],
)
def test_a_behavior_from_outside_is_watched_like_any_other(behavior, target: Target) -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=6, min_leaf=4), min_calibration=5)
    monitor.fit(walks(behavior=behavior), progress=False)
    new = walks(20, seed=3, behavior=behavior)
    live_equals_batch(monitor, new, target, alarm_below=0.5)
    for i in range(8):
        *_, done = replay(monitor.watch(target), new, i)
        assert (done.status, done.p) == (Status.DONE, float(target.contains(new.outcomes[i])))


def test_a_behavior_from_outside_decides_what_it_knows() -> None:
    behavior = FirstLoss()
    monitor = GoalMonitor(Marginal(), min_calibration=5)
    monitor.fit(walks(behavior=behavior), progress=False)
    watch = monitor.watch(Target.at_least(3), alarm_below=0.0)
    assert 0.0 < watch.step(np.zeros(2)).p < 1.0
    lost = watch.step(np.zeros(2), -1.0)
    assert (lost.p, lost.low, lost.high, lost.status) == (0.0, 0.0, 0.0, Status.ALARM)
    assert "out of reach" in lost.reason
    watch.reset()
    for t in range(4):
        safe = watch.step(np.zeros(2), 0.0)
        assert (safe.p == 1.0) is (t >= 3)


@pytest.mark.parametrize(
    "rule", [CannotBeHigh(0.4), NeitherNor(2), Latched(2)], ids=lambda r: str(r)
)
def test_an_alarm_rule_from_outside_works_in_every_face(rule) -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=6, min_leaf=4)).fit(walks(), progress=False)
    new = walks(60, seed=4)
    live_equals_batch(monitor, new, TARGET, alarm=rule)
    found = monitor.evaluate(new, TARGET, resamples=2).alarms(rule)
    watch = monitor.watch(TARGET, alarm=rule)
    for i in range(30):
        outlooks = replay(watch, new, i)[:-1]
        alarms = [outlook.t for outlook in outlooks if outlook.alarm]
        assert found.first[i] == (alarms[0] if alarms else -1)
        if isinstance(rule, Latched):
            pairs = pairwise(outlooks)
            assert all(now.alarm or now.p > 0.9 for before, now in pairs if before.alarm)
    sessions = monitor.sessions(TARGET, alarm=rule)
    assert sessions.answer({"agent": "a", "state": [0.0, 0.0]})["status"] in ("OK", "ALARM")


def test_an_engine_from_outside_gives_the_same_bytes(tmp_path: Path) -> None:
    def file(engine) -> bytes:
        monitor = GoalMonitor(QuantileForest(n_trees=5), steps_per_model=2)
        monitor.fit(walks(100), engine=engine, progress=False).save(tmp_path / "m")
        return (tmp_path / "m").read_bytes()

    ours = OneByOne()
    expected = file("local")
    assert file(ours) == expected
    assert ours.tasks == 3
    with ThreadPoolExecutor(2) as pool:
        assert file(pool) == expected
    assert file(joblib.Parallel(n_jobs=1)) == expected
