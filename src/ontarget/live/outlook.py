"""What a monitor answers with: an outlook, and the state a watched run is in."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import BoolArray, FloatArray, IndexArray

__all__ = ["Change", "Outlook", "Outlooks", "State"]


class State(IntEnum):
    """The state of a watched run."""

    PENDING = 0
    OK = 1
    ALARM = 2
    UNKNOWN = 3
    DONE = 4

    def __str__(self) -> str:
        return self.name


class Outlook(NamedTuple):
    """What is known of one run at one step.

    Attributes
    ----------
    t
        The step.
    low, p, high
        The calibrated probability that the run ends inside the target, with its slack.
    plausibility
        Below δ, the target may be called ruled out, at any step, with an error rate of δ per run.
    assurance
        Above 1 − δ, the target may be called assured, likewise.
    n_calibration
        How many calibration episodes reach this step; 0 once the run is over.
    state
        PENDING, OK, ALARM, UNKNOWN or DONE.
    reason
        Why the state is what it is, where that needs saying.
    """

    t: int
    low: float
    p: float
    high: float
    plausibility: float
    assurance: float
    n_calibration: int
    state: State
    reason: str

    @property
    def alarm(self) -> bool:
        """Whether the run is in alarm."""
        return self.state is State.ALARM

    @property
    def known(self) -> bool:
        """Whether the numbers say anything."""
        return self.state not in (State.UNKNOWN, State.PENDING)


class Outlooks(NamedTuple):
    """What is known of many runs: one entry per run, with several targets (runs, targets).

    The fields are those of `Outlook`, ``state`` as numbers. Each run has a step and a reason of its
    own; where it is UNKNOWN its numbers are NaN.

    Examples
    --------
    >>> outlooks = Outlooks.pending(2)
    >>> outlooks.of(1).state
    <State.PENDING: 0>
    """

    t: IndexArray
    low: FloatArray
    p: FloatArray
    high: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    n_calibration: IndexArray
    state: NDArray[np.int8]
    reason: NDArray[np.object_]

    @classmethod
    def pending(cls, n: int) -> Outlooks:
        """The outlooks of n runs that have not begun."""
        low, p, high, plausibility, assurance = np.full((5, n), np.nan)
        return cls(
            t=np.zeros(n, dtype=np.intp),
            low=low,
            p=p,
            high=high,
            plausibility=plausibility,
            assurance=assurance,
            n_calibration=np.zeros(n, dtype=np.intp),
            state=np.full(n, State.PENDING, dtype=np.int8),
            reason=np.full(n, "", dtype=np.object_),
        )

    @property
    def alarm(self) -> BoolArray:
        """Which runs are in alarm."""
        found: BoolArray = self.state == State.ALARM
        return found

    @property
    def known(self) -> BoolArray:
        """Which runs' numbers say anything."""
        found: BoolArray = (self.state != State.UNKNOWN) & (self.state != State.PENDING)
        return found

    def of(self, run: int) -> Outlook:
        """One run's outlook, for one target."""
        return Outlook(
            t=int(self.t[run]),
            low=float(self.low[run]),
            p=float(self.p[run]),
            high=float(self.high[run]),
            plausibility=float(self.plausibility[run]),
            assurance=float(self.assurance[run]),
            n_calibration=int(self.n_calibration[run]),
            state=State(int(self.state[run])),
            reason=str(self.reason[run]),
        )

    def copy(self) -> Outlooks:
        """The same outlooks in arrays of their own."""
        return Outlooks._make(field.copy() for field in self)


class Change(NamedTuple):
    """A change of a watched run's state."""

    t: int
    state: State
    reason: str
