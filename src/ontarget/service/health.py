"""Whether a contract's probabilities still come true, by what its finished runs show."""

from __future__ import annotations

import time
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from ontarget.drift import DriftGuard
from ontarget.episodes import Episodes
from ontarget.errors import OntargetError
from ontarget.service._export import frame_of
from ontarget.service.contracts import Held
from ontarget.service.engine import QUARTERS
from ontarget.service.store import Store, StoredRun

__all__ = ["Bin", "Health", "HealthWatch"]

Verdict: TypeAlias = Literal["calibrated", "drifting", "too few runs"]

_ENOUGH: Final = 30  # finished runs before anything is said
_BINS: Final = 10
_PAGE: Final = 500
_LEVEL: Final = "0.99"
_GIVEN_UP: Final = 86_400.0  # seconds of silence after which nobody waits for a run's end


class Bin(msgspec.Struct, frozen=True):
    """Runs with about the same p, and how many of them met the target."""

    least: float
    runs: int
    mean_p: float
    met: int


class Health(msgspec.Struct, frozen=True):
    """How a contract's probabilities compare with what became of its runs.

    Attributes
    ----------
    verdict
        ``calibrated``, ``drifting``, or ``too few runs``.
    runs
        Finished runs without an intervention.
    met, false_alarms
        How many of those runs met their target, and how many of these had an alarm.
    bins
        The runs by their p at a quarter, half and three quarters of the horizon and at the start,
        each step's runs counted once.
    guarded
        Runs that the drift guard has counted, in the order in which they began.
    evidence
        The guard's evidence; while nothing changes, it ever reaches 100 in 1 service of 100.
    guard
        Why there is no guard; empty if there is one.
    """

    contract: str
    verdict: Verdict
    runs: int
    met: int
    false_alarms: int
    bins: list[Bin]
    guarded: int
    evidence: float
    guard: str = ""


class HealthWatch:
    """The health of one contract; finished runs are counted once, in the order they began.

    Parameters
    ----------
    store
        Where the runs are.
    held
        The contract.
    """

    def __init__(self, store: Store, held: Held) -> None:
        self._store = store
        self._held = held
        self._after = 0
        self._guard: DriftGuard | None = None
        self._trouble = ""
        try:
            self._guard = held.monitor.drift_guard(level=_LEVEL)
        except OntargetError as error:
            self._trouble = str(error)

    def health(self) -> Health:
        """The health now."""
        self._catch_up()
        marks, met, alarmed = self._finished()
        reading = None if self._guard is None else self._guard.reading
        drifting = reading is not None and reading.alarm
        few = met.size < _ENOUGH
        verdict: Verdict = "drifting" if drifting else "too few runs" if few else "calibrated"
        if verdict == "calibrated" and not _agrees(marks, met):
            verdict = "drifting"
        return Health(
            contract=self._held.label,
            verdict=verdict,
            runs=int(met.size),
            met=int(met.sum()),
            false_alarms=int((met * alarmed).sum()),
            bins=_bins(marks, met),
            guarded=0 if reading is None else reading.n,
            evidence=1.0 if reading is None else reading.evidence,
            guard=self._trouble,
        )

    def _finished(self) -> tuple[Any, Any, Any]:
        """P at each quarter, target met, and alarm raised, of runs that nobody stopped."""
        with self._store.database.read() as at:
            rows = at.rows(
                "SELECT marks, met, EXISTS (SELECT 1 FROM alarms a WHERE a.run = runs.number AND "
                "a.kind <> 'silent') FROM runs WHERE contract = ? AND met IS NOT NULL "
                "AND intervened_at IS NULL",
                (self._held.id,),
            )
        marks = [msgspec.msgpack.decode(bytes(row[0])) for row in rows]
        found = np.array(marks, dtype=np.float64).reshape(len(rows), QUARTERS)
        met, alarmed = (np.array([row[k] for row in rows], dtype=np.float64) for k in (1, 2))
        return found, met, alarmed

    def _catch_up(self) -> None:
        """Show the guard the runs that have ended, up to the first that has not."""
        while self._guard is not None:
            page = self._store.runs(after=self._after, limit=_PAGE, contract=self._held.id)
            ready: list[StoredRun] = []
            waits = False
            for run, _ in page:
                open_still = run.ended_at is None
                if open_still and time.time() - run.updated_at < _GIVEN_UP:
                    waits = True
                    break
                self._after = run.number
                if run.met is not None and run.intervened_at is None:
                    ready.append(run)
            self._observe(ready)
            if waits or len(page) < _PAGE:
                return

    def _observe(self, runs: list[StoredRun]) -> None:
        if not runs or self._guard is None:
            return
        fitted = self._held.monitor.fitted
        frame = frame_of(self._store, runs, fitted.schema.names)
        try:
            self._guard.observe(
                Episodes.from_frame(
                    frame, episode="episode", step="step", reward="reward", like=self._held.monitor
                )
            )
        except OntargetError as error:
            self._guard, self._trouble = None, str(error)


def _bins(marks: Any, met: Any) -> list[Bin]:
    known = ~np.isnan(marks)
    p = marks[known]
    hit = np.broadcast_to(met[:, None], marks.shape)[known]
    at = np.minimum((p * _BINS).astype(int), _BINS - 1)
    return [
        Bin(b / _BINS, int(here.sum()), float(p[here].mean()), int(hit[here].sum()))
        for b in range(_BINS)
        if (here := at == b).any()
    ]


def _agrees(marks: Any, met: Any) -> bool:
    """Whether at each quarter the mean of p lies within four standard errors of the share met."""
    for p in marks.T:
        known = ~np.isnan(p)
        if known.sum() >= _ENOUGH:
            off = met[known] - p[known]
            spread = np.sqrt(np.sum(p[known] * (1.0 - p[known])))
            if abs(off.sum()) > 4.0 * max(spread, 1.0):
                return False
    return True
