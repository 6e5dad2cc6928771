"""Watches the runs of a vector environment, and keeps the monitor's latest answer for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from ontarget._typing import BoolArray, FloatArray
from ontarget.episodes.judged import Judged
from ontarget.errors import InputError
from ontarget.goal import Goal
from ontarget.integrations.environments import gone_past, too_short, warn_of_limit
from ontarget.live.outlook import Outlooks, Status
from ontarget.live.reasons import OVER
from ontarget.live.rules import AlarmOptions
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

_NUMBERS = ("p", "spread", "low", "high", "plausibility", "assurance")


class FleetOptions(AlarmOptions, total=False):
    """The options of `GoalMonitor.fleet`."""

    groups: Any


class FleetRuns:
    """Watched runs, one for each slot (environment) of a vector.

    `outlook` has the monitor's latest answer about each run.
    """

    def __init__(
        self,
        monitor: GoalMonitor,
        target: Target | Goal | None,
        slots: int,
        *,
        limit: int | None,
        **options: Unpack[FleetOptions],
    ) -> None:
        fitted, readings = monitor.contracts.fitted, monitor.readings
        self.signals: tuple[str, ...] = Judged(readings).columns if readings else ()
        if fitted.behavior.told and not readings:
            raise InputError(
                f"this monitor's behavior {fitted.behavior.spec!r} is not computed from rewards; "
                "watch each environment with its own GoalWrapper, and pass behavior_value"
            )
        self._fitted = fitted
        # The signals of a run come by name.
        self._by_name = bool(readings)
        self._fleet: Any = monitor.fleet(target, slots, **options)
        self._too_short = too_short(limit, fitted.horizon)
        warn_of_limit(limit, fitted.horizon, declared=fitted.horizon_declared, stacklevel=3)
        self._t = np.zeros(slots, dtype=np.intp)
        self._over = np.ones(slots, dtype=np.bool_)
        self._alarmed = np.zeros(slots, dtype=np.bool_)
        self._outlook = Outlooks.pending(slots)
        self._reasons = [""] * slots
        self.raised: BoolArray = np.zeros(slots, dtype=np.bool_)

    @property
    def outlook(self) -> Outlooks:
        """The monitor's latest answer about each run (`Outlooks`)."""
        arrays = {name: array.copy() for name, array in self._outlook.arrays().items()}
        return Outlooks(**arrays, words=list(self._reasons).__getitem__)

    def begin(self, mask: BoolArray, states: FloatArray) -> None:
        """Begin runs in the slots (environments) where ``mask`` is true."""
        which = np.flatnonzero(mask)
        self.raised = np.zeros_like(self.raised)
        if not which.size:
            return
        self._t[which], self._over[which], self._alarmed[which] = 0, False, False
        self._fleet.reset(which)
        self._look(mask, states, 0.0)

    def step(
        self,
        moved: BoolArray,
        states: FloatArray,
        rewards: FloatArray,
        *,
        terminated: BoolArray,
        truncated: BoolArray,
        infos: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Advance the runs in the slots (environments) of ``moved`` by one step; others stay."""
        horizon, declared = self._fitted.horizon, self._fitted.horizon_declared
        terminated = np.asarray(terminated, dtype=np.bool_)
        truncated = np.asarray(truncated, dtype=np.bool_)
        self._t[moved] += 1
        t = self._t
        self.raised = np.zeros_like(self.raised)
        over = moved & self._over
        past = moved & ~over & (t > horizon) & declared
        here = moved & ~over & ~past
        closing = here & (terminated | ((t == horizon) & (declared | truncated)))
        cut = here & ~closing & truncated
        going = here & ~closing & ~cut
        self._forget(over, OVER)
        self._forget(past, gone_past(horizon))
        for over_now, was_cut in ((closing, False), (cut, True)):
            if over_now.any():
                which = np.flatnonzero(over_now)
                earned = self._brought(over_now, rewards, infos)
                self._note(over_now, self._fleet.end(earned, agents=which, truncated=was_cut))
        if going.any():
            self._look(going, states, self._brought(going, rewards, infos))
        self._over |= moved & (terminated | truncated)

    def intervene(self, slots: Iterable[int]) -> None:
        """Mark the runs in these slots (environments) as taken over; see `Watch.intervene`."""
        which = np.array(sorted(slots), dtype=np.intp)
        mask = np.zeros_like(self._over)
        mask[which] = True
        found = self._fleet.intervene(which.tolist())
        if not self._too_short:
            self._note(mask, found)

    def _brought(
        self, mask: BoolArray, rewards: FloatArray, infos: Sequence[Mapping[str, Any]]
    ) -> Any:
        """The rewards of the environments in ``mask``, as the fleet takes them."""
        if not self._by_name:
            return rewards[mask]
        return [
            {"reward": float(rewards[i])}
            | {name: infos[i][name] for name in self.signals if name in infos[i]}
            for i in np.flatnonzero(mask).tolist()
        ]

    def _look(self, mask: BoolArray, states: FloatArray, rewards: Any) -> None:
        found = self._fleet.step(states[mask], rewards, agents=np.flatnonzero(mask))
        if self._too_short:
            self._forget(mask, self._too_short)
        else:
            self._note(mask, found)

    def _note(self, mask: BoolArray, found: Outlooks) -> None:
        """Store the monitor's answers about environments in ``mask``, and which alarms are new."""
        now = self._outlook
        for name, values in found.arrays().items():
            getattr(now, name)[mask] = values
        for place, slot in enumerate(np.flatnonzero(mask).tolist()):
            self._reasons[slot] = found.words(place)
        now.t[mask] = self._t[mask]
        self.raised |= mask & now.alarm & ~self._alarmed
        self._alarmed[mask] = now.alarm[mask]

    def _forget(self, mask: BoolArray, reason: str) -> None:
        now = self._outlook
        for name in _NUMBERS:
            getattr(now, name)[mask] = np.nan
        now.t[mask], now.n[mask], now.status[mask] = self._t[mask], 0, Status.UNKNOWN
        for slot in np.flatnonzero(mask).tolist():
            self._reasons[slot] = reason
