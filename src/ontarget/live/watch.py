"""One run, live: an outlook at every step, in microseconds, and an alarm that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ontarget._typing import ArrayLike
from ontarget.episodes import Column, Last
from ontarget.errors import InputError, OntargetError
from ontarget.fitted._kernels import snap_value
from ontarget.fitted.fitted import Calibrated
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live import _reasons as reasons
from ontarget.live._lanes import Lanes
from ontarget.live.alarms import AlarmRule
from ontarget.live.outlook import Change, Outlook, State
from ontarget.target import Target

__all__ = ["OnBad", "Watch"]

OnBad = Literal["unknown", "raise"]
_NAN = math.nan


class Watch:
    """One watched run: `step` before each action, `end` if it ends early, `reset` for the next.

    Everything is opened, checked and compiled when the watch is made, never in `step`.

    Examples
    --------
    See `GoalMonitor.watch`.
    """

    def __init__(
        self,
        calibrated: Calibrated,
        target: Target,
        rule: AlarmRule,
        *,
        group: int = 0,
        calibration: TargetCalibration | None = None,
        on_bad: OnBad = "unknown",
    ) -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(f"on_bad needs 'unknown' or 'raise', got {on_bad!r}")
        self._calibrated = calibrated
        self._raises = on_bad == "raise"
        self._behavior = calibrated.behavior
        self._additive = calibrated.behavior.additive
        self.target = target
        self.rule = rule
        lanes = Lanes(calibrated, target, calibration)
        self._steps = [_LiveStep(calibrated, lanes, t, group) for t in range(calibrated.horizon)]
        self._offset, self._out = np.zeros(1), np.empty((1, 1, 5))
        self.reset()
        self._warm_up()

    def reset(self) -> None:
        """Begin a new run."""
        self._t = 0
        self._so_far = self._behavior.initial
        self._lost = ""
        self._run = 0
        self._alarmed = False
        self._ended = False
        self.changes: list[Change] = [Change(0, State.PENDING, "waiting for the first state")]

    @property
    def state(self) -> State:
        """The run's state now."""
        return self.changes[-1].state

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float = 0.0,
        *,
        behavior: float | None = None,
    ) -> Outlook:
        """The outlook before acting at this step; call k is step t = k.

        Parameters
        ----------
        state
            The features in order, or a mapping by name.
        reward
            What the last action earned, r_{t−1}: 0 at the first call.
        behavior
            The behavior so far, where it is read rather than summed; it also mends a lost sum.
        """
        t = self._t
        horizon = len(self._steps)
        if self._ended or t > horizon:
            return self._unknown(min(t, horizon), reasons.OVER)
        self._t = t + 1
        trouble = self._account(t, reward, behavior)
        if t == horizon:
            return self._close(t, trouble)
        live = self._steps[t]
        if not trouble:
            trouble = live.read(state, self._so_far)
        if trouble:
            self._run = 0
            return self._unknown(t, trouble, n=live.n)
        if live.unknown:
            return self._unknown(t, live.unknown, n=live.n, structural=True)
        if self._additive:
            self._offset[0] = self._so_far
        live.lane.answer(live.row, self._offset, live.span, self._out)
        low, p, high, plausibility, assurance = self._out[0, 0].tolist()
        now, reason = self._judge(p)
        if now is not self.changes[-1].state:
            self.changes.append(Change(t, now, reason))
        return Outlook(t, low, p, high, plausibility, assurance, live.n, now, reason)

    def end(self, reward: float = 0.0, *, behavior: float | None = None) -> Outlook:
        """Close a run that ended before the horizon: DONE, with p exactly 0 or 1."""
        t = self._t
        if self._ended or t > len(self._steps):
            return self._unknown(min(t, len(self._steps)), reasons.OVER)
        if t == 0:
            return self._unknown(0, reasons.ENDED_UNBEGUN)
        self._t = t + 1
        return self._close(t, self._account(t, reward, behavior))

    def _account(self, t: int, reward: float, behavior: float | None) -> str:
        """Bring the behavior up to t; what is wrong with it, if anything."""
        if behavior is not None:
            self._so_far = _number(behavior)
            self._lost = "" if math.isfinite(self._so_far) else reasons.bad_behavior(behavior)
        elif t == 0:
            if _number(reward) != 0.0:
                return reasons.earned_early(reward)
        elif isinstance(self._behavior, Column):
            self._lost = reasons.not_told(self._behavior)
        else:
            earned = _number(reward)
            if not math.isfinite(earned):
                self._lost = reasons.bad_reward(reward, t)
                return self._lost
            if isinstance(self._behavior, Last):
                self._lost = ""
            self._so_far = float(self._behavior.update(self._so_far, earned, t - 1))
            if not (self._lost or math.isfinite(self._so_far)):
                self._lost = reasons.BEHAVIOR_LOST  # finite rewards may add up to infinity
        return self._lost

    def _judge(self, p: float) -> tuple[State, str]:
        rule = self.rule
        self._run = self._run + 1 if p < rule.threshold else 0
        if self._run >= rule.for_steps:
            self._alarmed = True
        elif self._alarmed and p >= rule.clear_at:
            self._alarmed = False
        if self._alarmed:
            return State.ALARM, reasons.alarm(p, rule.threshold)
        return State.OK, ""

    def _close(self, t: int, trouble: str) -> Outlook:
        self._ended = True
        if trouble or not math.isfinite(self._so_far):
            return self._unknown(t, trouble or reasons.BEHAVIOR_LOST)
        met = bool(self.target.contains(self._so_far, self._calibrated.grid))
        reason = reasons.ended(met, self._so_far)
        self.changes.append(Change(t, State.DONE, reason))
        p = float(met)
        return Outlook(t, p, p, p, p, p, 0, State.DONE, reason)

    def _unknown(self, t: int, reason: str, *, n: int = 0, structural: bool = False) -> Outlook:
        if self._raises and not structural:
            raise InputError(f"step {t}: {reason}")
        if self.changes[-1].state is not State.UNKNOWN:
            self.changes.append(Change(t, State.UNKNOWN, reason))
        return Outlook(t, _NAN, _NAN, _NAN, _NAN, _NAN, n, State.UNKNOWN, reason)

    def _warm_up(self) -> None:
        """Compile every kernel that `step` runs."""
        snap_value(0.0, self._calibrated.grid_table)
        for live in self._steps:
            if not live.unknown:
                live.lane.answer(live.row, self._offset, live.span, self._out)


class _LiveStep:
    """One step of a watched run: its lane, and a row to fill."""

    __slots__ = ("_calibrated", "_grid", "_width", "lane", "n", "row", "span", "unknown")

    def __init__(self, calibrated: Calibrated, lanes: Lanes, t: int, group: int) -> None:
        self.lane = lanes.at(t)
        self.span = lanes.spans[t, group : group + 1]
        self.n = int(lanes.n_calibration[t, group])
        self.unknown: str = lanes.unknown[t, group]
        self._calibrated = calibrated
        self._width = len(calibrated.schema)
        self._grid = None if calibrated.behavior.additive else calibrated.grid_table
        self.row = np.zeros((1, self._width + (self._grid is not None) + self.lane.pooled))
        if self.lane.pooled:
            self.row[0, -1] = float(t)

    def read(self, state: Any, behavior: float) -> str:
        """Fill the row; what is wrong with the reading, if anything."""
        values = self.row[0, : self._width]
        try:
            if isinstance(state, np.ndarray) and state.shape == values.shape:
                values[:] = state
            else:
                values[:] = self._calibrated.schema.encode(state)
        except (OntargetError, TypeError, ValueError, OverflowError) as error:
            return str(error)
        # Not the sum: opposite infinities would warn, and so would large numbers.
        if not np.isfinite(values).all():
            trouble = self._calibrated.bad_feature(values)
            if trouble:
                return trouble
        if self._grid is not None:
            self.row[0, self._width] = snap_value(behavior, self._grid)
        return ""


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # whatever float() takes
    except (TypeError, ValueError, OverflowError):
        return _NAN
