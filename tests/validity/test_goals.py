"""Goals over several behaviors (M21): every assure run in turn as the new one, on a wrong law.

As in `turns`, the counts are identities: exactly as many promises break as were announced, with
ties at most as many. What one might do instead breaks more of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.episodes import Split

from .turns import LEVEL, RATE, STEPS, Biased

GOAL = Goal.parse("gain >= -1 & spent <= 3")
FUNCTION = Goal.where(lambda gain, spent: gain >= spent - 2)
LEARN, POOL = 40, 20


def runs(n: int, rng: np.random.Generator, *, atoms: bool) -> Episodes:
    """Walks of two to four steps with two signals that have a noise in common."""
    lengths, drift = rng.integers(2, STEPS + 1, size=n), rng.normal(size=n)
    states: list[Any] = []
    signals: dict[str, list[Any]] = {"gain": [], "spent": []}
    for length, slope in zip(lengths.tolist(), drift.tolist(), strict=True):
        states.append(np.stack([np.full(length, slope), rng.normal(size=length)], axis=1))
        common, own = rng.normal(size=(2, length))
        for name, noise in (
            ("gain", common + 0.5 * own),
            ("spent", 0.5 * rng.normal(size=length) - common),
        ):
            moves = 0.5 * slope + noise
            signals[name].append(np.rint(moves) if atoms else moves)
    judged = {"gain": "sum", "spent": "sum"}
    ids = rng.integers(0, 2**60, n)
    return Episodes.from_arrays(states, signals, ids=ids, horizon=STEPS, behavior=judged)


@dataclass(frozen=True)
class Turn:
    """A new run, and the monitor that the other runs of the pool assure."""

    monitor: GoalMonitor
    run: Episodes

    @property
    def ended(self) -> dict[str, float]:
        return {name: float(self.run.only(name).outcomes[0]) for name in self.run.names}

    def meets(self, goal: Goal) -> bool:
        return bool(goal.contains({name: [value] for name, value in self.ended.items()})[0])

    def at(self, t: int) -> tuple[Any, dict[str, Any]]:
        steps = {name: self.run.only(name).at(t) for name in self.run.names}
        return steps["gain"].states, {name: one.behavior for name, one in steps.items()}


@cache
def turns(seed: int, atoms: bool) -> list[Turn]:
    rng = np.random.default_rng([21, seed])
    both = runs(LEARN + POOL, rng, atoms=atoms)
    learn, pool = both.take(range(LEARN)), both.take(range(LEARN, LEARN + POOL))
    everyone, found = np.arange(POOL), []
    for i in range(POOL):
        split = Split(learn, pool.take(everyone[everyone != i]), None)
        monitor = GoalMonitor(Biased(atoms=atoms), min_calibration=1)
        found.append(Turn(monitor.fit(split=split, progress=False), pool.take([i])))
    return found


def check(count: int, promised: int, *, exact: bool) -> None:
    assert count == promised if exact else count <= promised, (count, promised)


WORLDS = [(1, False), (2, True)]


@pytest.mark.parametrize("goal", [GOAL, FUNCTION], ids=["box", "function"])
@pytest.mark.parametrize(("seed", "atoms"), WORLDS)
def test_a_run_that_meets_its_goal_raises_an_alarm_as_often_as_promised(
    seed: int, atoms: bool, goal: Goal
) -> None:
    met = [turn for turn in turns(seed, atoms) if turn.meets(goal)]
    raised = 0
    for turn in met:
        watch = turn.monitor.watch(goal, false_alarm_rate=RATE)
        brought: Any = 0.0
        alarmed = False
        for t in range(int(turn.run.lengths[0])):
            alarmed |= watch.step(turn.at(t)[0][0], brought).alarm
            brought = {name: turn.run.only(name).rewards_at(t)[0] for name in turn.run.names}
        raised += alarmed
    # p of a function is a share of so few episodes that it is tied at times.
    check(raised, math.floor(RATE * len(met)), exact=not atoms and not goal.is_function)


def ruled_out(turn: Turn, goal: Goal) -> tuple[bool, bool]:
    """Whether a goal is ever ruled out, or ever assured."""
    out = sure = False
    for t in range(int(turn.run.lengths[0])):
        found = turn.monitor.outlook(t, *turn.at(t), goal)
        out |= bool(found.plausibility[0] <= float(RATE))
        sure |= bool(found.assurance[0] >= 1.0 - float(RATE))
    return out, sure


@pytest.mark.parametrize(("seed", "atoms"), WORLDS)
def test_outcomes_are_ruled_out_together_as_often_as_promised(seed: int, atoms: bool) -> None:
    out = wrong = 0
    for turn in turns(seed, atoms):
        # The worst goal that anyone could choose after looking is where the run ends.
        worst = Goal({name: Target(y, y) for name, y in turn.ended.items()})
        out += ruled_out(turn, worst)[0]
        wrong += ruled_out(turn, GOAL if not turn.meets(GOAL) else ~GOAL)[1]
    promised = math.floor(RATE * POOL)
    check(out, promised, exact=not atoms)
    check(wrong, promised, exact=False)


@pytest.mark.parametrize("all_steps", [False, True])
@pytest.mark.parametrize(("seed", "atoms"), WORLDS)
def test_boxes_miss_as_often_as_promised(seed: int, atoms: bool, all_steps: bool) -> None:
    everyone = turns(seed, atoms)
    there = everyone if all_steps else [one for one in everyone if one.run.lengths[0] > 2]
    missed = 0
    for turn in there:
        outside = False
        for t in range(int(turn.run.lengths[0])) if all_steps else (2,):
            box = turn.monitor.box(t, *turn.at(t), LEVEL, all_steps=all_steps)
            outside |= not all(box[name].contains([y])[0] for name, y in turn.ended.items())
        missed += outside
    check(missed, len(there) - math.ceil(LEVEL * len(there)), exact=not atoms)


def test_ruling_out_each_behavior_by_itself_breaks_the_promise() -> None:
    out = 0
    for turn in turns(*WORLDS[0]):
        out += any(ruled_out(turn, Goal({name: Target(y, y)}))[0] for name, y in turn.ended.items())
    assert out > math.floor(RATE * POOL)


def test_an_interval_for_each_behavior_is_no_box() -> None:
    there = [turn for turn in turns(*WORLDS[0]) if turn.run.lengths[0] > 2]
    missed = 0
    for turn in there:
        X, so_far = turn.at(2)
        missed += not all(
            turn.monitor.only(name).interval(2, X, so_far[name], LEVEL).contains([y])[0]
            for name, y in turn.ended.items()
        )
    assert missed > len(there) - math.ceil(LEVEL * len(there))
