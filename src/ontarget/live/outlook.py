"""`Outlook`, a monitor's answer about a run, and `Status`, the status of a watched run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import BoolArray, FloatArray, IndexArray


class Status(IntEnum):
    """The status of a watched run: PENDING, OK, ALARM, UNKNOWN or DONE.

    PENDING means that the run has no state yet. UNKNOWN means that the monitor cannot answer at
    this step. DONE means that the run is over. A run in alarm stays in ALARM while the monitor
    cannot answer.
    """

    PENDING = 0
    OK = 1
    ALARM = 2
    UNKNOWN = 3
    DONE = 4

    def __str__(self) -> str:
        return self.name


_STATUSES = tuple(Status)


class Outlook(NamedTuple):
    """A monitor's answer about one run at one step.

    Attributes
    ----------
    t
        The step.
    p
        The best estimate of the probability that the run ends inside the target. It is calibrated
        on the learning episodes, and nothing is promised about it.
    spread
        A range that contains p. It shows how much the limited number of assure episodes (held out
        for promises) leaves open. These episodes alone give another estimate of the probability,
        and the spread contains the 90 % confidence interval of that estimate: for at least 9 in 10
        sets of as many episodes, the spread contains what infinitely many of them would give
        (method M20 in docs/methods.md). The spread is not the error of p, because errors of the
        model are not included.
    low, high
        The bounds of the paper's method, for programs: the calibrated distribution, read at the
        ends of the target; an infinite end is exact, unlike in the paper (method M4). That
        distribution is valid on average over runs and over sets of assure episodes; nothing is
        promised about one particular target. p comes from other episodes, so p may be outside these
        bounds.
    plausibility
        Whether the target is still possible, from 0 to 1. You may call the target ruled out if this
        is at most a small number δ that you choose, such as 0.05. Then at most a share δ of all
        runs ever get such a call wrongly, over all steps and all targets together.
    assurance
        Whether the target is as good as certain, from 0 to 1. You may call the target assured if
        this is at least 1 − δ. The probability that a run ever gets a wrong call of either kind,
        ruled out or assured, is at most δ.
    n
        How many episodes the bounds and the spread are based on at this step; 0 after the end.
    status
        PENDING, OK, ALARM, UNKNOWN or DONE.
    reason
        The reason for the status, in words; empty if there is nothing to explain. It also says if p
        has nothing to learn from, because all learning runs met the target, or all missed it.
    """

    t: int
    p: float
    spread: tuple[float, float]
    low: float
    high: float
    plausibility: float
    assurance: float
    n: int
    status: Status
    reason: str

    @property
    def alarm(self) -> bool:
        """Whether the run is in alarm."""
        return self.status is Status.ALARM

    @property
    def known(self) -> bool:
        """Whether p and the other numbers are known; otherwise they are NaN."""
        return self.p == self.p

    @property
    def decided(self) -> bool:
        """Whether it is already certain if the target is met, so that p is exactly 0 or 1."""
        return self.spread[0] == self.spread[1]


@dataclass(frozen=True, eq=False)
class Outlooks:
    """A monitor's answers about many runs: arrays with one entry per run.

    The arrays have the names of the fields of `Outlook`. If several targets were asked about, the
    numbers are (runs, targets). ``status`` has the numbers of `Status`. Each run has its own step
    and reason. If the monitor cannot answer for a run, the numbers of that run are NaN.

    Examples
    --------
    >>> outlooks = Outlooks.pending(2)
    >>> outlooks.of(1).status
    <Status.PENDING: 0>
    """

    t: IndexArray
    p: FloatArray
    spread: FloatArray  # (..., 2)
    low: FloatArray
    high: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    n: IndexArray
    status: NDArray[np.int8]
    words: Callable[[int], str] = field(repr=False)  # the reason of a run, by its position

    @classmethod
    def pending(cls, n: int, words: Callable[[int], str] = lambda _: "") -> Outlooks:
        """The answers about n runs that have not begun yet: all with status PENDING."""
        p, low, high, plausibility, assurance = np.full((5, n), np.nan)
        return cls(
            t=np.zeros(n, dtype=np.intp),
            p=p,
            spread=np.full((n, 2), np.nan),
            low=low,
            high=high,
            plausibility=plausibility,
            assurance=assurance,
            n=np.zeros(n, dtype=np.intp),
            status=np.full(n, Status.PENDING, dtype=np.int8),
            words=words,
        )

    def __len__(self) -> int:
        return int(self.t.size)

    @property
    def reason(self) -> NDArray[np.object_]:
        """(runs,): the reason for each run's status, as text; empty if there is none."""
        return np.array([self.words(run) for run in range(len(self))], dtype=np.object_)

    @property
    def alarm(self) -> BoolArray:
        """(runs,): whether each run is in alarm."""
        found: BoolArray = self.status == Status.ALARM
        return found

    @property
    def known(self) -> BoolArray:
        """(runs,): whether p and the other numbers of each run are known (not NaN)."""
        found: BoolArray = ~np.isnan(self.p)
        return found

    @property
    def decided(self) -> BoolArray:
        """Whether it is already certain if the target is met, so that p is exactly 0 or 1."""
        found: BoolArray = self.spread[..., 0] == self.spread[..., 1]
        return found

    def of(self, run: int) -> Outlook:
        """The answer about one run, by its position; only if a single target was asked about."""
        return Outlook(
            t=int(self.t[run]),
            p=float(self.p[run]),
            spread=(float(self.spread[run, 0]), float(self.spread[run, 1])),
            low=float(self.low[run]),
            high=float(self.high[run]),
            plausibility=float(self.plausibility[run]),
            assurance=float(self.assurance[run]),
            n=int(self.n[run]),
            status=Status(int(self.status[run])),
            reason=self.words(run),
        )

    def each(self, spoken: BoolArray) -> Iterator[Outlook]:
        """The answers one by one, each with its reason where ``spoken`` is true."""
        columns: list[list[Any]] = [one.tolist() for one in (*self.arrays().values(), spoken)]
        for i, (*numbers, status, has_reason) in enumerate(zip(*columns, strict=True)):
            reason = self.words(i) if has_reason else ""
            yield Outlook._make((*numbers, _STATUSES[status], reason))

    def arrays(self) -> dict[str, Any]:
        """The arrays by name, without the reasons of the statuses."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "words"}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.arrays(), "words": self.reason.tolist().__getitem__}


class Change(NamedTuple):
    """A change of a watched run's status: the step, the new status, and the reason in words."""

    t: int
    status: Status
    reason: str
