"""One run, live: an outlook at every step, in microseconds, and an alarm that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ontarget.episodes import Column, Last
from ontarget.errors import InputError, OntargetError
from ontarget.monitor.alarm import AlarmRule
from ontarget.monitor.calibrated import Calibrated, ends_with_complements
from ontarget.monitor.kernels import outlook_of_row, shift_ends, snap_value
from ontarget.monitor.state import Change, Outlook, State
from ontarget.target import Target
from ontarget.typing import ArrayLike, FloatArray

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
        ends = ends_with_complements(target, calibrated.grid)
        m = ends.values.size
        self._values = _frozen(ends.values)
        self._columns, self._first = _frozen(np.stack(ends.columns())), _frozen(ends.first)
        self._limits = np.empty(2 * m + 2)
        self._limits[2 * m :] = -math.inf, math.inf
        self._left, self._right = self._limits[:m], self._limits[m : 2 * m]
        self._ends = np.empty(m)
        self._out = np.empty((1, 5))
        self._excess = calibrated.sorted_excess[group]
        self._grid = calibrated.grid_table
        self._width = len(calibrated.schema)
        self._steps = [_LiveStep(calibrated, t, group) for t in range(calibrated.horizon)]
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
            return self._unknown(min(t, horizon), "the run is over; reset begins another")
        self._t = t + 1
        trouble = self._account(t, reward, behavior)
        if t == horizon:
            return self._close(t, trouble)
        live = self._steps[t]
        if not trouble:
            trouble = live.read(state, self._so_far, self._additive, self._grid)
        if trouble:
            self._run = 0
            return self._unknown(t, trouble)
        if live.unknown:
            return self._unknown(t, live.unknown, structural=True)
        shift_ends(self._values, self._so_far if self._additive else 0.0, self._grid, self._ends)
        live.limits(live.row, self._ends, self._left, self._right)
        outlook_of_row(
            live.ranks, self._excess, self._limits, self._columns, self._first, self._out
        )
        low, p, high, plausibility, assurance = self._out[0].tolist()
        now, reason = self._judge(p)
        if now is not self.changes[-1].state:
            self.changes.append(Change(t, now, reason))
        return Outlook(t, low, p, high, plausibility, assurance, live.n, now, reason)

    def end(self, reward: float = 0.0, *, behavior: float | None = None) -> Outlook:
        """Close a run that ended before the horizon: DONE, with p exactly 0 or 1."""
        t = self._t
        if self._ended or t > len(self._steps):
            return self._unknown(min(t, len(self._steps)), "the run is over; reset begins another")
        if t == 0:
            return self._unknown(0, "the run ended before its first step")
        self._t = t + 1
        return self._close(t, self._account(t, reward, behavior))

    def _account(self, t: int, reward: float, behavior: float | None) -> str:
        """Bring the behavior up to t; what is wrong with it, if anything."""
        if behavior is not None:
            value = _number(behavior)
            self._lost = (
                "" if math.isfinite(value) else f"behavior needs a number, got {behavior!r}"
            )
            self._so_far = value
        elif t == 0:
            if reward != 0.0:
                return f"nothing is earned before the first step, got reward {reward!r}"
        elif isinstance(self._behavior, Column):
            self._lost = f"behavior {self._behavior.spec!r} is read, not summed: pass behavior="
        else:
            earned = _number(reward)
            if not math.isfinite(earned):
                self._lost = f"reward needs a number, got {reward!r} at step {t}"
            elif isinstance(self._behavior, Last):
                self._lost = ""
            self._so_far = float(self._behavior.update(self._so_far, earned, t - 1))
        return self._lost

    def _judge(self, p: float) -> tuple[State, str]:
        rule = self.rule
        self._run = self._run + 1 if p < rule.threshold else 0
        if self._run >= rule.for_steps:
            self._alarmed = True
        elif self._alarmed and p >= rule.clear_at:
            self._alarmed = False
        if self._alarmed:
            return State.ALARM, f"p = {p:.3g}, alarm below {rule.threshold:.3g}"
        return State.OK, ""

    def _close(self, t: int, trouble: str) -> Outlook:
        self._ended = True
        if trouble or not math.isfinite(self._so_far):
            return self._unknown(t, trouble or "the behavior at the end is unknown")
        met = bool(self.target.contains(self._so_far, self._calibrated.grid))
        reason = f"ended {'inside' if met else 'outside'} the target at {self._so_far:.6g}"
        self.changes.append(Change(t, State.DONE, reason))
        p = float(met)
        return Outlook(t, p, p, p, p, p, 0, State.DONE, reason)

    def _unknown(self, t: int, reason: str, *, structural: bool = False) -> Outlook:
        if self._raises and not structural:
            raise InputError(f"step {t}: {reason}")
        if self.changes[-1].state is not State.UNKNOWN:
            self.changes.append(Change(t, State.UNKNOWN, reason))
        return Outlook(t, _NAN, _NAN, _NAN, _NAN, _NAN, 0, State.UNKNOWN, reason)

    def _warm_up(self) -> None:
        """Compile every kernel that `step` runs."""
        for live in self._steps:
            if not live.unknown:
                live.limits(live.row, self._values, self._left, self._right)
        shift_ends(self._values, 0.0, self._grid, self._ends)
        snap_value(0.0, self._grid)
        ranks = self._steps[0].ranks
        outlook_of_row(ranks, self._excess, self._limits, self._columns, self._first, self._out)


class _LiveStep:
    """One step of a watched run: its model's live entry, its ranks, and a row to fill."""

    __slots__ = ("_bad_if_nan", "_schema", "_width", "limits", "n", "ranks", "row", "t", "unknown")

    def __init__(self, calibrated: Calibrated, t: int, group: int) -> None:
        step = calibrated.at(t, group)
        self.t = t
        self.ranks = step.ranks.values
        self.n = step.ranks.n
        self.unknown = calibrated.unknown(step)
        self._schema = calibrated.schema
        self._width = len(calibrated.schema)
        self._bad_if_nan = ~calibrated.may_miss
        width = self._width + (not step.additive) + step.pooled
        self.row = np.zeros(width)
        if step.pooled:
            self.row[-1] = float(t)
        if step.model is not None:
            self.limits = step.live()

    def read(self, state: Any, behavior: float, additive: bool, grid: FloatArray) -> str:
        """Fill the row; what is wrong with the reading, if anything."""
        width = self._width
        try:
            if isinstance(state, np.ndarray) and state.shape == (width,):
                self.row[:width] = state
            else:
                self.row[:width] = self._schema.encode(state)
        except (OntargetError, TypeError, ValueError, OverflowError) as error:
            return str(error)
        if not np.isfinite(self.row[:width].sum()):
            trouble = self._missing()
            if trouble:
                return trouble
        if not additive:
            self.row[width] = snap_value(behavior, grid)
        return ""

    def _missing(self) -> str:
        values = self.row[: self._width]
        bad = np.isinf(values) | (np.isnan(values) & self._bad_if_nan)
        if not bad.any():
            return ""
        j = int(np.argmax(bad))
        name = self._schema.names[j]
        if np.isnan(values[j]):
            return f"feature {name!r} is missing, and it never was in training"
        return f"feature {name!r} needs a number, got {values[j]}"


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # whatever float() takes
    except (TypeError, ValueError, OverflowError):
        return _NAN


def _frozen(array: Any) -> Any:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
