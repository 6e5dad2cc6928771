"""Whether a contract's probabilities still match how often its finished runs met the target.

The verdict comes from two guards (statistical tests for a change) that stay valid however often you
look; see methods M10 and M26 in docs/methods.md. The counts are for information only.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from ontarget.drift import DriftGuard
from ontarget.errors import OntargetError
from ontarget.service.engine import QUARTERS
from ontarget.service.held import Held
from ontarget.service.messages import Answer
from ontarget.service.recorded import Renewal, read_runs, renewal
from ontarget.service.store import Run, Store
from ontarget.target import Target

Verdict: TypeAlias = Literal["calibrated", "drifting", "too few runs", "closed"]

_ENOUGH: Final = 30  # finished runs before anything is said
_BINS: Final = 10
_PAGE: Final = 500
_LEVEL: Final = "0.995"  # of each of two guards: together at most 1 false alarm in 100 services
_LATEST: Final = 1_000  # steps that are looked at for missing answers, among so many events
_LOOKED_AT: Final = 20_000
_MOST_REASONS: Final = 5
_NUMBER: Final = re.compile(r"(?<!\w)-?\d[\d.,]*")  # not the 1 of a feature x1
_IN_ALARM: Final = re.compile(r"^in alarm since step \d+; ")
_GIVEN_UP: Final = 86_400.0  # seconds of silence after which nobody waits for a run's end


class Bin(msgspec.Struct, frozen=True):
    """A range of p: how many answers had a p in it, and how many of these runs met the target."""

    least: float
    runs: int
    mean_p: float
    met: int


class Unknown(msgspec.Struct, frozen=True):
    """Readings of one feature that are of categories that no recorded run had.

    ``values`` has the most frequent of these categories, each with its number of readings.
    """

    feature: str
    readings: int
    values: dict[str, int]


class NoAnswer(msgspec.Struct, frozen=True):
    """How many of the latest steps got no answer (p is null), and why.

    Attributes
    ----------
    steps, of
        How many of the latest ``of`` steps got no answer; there are up to 1,000 of these.
    reasons
        The reasons, the most frequent first, each with its number of steps. Reasons that differ in
        numbers alone are counted together, and the latest of them is shown.
    """

    steps: int = 0
    of: int = 0
    reasons: dict[str, int] = {}


class Health(msgspec.Struct, frozen=True):
    """How well the probabilities of a contract come true in its runs.

    A contract is a monitor, a target and an alarm rule.

    Attributes
    ----------
    verdict
        ``calibrated``, ``drifting``, ``too few runs``, or ``closed``.
    runs
        How many runs have finished and were not taken over by somebody.
    met, false_alarms
        ``met``: how many of these runs met their target. ``false_alarms``: how many of the runs
        that met it had an alarm.
    cut_off
        How many runs were cut off or taken over by somebody, so that their outcome is unknown.
    bins
        Answers, divided by their p. Each run gives up to four answers: at its start and at a
        quarter, half and three quarters of the horizon. ``runs`` of a bin is the number of its
        answers.
    guarded
        How many runs the drift guard (the test for any change) has compared so far, in the order in
        which they began.
    waits_for
        The agent whose run began before the ended runs that are not compared yet, and is still
        open; empty if no ended run has to wait.
    evidence
        The evidence that runs have changed in any way. It is the money of a gambler who began with
        1 and bets on a change. The verdict is ``drifting`` as soon as it has reached ``limit``.
    harm
        The evidence that p has become too high, measured in the same way.
    limit
        The limit for both kinds of evidence. If nothing changes, each kind ever reaches its limit
        in at most 1 of 200 services, however often you look.
    drifted_at
        When one of the two kinds of evidence reached its limit, in seconds since 1970. Recalibrate
        on runs that began later.
    guard
        Why runs cannot be tested for a change; empty if they are tested.
    unknown_categories
        Readings of categories that no recorded run had and that therefore count as missing, since
        the service began.
    renewal
        How many runs a recalibration could use now; None unless the verdict is ``drifting``.
    unanswered
        How many of the latest steps got no answer, and why.
    one_sided
        Why p has nothing to learn from, whatever the verdict: all learning runs met the target, or
        all missed it. Empty if both kinds were recorded.
    closed
        Why the contract takes no steps: this version of ontarget cannot load its model. Empty if it
        takes steps.
    """

    contract: str
    verdict: Verdict
    runs: int
    met: int
    false_alarms: int
    bins: list[Bin]
    guarded: int
    evidence: float
    harm: float
    limit: float
    cut_off: int = 0
    drifted_at: float | None = None
    guard: str = ""
    renewal: Renewal | None = None
    waits_for: str = ""
    unknown_categories: list[Unknown] = []
    unanswered: NoAnswer = NoAnswer()
    one_sided: str = ""
    closed: str = ""


class HealthWatch:
    """Computes how well one contract's probabilities come true.

    Each finished run is counted once, in the order in which the runs began.

    Parameters
    ----------
    store
        The store (database) that has the runs.
    held
        The contract.
    """

    def __init__(self, store: Store, held: Held) -> None:
        self._store = store
        self._held = held
        self._after = 0
        self._guards: list[DriftGuard] = []
        self._trouble = ""
        self._last_end = 0.0  # of the runs that the guards have counted
        self._open = ""  # the agent of the first open run, at which the guards stop
        self.drifted_at: float | None = None
        spec = held.spec
        try:
            monitor = held.monitor
            guard = monitor.drift_guard(level=_LEVEL)
            target = Target.parse(spec.target)
            harm = monitor.harm_guard(target, level=_LEVEL, calibration=spec.calibration)
            self._guards = [guard, harm]
        except OntargetError as error:
            self._trouble = str(error)

    def health(self) -> Health:
        """How well the contract's probabilities came true in all runs finished by now."""
        self._catch_up()
        marks, met, alarmed, cut_off = self._finished()
        verdict: Verdict = "too few runs" if met.size < _ENOUGH else "calibrated"
        if self._held.closed:
            verdict = "closed"
        elif self.drifted_at is not None:
            verdict = "drifting"
        readings = [guard.reading for guard in self._guards]
        waiting = bool(readings) and met.size > readings[0].n
        return Health(
            contract=self._held.label,
            verdict=verdict,
            runs=int(met.size),
            met=int(met.sum()),
            false_alarms=int((met * alarmed).sum()),
            bins=_bins(marks, met),
            guarded=readings[0].n if readings else 0,
            evidence=readings[0].evidence if readings else 1.0,
            harm=readings[1].evidence if readings else 1.0,
            limit=1.0 / (1.0 - float(_LEVEL)),
            cut_off=cut_off,
            drifted_at=self.drifted_at,
            guard=self._trouble,
            renewal=self._renewal(),
            waits_for=self._open if waiting else "",
            unknown_categories=[Unknown(**one.to_json()) for one in self._held.strangers.found],
            unanswered=self._unanswered(),
            one_sided=self._held.one_sided,
            closed=self._held.closed,
        )

    def _unanswered(self) -> NoAnswer:
        """How many of the latest steps of this contract got no answer, and why."""
        since = self._store.newest_event() - _LOOKED_AT  # an old version may have none among these
        with self._store.database.read() as at:
            rows = at.rows(
                "SELECT s.answer FROM steps s JOIN runs r ON r.number = s.run "
                "WHERE s.id > ? AND r.contract = ? ORDER BY s.id DESC LIMIT ?",
                (since, self._held.id, _LATEST),
            )
        answers = [msgspec.json.decode(bytes(row[0]), type=Answer) for row in rows]
        asked = [one for one in answers if not one.end]  # the last message asks for no forecast
        counts: Counter[str] = Counter()
        shown: dict[str, str] = {}
        for one in asked:
            if one.p is None:
                reason = _IN_ALARM.sub("", one.reason)
                kind = _NUMBER.sub("#", reason)
                counts[kind] += 1
                shown.setdefault(kind, reason)
        often = counts.most_common(_MOST_REASONS)
        return NoAnswer(counts.total(), len(asked), {shown[kind]: n for kind, n in often})

    def _renewal(self) -> Renewal | None:
        if self.drifted_at is None:
            return None
        since = max(self._held.created_at, self.drifted_at)
        return renewal(self._store, self._held, since=since)

    def _finished(self) -> tuple[Any, Any, Any, int]:
        """The finished runs as three arrays with a row per run, and how many runs were left out.

        The arrays are: p at the start and at each quarter of the horizon; whether the run met its
        target; whether the run had an alarm. Runs that were cut off or taken over are left out.
        """
        with self._store.database.read() as at:
            rows = at.rows(
                "SELECT marks, met, EXISTS (SELECT 1 FROM alarms a WHERE a.run = runs.number AND "
                "a.kind <> 'silent') FROM runs WHERE contract = ? AND met IS NOT NULL "
                "AND intervened_at IS NULL",
                (self._held.id,),
            )
            others = at.rows(
                "SELECT COUNT(*) FROM runs WHERE contract = ? AND ended_at IS NOT NULL AND "
                "(cut_off = 1 OR intervened_at IS NOT NULL)",
                (self._held.id,),
            )
        marks = [msgspec.msgpack.decode(bytes(row[0])) for row in rows]
        found = np.array(marks, dtype=np.float64).reshape(len(rows), QUARTERS)
        met, alarmed = (np.array([row[k] for row in rows], dtype=np.float64) for k in (1, 2))
        return found, met, alarmed, int(others[0][0])

    def _catch_up(self) -> None:
        """Pass finished runs to the tests for drift, in the order in which the runs began.

        It stops at the first run that has not ended.
        """
        self._open = ""
        while self._guards:
            page = self._store.runs(after=self._after, limit=_PAGE, contract=self._held.id)
            ready: list[Run] = []
            waits = False
            for run, _ in page:
                open_still = run.ended_at is None
                if open_still and time.time() - run.updated_at < _GIVEN_UP:
                    waits, self._open = True, run.agent
                    break
                self._after = run.number
                if run.met is not None and run.intervened_at is None:
                    ready.append(run)
            self._observe(ready)
            if waits or len(page) < _PAGE:
                return

    def _observe(self, runs: list[Run]) -> None:
        if not runs:
            return
        self._last_end = max(self._last_end, *(run.ended_at or 0.0 for run in runs))
        try:
            episodes = read_runs(self._store, runs, self._held.monitor)
            readings = [guard.observe(episodes) for guard in self._guards]
        except OntargetError as error:
            self._guards, self._trouble = [], str(error)
            return
        if self.drifted_at is None and any(one.alarm for one in readings):
            # What ended later did not take part in the alarm, and may be recalibrated on (M26).
            self.drifted_at = self._last_end


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
