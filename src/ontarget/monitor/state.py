"""What a monitor answers with: an outlook, and the state a watched run is in."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontarget.typing import BoolArray, FloatArray

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
        How many calibration episodes stand behind the probability.
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
        return self.state is not State.UNKNOWN


class Outlooks(NamedTuple):
    """What is known of many runs at one step: one entry per run, or (runs, targets).

    The fields are those of `Outlook`; ``state`` holds its numbers, and where it is UNKNOWN the
    numbers are NaN and ``reason`` says why.
    """

    t: int
    low: FloatArray
    p: FloatArray
    high: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    n_calibration: NDArray[np.intp]
    state: NDArray[np.int8]
    reason: str

    @property
    def known(self) -> BoolArray:
        """Which runs' numbers say anything."""
        known: BoolArray = self.state != State.UNKNOWN
        return known


class Change(NamedTuple):
    """A change of a watched run's state."""

    t: int
    state: State
    reason: str
