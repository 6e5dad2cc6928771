"""The outlooks of runs that go on side by side, each at a step of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontarget.monitor.state import Outlook, State
from ontarget.typing import BoolArray, FloatArray, IndexArray

__all__ = ["VectorOutlook"]


class VectorOutlook(NamedTuple):
    """What is known of each run, one entry per environment; the fields are those of `Outlook`.

    Examples
    --------
    >>> outlook = VectorOutlook.pending(2)
    >>> outlook.of(1).state
    <State.PENDING: 0>
    """

    t: IndexArray
    low: FloatArray
    p: FloatArray
    high: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    n_calibration: NDArray[np.intp]
    state: NDArray[np.int8]
    reason: NDArray[np.object_]

    @classmethod
    def pending(cls, n: int) -> VectorOutlook:
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
        found: BoolArray = ~np.isin(self.state, (State.UNKNOWN, State.PENDING))
        return found

    def of(self, index: int) -> Outlook:
        """One run's outlook."""
        return Outlook(
            t=int(self.t[index]),
            low=float(self.low[index]),
            p=float(self.p[index]),
            high=float(self.high[index]),
            plausibility=float(self.plausibility[index]),
            assurance=float(self.assurance[index]),
            n_calibration=int(self.n_calibration[index]),
            state=State(int(self.state[index])),
            reason=str(self.reason[index]),
        )

    def copy(self) -> VectorOutlook:
        """The same outlooks in arrays of their own."""
        return VectorOutlook._make(field.copy() for field in self)
