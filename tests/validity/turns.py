"""Every assure run in turn as the new one, through the whole fit: identities that can fail (M13).

Learn stays as it is. A pool of n + 1 runs takes turns: each once is the new run, and the n others
assure the monitor. If all that is estimated comes from learn and all that is promised from assure
(M16), the pool counts as many broken promises as were announced: not on average, but always. So
these checks spend nothing of the suite's chance to fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from scipy.special import expit, logit

from ontarget import Episodes, GoalMonitor, Target
from ontarget.episodes import Split
from ontarget.models import QuantileForest

STEPS = 4
TARGET = Target.at_least(0.0)
# In a pool of 20 these lead to other ranks with n than with n + 1: intervals, promises, alarms.
LEVEL, ONE_SIDED, RATE = Fraction("0.77"), Fraction("0.8"), Fraction("0.23")

Turns: TypeAlias = list[tuple[GoalMonitor, Episodes]]


class Biased:
    """A law that is too narrow and too high, in whole numbers if asked; it reads the first feature.

    It has no trees: its answers for learning episodes come from five folds.
    """

    def __init__(self, *, atoms: bool) -> None:
        self.half = 0.5 if atoms else 0.0

    def fit(self, X: np.ndarray, y: np.ndarray) -> Biased:
        self.centre, self.scale = y.mean() + 0.4, 0.4 * y.std() + 0.1
        return self

    def _location(self, X: np.ndarray, values: np.ndarray) -> np.ndarray:
        at = self.centre - 0.1 * np.asarray(X)[:, 0]
        return at[:, None] if values.ndim == 2 else at

    def cdf_limits(self, X: np.ndarray, y: Any) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(y, dtype=float)
        at = self._location(X, values)
        down, up = (np.ceil(values), np.floor(values)) if self.half else (values, values)
        return expit((down - self.half - at) / self.scale), expit(
            (up + self.half - at) / self.scale
        )

    def quantile(self, X: np.ndarray, q: Any, *, side: str = "left") -> np.ndarray:
        levels = np.asarray(q, dtype=float)
        table = np.broadcast_to(levels, (len(X), *levels.shape))
        # At 0 and 1 the logit is infinite, and so is the quantile (M2).
        found = self._location(X, table) + self.scale * logit(np.clip(table, 0.0, 1.0))
        if not self.half:
            return found
        up = found - self.half
        return np.ceil(up) if side == "left" else np.floor(up) + 1.0


def runs(n: int, rng: np.random.Generator, *, atoms: bool) -> Episodes:
    """Walks of two to four steps; the state is their drift, which the biased law misreads."""
    lengths, drift = rng.integers(2, STEPS + 1, size=n), rng.normal(size=n)
    states, rewards = [], []
    for length, slope in zip(lengths.tolist(), drift.tolist(), strict=True):
        states.append(np.stack([np.full(length, slope), rng.normal(size=length)], axis=1))
        gains = 0.5 * slope + rng.normal(size=length)
        rewards.append(np.rint(gains) if atoms else gains)
    return Episodes.from_arrays(states, rewards, ids=rng.integers(0, 2**60, n), horizon=STEPS)


@dataclass(frozen=True)
class World:
    """Where runs come from, what models them, and how many learn and take turns."""

    seed: int
    atoms: bool
    forest: bool
    learn: int = 40
    pool: int = 20

    def __str__(self) -> str:
        law = "forest" if self.forest else "biased law"
        return f"{law}, {'atoms' if self.atoms else 'no ties'}, seed {self.seed}"

    @property
    def exact(self) -> bool:
        """Whether no two runs can have the same alarm score or excess.

        Runs share the leaves of a forest; with atoms they share outcomes as well.
        """
        return not (self.atoms or self.forest)

    def episodes(self) -> tuple[Episodes, Episodes]:
        """The learning episodes and the pool."""
        rng = np.random.default_rng([20, self.seed])
        both = runs(self.learn + self.pool, rng, atoms=self.atoms)
        return both.take(range(self.learn)), both.take(range(self.learn, len(both)))

    def unfitted(self, **options: Any) -> GoalMonitor:
        """The monitor before it is fitted, with further options of its own."""
        model = QuantileForest(n_trees=10, min_leaf=3) if self.forest else Biased(atoms=self.atoms)
        return GoalMonitor(model, min_calibration=1, **options)

    def fitted(self, learn: Episodes, assure: Episodes, **options: Any) -> GoalMonitor:
        """The monitor that these episodes make."""
        return self.unfitted(**options).fit(split=Split(learn, assure, None), progress=False)

    def turns(self) -> Turns:
        """Each run of the pool as the new one, with the monitor that the others assure."""
        learn, pool = self.episodes()
        everyone = np.arange(self.pool)
        return [
            (self.fitted(learn, pool.take(everyone[everyone != i])), pool.take([i]))
            for i in everyone.tolist()
        ]


def counted(world: World, found: int, promised: int, what: str, *, exact: bool) -> None:
    """Raise unless the count is as promised: exactly without ties, with ties at most."""
    right = found == promised if exact else found <= promised
    assert right, f"{world}: {found} {what}, promised {promised}"


def alive(turns: Turns, t: int) -> Turns:
    """The turns whose new run reaches step t: it is exchangeable with those that do (M1)."""
    return [(monitor, run) for monitor, run in turns if run.lengths[0] > t]


def outcome(run: Episodes) -> float:
    """What the run came to."""
    return float(run.outcomes[0])


def alarms(monitor: GoalMonitor, run: Episodes) -> bool:
    """Whether a live watch with a promised false-alarm rate ever raises an alarm."""
    watch = monitor.watch(TARGET, false_alarm_rate=RATE)
    rewards = [0.0, *(run.rewards_at(t)[0] for t in range(int(run.lengths[0]) - 1))]
    return any(watch.step(run.at(t).states[0], one).alarm for t, one in enumerate(rewards))


def check_intervals(world: World, turns: Turns, *, steps: tuple[int, ...] = (0, 2)) -> None:
    """M5: of those that reach a step, ⌈level (n + 1)⌉ lie in their interval."""
    for t in steps:
        there, missed = alive(turns, t), 0
        for monitor, run in there:
            step = run.at(t)
            lower, upper = monitor.interval(t, step.states, step.behavior, LEVEL)
            missed += not lower[0] <= outcome(run) <= upper[0]
        promised = len(there) - math.ceil(LEVEL * len(there))
        counted(world, missed, promised, f"missed at step {t}", exact=not world.atoms)


def check_promises(world: World, turns: Turns, *, steps: tuple[int, ...] = (0, 2)) -> None:
    """M5: one-sided promises fail ⌊δ(n + 1)⌋ times."""
    for t in steps:
        there = alive(turns, t)
        for side, sign in (("lower", 1.0), ("upper", -1.0)):
            broken = 0
            for monitor, run in there:
                step = run.at(t)
                bound = monitor.promise(t, step.states, step.behavior, ONE_SIDED, side=side)[0]
                broken += sign * outcome(run) < sign * bound
            promised = math.floor((1 - ONE_SIDED) * len(there))
            counted(world, broken, promised, f"below a {side} promise", exact=not world.atoms)


def check_cdf(world: World, turns: Turns, *, steps: tuple[int, ...] = (0, 2)) -> None:
    """M3: P(hi(F(Y)) ≤ β) ≤ β and P(lo(F(Y−)) ≥ β) ≤ 1 − β; each point of the grid once."""
    for t in steps:
        there = alive(turns, t)
        whole, hi, lo = len(there), [], []
        for monitor, run in there:
            step, y = run.at(t), outcome(run)
            up_to, below = Target.at_most(y), Target(-math.inf, y, closed="neither")
            found = monitor.outlook(t, step.states, step.behavior, [up_to, below])
            hi.append(round(found.high[0, 0] * whole))
            lo.append(round(found.low[0, 1] * whole))
        for j in range(whole + 1):
            counted(world, sum(h <= j for h in hi), j, f"hi up to {j}", exact=not world.atoms)
            few = sum(one >= j for one in lo)
            counted(world, few, whole - j, f"lo from {j}", exact=not world.atoms)


def check_alarms(world: World, turns: Turns, *, exact: bool) -> None:
    """M8: of the runs that meet the target, ⌊ε(m + 1)⌋ raise an alarm."""
    met = [(monitor, run) for monitor, run in turns if TARGET.contains(outcome(run))]
    raised = sum(alarms(monitor, run) for monitor, run in met)
    counted(world, raised, math.floor(RATE * len(met)), "false alarms", exact=exact)


def judged(monitor: GoalMonitor, run: Episodes) -> tuple[bool, bool, bool]:
    """Whether a run's outcome is ever ruled out, outside its band, or wrongly assured away (M9)."""
    y = outcome(run)
    ruled_out = outside = assured = False
    for t in range(int(run.lengths[0])):
        step = run.at(t)
        # The worst target that anyone could choose after looking is the outcome itself.
        found = monitor.outlook(t, step.states, step.behavior, [Target(y, y), TARGET])
        ruled_out |= bool(found.plausibility[0, 0] <= float(RATE))
        assured |= bool(found.assurance[0, 1] >= 1.0 - float(RATE))
        lower, upper = monitor.band(t, step.states, step.behavior, LEVEL)
        outside |= not lower[0] <= y <= upper[0]
    return ruled_out, outside, assured and not TARGET.contains(y)


def check_ruled_out(world: World, turns: Turns) -> None:
    """M9: ⌊δ(n + 1)⌋ outcomes are ruled out at some step; nothing is assured more often wrongly."""
    found = np.sum([judged(monitor, run) for monitor, run in turns], axis=0).tolist()
    promised = math.floor(RATE * len(turns))
    counted(world, found[0], promised, "ruled out", exact=world.exact)
    counted(world, found[1], promised, "outside their band", exact=world.exact)
    counted(world, found[2], promised, "assured wrongly", exact=False)


def check_drift(world: World, turns: Turns) -> None:
    """M10: a new run's place among the assure runs is each place once."""
    places = [
        math.floor(monitor.drift_guard().observe(run).p * len(turns)) for monitor, run in turns
    ]
    assert sorted(places) == list(range(len(turns))), f"{world}: places {sorted(places)}"
