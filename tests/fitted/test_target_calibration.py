from __future__ import annotations

import numpy as np
import pytest

from ontarget import Episodes, Promised, Target, VennAbers
from ontarget.episodes import PaperSplit
from ontarget.errors import CalibrationError, EpisodesError, InputError
from ontarget.fitted.guarantee import alarm_scores
from ontarget.models import Marginal, QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report._facts import facts_of
from ontarget.report._words import guaranteed, measured_only
from refusals import refuses
from tests.live.test_fleet import live_at_random
from tests.walks import replay, walks

FOREST = QuantileForest(n_trees=12, min_leaf=5)
TARGET = Target(-0.3, 0.1) | Target(0.6, closed="neither")
NUMBERS = ("low", "p", "spread", "high", "plausibility", "assurance")


def fitted(behavior: str = "sum", groups: int = 0, **options):
    episodes = walks(500, behavior=behavior, groups=groups, ragged=True, **options)
    parts = episodes.split(train=0.4, seed=1, by_group="stratify" if groups else None)
    monitor = GoalMonitor(FOREST, min_calibration=15, group="group" if groups else None)
    monitor.fit(split=parts, progress=False)
    return monitor, parts, monitor.calibrate_target(TARGET, parts.calibrate)


@pytest.mark.parametrize("behavior", ["sum", "discounted:0.9"])
def test_low_p_and_high_are_the_venn_abers_numbers_of_each_step(behavior: str) -> None:
    monitor, parts, calibration = fitted(behavior)
    new = walks(60, seed=7, behavior=behavior, ragged=True)
    grid = monitor.fitted.grid
    for t in range(monitor.horizon):
        step, rows, own = (
            monitor.fitted.at(t),
            new.at(t, grid=grid),
            parts.calibrate.at(t, grid=grid),
        )
        found = monitor.outlook(t, rows.states, rows.behavior, TARGET, calibration=calibration)
        alone = VennAbers(step, TARGET, grid=grid).calibrate(
            step.inputs(own.states, own.behavior), own.response, offset=own.behavior
        )
        wanted = alone.probability(step.inputs(rows.states, rows.behavior), rows.behavior)
        assert np.array_equal([found.low, found.p, found.high], wanted)
        plain = monitor.outlook(t, rows.states, rows.behavior, TARGET)
        assert np.array_equal(found.plausibility, plain.plausibility)
        assert np.array_equal(found.assurance, plain.assurance)


def test_what_is_decided_passes_the_targets_own_calibration_by() -> None:
    monitor, _, _ = fitted("max")
    high = monitor.calibrate_target(Target.at_least(0.5), walks(200, seed=8, behavior="max"))
    found = monitor.outlook(2, np.zeros((3, 2)), [0.4, 0.5, 0.6], high.target, calibration=high)
    assert 0.0 < found.low[0] <= found.p[0] <= found.high[0] < 1.0
    assert found.p[1:].tolist() == found.low[1:].tolist() == found.high[1:].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("groups", [0, 2])
def test_live_fleet_batch_and_evaluation_give_the_same_bits(groups: int) -> None:
    monitor, _, calibration = fitted(groups=groups)
    new = walks(20, seed=3, groups=groups)
    names = [None] * 20 if not groups else new.groups.tolist()
    panel = monitor.evaluate(new, TARGET, calibration=calibration, resamples=2)
    for i, name in enumerate(names):
        watch = monitor.watch(TARGET, group=name, calibration=calibration)
        for t, outlook in enumerate(replay(watch, new, i)[:-1]):
            row = new.at(t)
            batch = monitor.outlook(
                t,
                row.states[[i]],
                row.behavior[[i]],
                TARGET,
                groups=None if name is None else [name],
                calibration=calibration,
            )
            for field in NUMBERS:
                alone = getattr(outlook, field)
                assert np.array_equal(alone, getattr(batch, field)[0], equal_nan=True)
                assert np.array_equal(alone, getattr(panel, field)[t, i], equal_nan=True)
    options = {"calibration": calibration, "false_alarm_rate": 0.2, "for_steps": 2}
    fleet = monitor.fleet(TARGET, 20, groups=names if groups else None, **options)
    alone = [monitor.watch(TARGET, group=name, **options) for name in names]
    live_at_random(monitor, fleet, alone, seed=groups)


def test_a_promised_alarm_rests_on_the_very_p_that_is_given_live() -> None:
    monitor, parts, calibration = fitted()
    trigger = monitor.watch(TARGET, false_alarm_rate=0.1, calibration=calibration).trigger
    panel = monitor.evaluate(parts.assure, TARGET, calibration=calibration, resamples=2)
    scores = np.sort(alarm_scores(panel.p)[panel.met])
    assert trigger.threshold == scores[trigger.promised.k - 1]
    assert trigger.threshold != monitor.watch(TARGET, false_alarm_rate=0.1).trigger.threshold
    curve = monitor.alarm_curve(TARGET, rates=[0.1], calibration=calibration)
    assert curve.threshold[0] == trigger.threshold
    assert panel.alarms(false_alarm_rate=0.1).triggers[0] == trigger


def test_one_target_is_calibrated_where_the_distribution_alone_is_not() -> None:
    """A model that takes calm states for wild ones: PCQR's p of a tail is off on average (M7)."""
    rng = np.random.default_rng(0)

    def runs(n: int, spread: tuple[float, float], first: int) -> Episodes:
        wild = np.arange(n) % 2
        gains = np.array(spread)[wild, None] * rng.normal(size=(n, 1))
        states = wild[:, None, None].astype(float)
        return Episodes.from_arrays(states, gains, ids=np.arange(first, first + n))

    train, calibrate = runs(1000, (3.0, 0.3), 0), runs(2000, (0.3, 3.0), 1000)
    monitor = GoalMonitor(FOREST).fit(
        split=PaperSplit(train, calibrate, None, None), progress=False
    )
    tail, new = Target.at_least(2.0), runs(4000, (0.3, 3.0), 3000)
    calibration = monitor.calibrate_target(tail, calibrate)
    met = tail.contains(new.outcomes).mean()
    plain, own = (
        monitor.outlook(0, new.at(0).states, 0.0, tail, calibration=one).p.mean()
        for one in ("common", calibration)
    )
    assert abs(own - met) < 0.02 < 0.03 < abs(plain - met)


def test_steps_that_few_episodes_reach_stay_unknown() -> None:
    monitor, parts, _ = fitted(horizon=20)
    calibration = monitor.calibrate_target(TARGET, parts.calibrate)
    known = [not monitor.fitted.unknown(t) for t in range(20)]
    assert not all(known)
    assert (np.diff(calibration.spans[:, 0]) > 0).ravel().tolist() == known
    late = known.index(False)
    found = monitor.outlook(late, np.zeros((1, 2)), 0.0, TARGET, calibration=calibration)
    assert "calibration episodes" in found.reason[0]


def test_what_a_calibration_cannot_serve_is_refused() -> None:
    monitor, parts, calibration = fitted()
    other = Target.at_least(0.0)
    for ask in (
        lambda: monitor.watch(other, calibration=calibration),
        lambda: monitor.fleet(other, 2, calibration=calibration),
        lambda: monitor.outlook(0, np.zeros((1, 2)), 0.0, other, calibration=calibration),
        lambda: monitor.outlook(0, np.zeros((1, 2)), 0.0, [TARGET], calibration=calibration),
        lambda: monitor.evaluate(parts.assure, other, calibration=calibration),
        lambda: monitor.alarm_curve(other, calibration=calibration),
    ):
        with refuses(InputError, "calibration", "(0.6, inf)", "got ["):
            ask()
    with refuses(CalibrationError, None, "15 episodes", "step 2"):
        monitor.calibrate_target(TARGET, parts.calibrate.take(np.arange(20)))
    with refuses(EpisodesError, None, "6 steps", "got 5"):
        monitor.calibrate_target(TARGET, walks(50, horizon=5))


def test_the_report_promises_what_this_calibration_promises() -> None:
    monitor, parts, calibration = fitted()
    plain, own = (
        facts_of(
            monitor.evaluate(parts.assure, TARGET, calibration=one, resamples=2), Promised(0.1)
        )
        for one in ("common", calibration)
    )
    assert any("very target" in point for point in guaranteed(own))
    assert not any("very target" in point for point in guaranteed(plain))
    assert "low and high" in measured_only(own)[0]
    assert "best estimate" in measured_only(plain)[0]


@pytest.mark.parametrize("part", ["train", "assure"])
def test_episodes_that_trained_or_assure_the_monitor_are_refused(part: str, tmp_path) -> None:
    parts = walks(400, seed=3).split(train=0.4, seed=0)
    monitor = GoalMonitor(Marginal()).fit(split=parts, progress=False)
    monitor.save(tmp_path / "m.ontarget")
    for one in (monitor, GoalMonitor.load(tmp_path / "m.ontarget")):
        with refuses(CalibrationError, None, f"{part} part"):
            one.calibrate_target(TARGET, getattr(parts, part))
        one.calibrate_target(TARGET, parts.calibrate)


@pytest.mark.parametrize("part", ["learn", "assure"])
def test_one_episode_that_a_monitor_has_seen_among_many_new_ones_is_refused(part: str) -> None:
    runs = walks(400, seed=3)
    monitor = GoalMonitor(Marginal()).fit(runs, progress=False)
    seen = getattr(runs.split(), part).take([0])
    new = walks(300, seed=4)
    monitor.calibrate_target(TARGET, new)
    renamed = Episodes.concat([new.take(range(1, 300)), seen])
    with refuses(CalibrationError, None, "1 of the 300", f"{part} part"):
        monitor.calibrate_target(TARGET, renamed)


def test_a_recalibrated_monitor_refuses_the_episodes_that_assure_it_now() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(400, seed=3), progress=False)
    later = walks(300, seed=4)
    again = monitor.recalibrate(later)
    with refuses(CalibrationError, None, "assure part", 300):
        again.calibrate_target(TARGET, later)
