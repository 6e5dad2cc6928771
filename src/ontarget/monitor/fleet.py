"""Many runs, live, in one call: a watch over a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ontarget.arguments import whole_number
from ontarget.episodes import Column, Last
from ontarget.errors import InputError
from ontarget.grid import snap
from ontarget.monitor.alarm import AlarmRule
from ontarget.monitor.calibrated import Calibrated, ends_with_complements
from ontarget.monitor.outlooks import outlooks_at
from ontarget.monitor.state import Outlooks, State
from ontarget.target import Target
from ontarget.typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray

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
    """

    def __init__(
        self,
        fitted: Calibrated,
        target: Target,
        rules: Sequence[AlarmRule],
        agents: int,
        *,
        groups: IndexArray,
    ) -> None:
        self._fitted = fitted
        self._ends = ends_with_complements(target, fitted.grid)
        self.target = target
        self.rules = tuple(rules)
        self._n = whole_number("agents", agents, least=1)
        self._groups = groups
        self._threshold = np.array([rule.threshold for rule in rules])[groups]
        self._clear = np.array([rule.clear_at for rule in rules])[groups]
        self._for_steps = rules[0].for_steps
        self._t = np.zeros(self._n, dtype=np.intp)
        self._so_far = np.empty(self._n)
        self._lost = np.zeros(self._n, dtype=np.bool_)
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
        for flags in (self._lost, self._alarmed, self._over):
            flags[which] = False

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
        times = self._t[which]
        open_runs = ~self._over[which] & (times <= self._fitted.horizon)
        trouble = self._account(which, times, open_runs, rewards, behavior)
        numbers = np.full((5, which.size), np.nan)
        n_calibration = np.zeros(which.size, dtype=np.intp)
        state = np.full(which.size, State.UNKNOWN, dtype=np.int8)
        ready = open_runs & ~trouble
        structural = np.zeros(which.size, dtype=np.bool_)
        so_far = snap(self._so_far[which], self._fitted.grid)
        for t in np.unique(times[ready]):
            rows = np.flatnonzero(ready & (times == t))
            found = outlooks_at(
                self._fitted,
                int(t),
                X[rows],
                so_far[rows],
                self.target,
                self._groups[which[rows]],
                ends=self._ends,
            )
            numbers[:, rows] = found[1:6]
            n_calibration[rows] = found.n_calibration
            state[rows] = found.state
            structural[rows] = ~found.known & ~self._bad(int(t), X[rows])
        self._judge(which, numbers[1], state)
        self._run[which[(state == State.UNKNOWN) & ~structural]] = 0
        self._over[which[state == State.DONE]] = True
        self._over[which[open_runs & (times == self._fitted.horizon)]] = True
        self._t[which[open_runs]] += 1
        low, p, high, plausibility, assurance = numbers
        # Agents stand at different steps, so the outlook's step is the latest of them.
        latest = int(times.max(initial=0))
        return Outlooks(latest, low, p, high, plausibility, assurance, n_calibration, state, "")

    def end(
        self,
        rewards: ArrayLike = 0.0,
        *,
        agents: ArrayLike | None = None,
        behavior: ArrayLike | None = None,
    ) -> Outlooks:
        """Close runs that ended before the horizon: DONE, with p exactly 0 or 1."""
        which = self._which(agents)
        times = self._t[which]
        open_runs = ~self._over[which] & (times >= 1) & (times <= self._fitted.horizon)
        trouble = self._account(which, times, open_runs, rewards, behavior)
        known = open_runs & ~trouble & np.isfinite(self._so_far[which])
        met = self.target.contains(self._so_far[which], self._fitted.grid)
        p = np.where(known, met.astype(np.float64), np.nan)
        state = np.where(known, State.DONE, State.UNKNOWN).astype(np.int8)
        self._over[which[open_runs]] = True
        zeros = np.zeros(which.size, dtype=np.intp)
        return Outlooks(int(times.max(initial=0)), p, p, p, p, p, zeros, state, "")

    def _which(self, agents: ArrayLike | None) -> IndexArray:
        if agents is None:
            return np.arange(self._n)
        which = np.asarray(agents, dtype=np.intp)
        if which.ndim != 1 or (which.size and not 0 <= which.min() <= which.max() < self._n):
            raise InputError(f"agents need numbers from 0 to {self._n - 1}, got {which.tolist()}")
        if np.unique(which).size != which.size:
            raise InputError("agents need to differ: each takes one step per call")
        return which

    def _account(
        self,
        which: IndexArray,
        times: IndexArray,
        open_runs: BoolArray,
        rewards: ArrayLike,
        behavior: ArrayLike | None,
    ) -> BoolArray:
        """Bring each run's behavior up to its step; whose is unknown."""
        rule = self._fitted.behavior
        n = which.size
        earned = _per_agent(rewards, n, "rewards")
        if behavior is not None:
            given = _per_agent(behavior, n, "behavior")
            self._so_far[which[open_runs]] = given[open_runs]
            self._lost[which[open_runs]] = ~np.isfinite(given[open_runs])
            lost: BoolArray = self._lost[which]
            return lost
        moving = open_runs & (times > 0)
        finite = np.isfinite(earned) & (not isinstance(rule, Column))
        self._lost[which[moving & ~finite]] = True
        if isinstance(rule, Last):
            self._lost[which[moving & finite]] = False
        for t in np.unique(times[moving & finite]):
            now = moving & finite & (times == t)
            rows = which[now]
            self._so_far[rows] = rule.update(self._so_far[rows], earned[now], int(t) - 1)
        early: BoolArray = (times == 0) & (earned != 0.0)
        return np.logical_or(self._lost[which], early)

    def _judge(self, which: IndexArray, p: FloatArray, state: AnyArray) -> None:
        """Alarm, go on or clear, as `Watch` does; writes the state of those that are OK."""
        known = state == State.OK
        rows, now = which[known], p[known]
        below = now < self._threshold[rows]
        self._run[rows] = np.where(below, self._run[rows] + 1, 0)
        raised = self._run[rows] >= self._for_steps
        cleared = ~raised & (now >= self._clear[rows])
        self._alarmed[rows] = raised | (self._alarmed[rows] & ~cleared)
        state[known] = np.where(self._alarmed[rows], State.ALARM, State.OK)

    def _bad(self, t: int, states: FloatArray) -> BoolArray:
        if t == self._fitted.horizon:
            return np.zeros(len(states), dtype=np.bool_)
        return self._fitted.bad_readings(states)


def _per_agent(values: Any, n: int, what: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)):
        raise InputError(f"{what} need one number or one for each of {n} agents, got {array.shape}")
    return np.broadcast_to(array, (n,))
