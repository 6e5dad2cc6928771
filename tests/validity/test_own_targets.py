"""Targets that differ from run to run (M21): every assure pair of a run and its target in turn.

As in `turns`, the counts are identities. One threshold from a common target breaks more promises.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor, QuantileForest, Target
from ontarget.episodes import Split
from ontarget.errors import EpisodesError, FewEpisodesError, InputError
from refusals import refuses

from .turns import RATE, Biased, runs

LEARN, POOL = 40, 30
EASY, HARD = Target.at_least(-2.0), Target.at_least(1.0)


@cache
def turns(atoms: bool) -> list[tuple[GoalMonitor, Episodes]]:
    rng = np.random.default_rng([22, atoms])
    both = runs(LEARN + POOL, rng, atoms=atoms)
    wanted = [EASY if one else HARD for one in rng.random(len(both)) < 0.5]
    aimed = both.aimed(wanted)
    learn, pool = aimed.take(range(LEARN)), aimed.take(range(LEARN, len(aimed)))
    everyone, found = np.arange(POOL), []
    for i in range(POOL):
        split = Split(learn, pool.take(everyone[everyone != i]), None)
        monitor = GoalMonitor(Biased(atoms=atoms), min_calibration=1)
        found.append((monitor.fit(split=split, progress=False), pool.take([i])))
    return found


def own_target(run: Episodes) -> Target:
    assert run.targets is not None
    target = run.targets[0]
    assert target is not None
    return target


def alarmed(monitor: GoalMonitor, run: Episodes, watch: object) -> bool:
    rewards = [0.0, *(run.rewards_at(t)[0] for t in range(int(run.lengths[0]) - 1))]
    return any(watch.step(run.at(t).states[0], one).alarm for t, one in enumerate(rewards))  # type: ignore[attr-defined]


def met(atoms: bool) -> list[tuple[GoalMonitor, Episodes]]:
    return [(m, run) for m, run in turns(atoms) if own_target(run).contains(run.outcomes)[0]]


@pytest.mark.parametrize("atoms", [False, True])
def test_pairs_of_run_and_target_raise_alarms_as_often_as_promised(atoms: bool) -> None:
    raised = 0
    for monitor, run in met(atoms):
        watch = monitor.watch_own(false_alarm_rate=RATE)
        watch.reset(own_target(run))
        raised += alarmed(monitor, run, watch)
    promised = math.floor(RATE * len(met(atoms)))
    assert raised == promised if not atoms else raised <= promised


def test_a_threshold_from_one_common_target_breaks_the_promise() -> None:
    raised = 0
    for monitor, run in met(False):
        common = monitor.watch(EASY, false_alarm_rate=RATE, calibration="common")
        own = monitor.watch(
            own_target(run), alarm_below=common.trigger.threshold, calibration="common"
        )
        raised += alarmed(monitor, run, own)
    assert raised > math.floor(RATE * len(met(False)))


def test_the_model_file_keeps_the_targets(tmp_path: Path) -> None:
    both = runs(160, np.random.default_rng(5), atoms=False)
    aimed = both.aimed([EASY, HARD, Target(-1.0, 3.0, "left") | Target.at_least(5.0), None] * 40)
    monitor, run = GoalMonitor(QuantileForest(n_trees=5)).fit(aimed, progress=False), both.take([0])
    monitor.save(tmp_path / "own.ontarget")
    again = GoalMonitor.load(tmp_path / "own.ontarget")
    assert again.fitted.assure is not None
    assert monitor.fitted.assure is not None
    assert again.fitted.assure.targets == monitor.fitted.assure.targets
    one, other = (m.watch_own(false_alarm_rate=RATE) for m in (monitor, again))
    assert one.trigger == other.trigger
    for watch in (one, other):
        watch.reset(Target(0.0, 1.0, "left") | HARD)
    state = run.at(0).states[0]
    assert one.step(state) == other.step(state)


def test_an_evaluation_judges_each_run_by_its_own_target() -> None:
    both, new = (runs(160, np.random.default_rng(k), atoms=False) for k in (5, 6))
    aimed = both.aimed([EASY, HARD] * 80)
    monitor = GoalMonitor(QuantileForest(n_trees=10)).fit(aimed, progress=False)
    targets = [EASY, HARD, None, EASY] * 40
    found = monitor.evaluate_own(new.aimed(targets), resamples=20)
    judged = [one.contains(new.outcomes[[i]])[0] for i, one in enumerate(targets) if one]
    assert found.met.tolist() == judged
    raised = found.alarms(false_alarm_rate=RATE)
    watch = monitor.watch_own(false_alarm_rate=RATE)
    assert raised.triggers[0] == watch.trigger
    run = new.take([0])
    watch.reset(EASY)
    assert watch.step(run.at(0).states[0]).p == found.p[0, 0]
    assert found.ece().value < 0.2
    with refuses(InputError, None, "episodes.aimed(targets)"):
        monitor.evaluate_own(new)


def test_a_column_holds_the_targets() -> None:
    frame = pl.DataFrame(
        {
            "run": [1, 1, 2, 3],
            "step": [0, 1, 0, 0],
            "x": [0.0, 1.0, 2.0, 3.0],
            "reward": [1.0, 2.0, 3.0, 4.0],
            "goal": ["2:", "2:", None, ":5,7:9"],
        }
    )
    found = Episodes.from_frame(frame, target="goal")
    assert found.targets == (Target.at_least(2), None, Target.parse(":5,7:9"))
    assert found.schema.names == ("x",)
    assert found.take([2, 0]).compact().targets == (Target.parse(":5,7:9"), Target.at_least(2))
    with refuses(EpisodesError, None, "'goal'", "episode 1", "'soon'"):
        Episodes.from_frame(frame.with_columns(goal=pl.lit("soon")), target="goal")
    with refuses(EpisodesError, "target", "'aim'"):
        Episodes.from_frame(frame, target="aim")


def test_what_is_missing_is_said() -> None:
    learn, pool = (runs(30, np.random.default_rng(k), atoms=False) for k in (1, 2))
    monitor = GoalMonitor(Biased(atoms=False), min_calibration=1)
    monitor.fit(split=Split(learn, pool, None), progress=False)
    with refuses(FewEpisodesError, None, "episodes.aimed(targets)"):
        monitor.watch_own(false_alarm_rate=0.2)
    watch = monitor.watch_own(alarm_below=0.2)  # a plain threshold promises nothing
    with refuses(InputError, None, "reset(target)"):
        watch.step([0.0, 0.0])
    with refuses(InputError, "target", "got 3"):
        watch.reset(3)  # type: ignore[arg-type]
    with refuses(InputError, "targets", "of 30", "got 1"):
        pool.aimed([EASY])
