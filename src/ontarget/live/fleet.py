"""Many runs, live, in one call: a watch over a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.episodes import Column, Last
from ontarget.errors import InputError
from ontarget.fitted.fitted import Calibrated
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live import _reasons as reasons
from ontarget.live._lanes import Lanes
from ontarget.live.alarms import AlarmRule
from ontarget.live.outlook import Outlooks, State
from ontarget.target import Target

__all__ = ["FleetWatch"]


class FleetWatch:
    """A watch over many runs, each at a step of its own; see `GoalMonitor.fleet`.

    Each agent is judged exactly as a `Watch` of its own would judge it, to the last bit.

    Parameters
    ----------
    fitted
        The monitor's contents.
    target
        What every run should end in.
    rules
        The alarm rule of each group.
    agents
        How many agents there are.
    groups
        The number of each agent's group.
    calibration
        The target's own calibration, if it has one.
    """

    def __init__(
        self,
        fitted: Calibrated,
        target: Target,
        rules: Sequence[AlarmRule],
        agents: int,
        *,
        groups: IndexArray,
        calibration: TargetCalibration | None = None,
    ) -> None:
        self._fitted = fitted
        self._lanes = Lanes(fitted, target, calibration)
        self.target = target
        self.rules = tuple(rules)
        self._n = whole_number("agents", agents, least=1)
        self._groups = groups
        self._threshold = np.array([rule.threshold for rule in rules])[groups]
        self._clear = np.array([rule.clear_at for rule in rules])[groups]
        self._for_steps = rules[0].for_steps
        self._t = np.zeros(self._n, dtype=np.intp)
        self._so_far = np.empty(self._n)
        self._lost = np.full(self._n, "", dtype=np.object_)  # why the behavior so far is unknown
        self._run = np.zeros(self._n, dtype=np.intp)
        self._alarmed = np.zeros(self._n, dtype=np.bool_)
        self._over = np.zeros(self._n, dtype=np.bool_)
        self.reset()

    def __len__(self) -> int:
        return self._n

    @property
    def steps(self) -> IndexArray:
        """The step that each agent's next call is for."""
        return self._t.copy()

    def reset(self, agents: ArrayLike | None = None) -> None:
        """Begin new runs, for all agents or for some."""
        which = self._which(agents)
        self._t[which] = 0
        self._so_far[which] = self._fitted.behavior.initial
        self._run[which] = 0
        self._lost[which] = ""
        self._alarmed[which] = self._over[which] = False

    def step(
        self,
        states: ArrayLike,
        rewards: ArrayLike = 0.0,
        *,
        agents: ArrayLike | None = None,
        behavior: ArrayLike | None = None,
    ) -> Outlooks:
        """The outlook of each agent before it acts; rows are agents, in the order given.

        Parameters
        ----------
        states
            (agents, features).
        rewards
            What each agent's last action earned: 0 at its first call.
        agents
            Which agents these are, by number; all of them by default.
        behavior
            The behavior so far, where it is read rather than summed.
        """
        which = self._which(agents)
        X = np.asarray(states, dtype=np.float64)
        width = len(self._fitted.schema)
        if X.shape != (which.size, width):
            raise InputError(f"states need shape ({which.size}, {width}), got {X.shape}")
        found, open_runs, known = self._begin(which, rewards, behavior)
        self._over[which[open_runs & (found.t == self._fitted.horizon)]] = True
        self._close(which, found, known & (found.t == self._fitted.horizon))
        looking = np.flatnonzero(open_runs & (found.t < self._fitted.horizon))
        times, groups = found.t[looking], self._groups[which[looking]]
        found.n_calibration[looking] = self._lanes.n_calibration[times, groups]
        read = self._read(X[looking], known[looking], looking, found)
        reached = self._lanes.known[times, groups]
        found.reason[looking[read & ~reached]] = self._lanes.unknown[times, groups][read & ~reached]
        self._run[which[looking[~read]]] = 0  # a bad reading; one that few reach is left out (M8)
        self._look(which, X, looking[read & reached], found)
        return found

    def end(
        self,
        rewards: ArrayLike = 0.0,
        *,
        agents: ArrayLike | None = None,
        behavior: ArrayLike | None = None,
    ) -> Outlooks:
        """Close runs that ended before the horizon: DONE, with p exactly 0 or 1."""
        which = self._which(agents)
        found, open_runs, known = self._begin(which, rewards, behavior, ending=True)
        self._over[which[open_runs]] = True
        self._close(which, found, known)
        return found

    def _begin(
        self,
        which: IndexArray,
        rewards: ArrayLike,
        behavior: ArrayLike | None,
        *,
        ending: bool = False,
    ) -> tuple[Outlooks, BoolArray, BoolArray]:
        """UNKNOWN outlooks to fill in, which runs are open, and which behavior so far is known."""
        earned = _per_agent(rewards, which.size, "rewards")
        told = None if behavior is None else _per_agent(behavior, which.size, "behavior")
        found = Outlooks.pending(which.size)
        times = found.t[:] = np.minimum(self._t[which], self._fitted.horizon)
        found.state[:] = State.UNKNOWN
        over = self._over[which]
        unbegun = (times == 0) & ~over & ending
        found.reason[over] = reasons.OVER
        found.reason[unbegun] = reasons.ENDED_UNBEGUN
        open_runs = ~over & ~unbegun
        here = np.flatnonzero(open_runs)
        if told is not None:
            self._tell(which[here], told[here])
        else:
            self._earn(which[here], times[here], earned[here])
            for k in np.flatnonzero(open_runs & (times == 0) & (earned != 0.0)):
                found.reason[k] = reasons.earned_early(float(earned[k]))
        lost = open_runs & (self._lost[which] != "")
        found.reason[lost] = self._lost[which[lost]]
        self._t[which[here]] += 1
        return found, open_runs, open_runs & (found.reason == "")

    def _tell(self, agents: IndexArray, behavior: FloatArray) -> None:
        """Take the behavior so far as it is told."""
        self._so_far[agents] = behavior
        self._lost[agents] = ""
        for k in np.flatnonzero(~np.isfinite(behavior)):
            self._lost[agents[k]] = reasons.bad_behavior(float(behavior[k]))

    def _earn(self, agents: IndexArray, times: IndexArray, earned: FloatArray) -> None:
        """Bring the behavior of each run up to its step."""
        rule = self._fitted.behavior
        moving = times > 0
        if isinstance(rule, Column):
            self._lost[agents[moving]] = reasons.not_told(rule)
            return
        finite = np.isfinite(earned)
        for k in np.flatnonzero(moving & ~finite):
            self._lost[agents[k]] = reasons.bad_reward(float(earned[k]), int(times[k]))
        good = np.flatnonzero(moving & finite)
        if isinstance(rule, Last):
            self._lost[agents[good]] = ""
        for t, at in _by_value(times[good]):
            rows = good[at]
            before = self._so_far[agents[rows]]
            with np.errstate(over="ignore", invalid="ignore"):
                self._so_far[agents[rows]] = rule.update(before, earned[rows], t - 1)
        piled_up = agents[good[~np.isfinite(self._so_far[agents[good]])]]
        self._lost[piled_up[self._lost[piled_up] == ""]] = reasons.BEHAVIOR_LOST

    def _close(self, which: IndexArray, found: Outlooks, closing: BoolArray) -> None:
        """Runs that end now: exactly 0 or 1."""
        here = np.flatnonzero(closing)
        outcomes = self._so_far[which[here]]
        met = self.target.contains(outcomes, self._fitted.grid)
        for field in found[1:6]:
            field[here] = met
        found.state[here] = State.DONE
        for k, inside, outcome in zip(here, met.tolist(), outcomes.tolist(), strict=True):
            found.reason[k] = reasons.ended(inside, outcome)

    def _read(
        self, states: FloatArray, known: BoolArray, rows: IndexArray, found: Outlooks
    ) -> BoolArray:
        """Which runs' readings are good; says what is wrong with the others."""
        bad = self._fitted.bad_readings(states)
        for k in np.flatnonzero(bad & known):
            found.reason[rows[k]] = self._fitted.bad_feature(states[k])
        return known & ~bad

    def _look(
        self, which: IndexArray, states: FloatArray, rows: IndexArray, found: Outlooks
    ) -> None:
        """The outlook of runs about which everything is known, and what it means for the alarm."""
        agents = which[rows]
        so_far = snap(self._so_far[agents], self._fitted.grid)
        numbers = self._lanes.outlooks(states[rows], so_far, found.t[rows], self._groups[agents])
        for field, values in zip(found[1:6], numbers.T, strict=True):
            field[rows] = values
        p = numbers[:, 1]
        self._run[agents] = np.where(p < self._threshold[agents], self._run[agents] + 1, 0)
        raised = self._run[agents] >= self._for_steps
        cleared = ~raised & (p >= self._clear[agents])
        alarmed = raised | (self._alarmed[agents] & ~cleared)
        self._alarmed[agents] = alarmed
        found.state[rows] = np.where(alarmed, State.ALARM, State.OK)
        thresholds = self._threshold[agents]
        for k in np.flatnonzero(alarmed):
            found.reason[rows[k]] = reasons.alarm(p[k], thresholds[k])

    def _which(self, agents: ArrayLike | None) -> IndexArray:
        if agents is None:
            return np.arange(self._n)
        given = np.asarray(agents)
        if given.size and given.dtype.kind not in "iu":
            raise InputError(
                f"agents need whole numbers, got {given.dtype}; np.flatnonzero makes them of a mask"
            )
        which = given.astype(np.intp)
        if which.ndim != 1 or (which.size and not 0 <= which.min() <= which.max() < self._n):
            raise InputError(f"agents need numbers from 0 to {self._n - 1}, got {which.tolist()}")
        if np.unique(which).size != which.size:
            raise InputError("agents need to differ: each takes one step per call")
        return which


def _per_agent(values: Any, n: int, what: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)):
        raise InputError(f"{what} need one number or one for each of {n} agents, got {array.shape}")
    return np.broadcast_to(array, (n,))


def _by_value(times: IndexArray) -> Iterator[tuple[int, IndexArray]]:
    """Each distinct step, and where it stands."""
    order = np.argsort(times, kind="stable")
    borders = np.flatnonzero(np.diff(times[order], prepend=-1, append=-1))
    for a, b in pairwise(borders.tolist()):
        yield int(times[order[a]]), order[a:b]
