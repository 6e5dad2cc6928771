"""Recalibrates a contract (monitor, target, alarm rule) on runs that the service recorded."""

from __future__ import annotations

from typing import Final

import msgspec

from ontarget.conformal.levels import needed_within
from ontarget.errors import InputError
from ontarget.live.rules import Promised, RuledOut
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service._export import read_runs
from ontarget.service.contracts import Held
from ontarget.service.store import Store

# Finished runs of all versions. One whose first message is its last has no step to learn from.
_RENEWABLE: Final = (
    "runs r JOIN contracts c ON c.id = r.contract WHERE c.name = ? AND r.started_at > ? "
    "AND (r.met IS NOT NULL OR r.cut_off = 1) AND r.next > 1"
)


class Renewal(msgspec.Struct, frozen=True):
    """How many recorded runs a recalibration of a contract could use now, and how many it needs.

    Attributes
    ----------
    runs
        The finished runs that a recalibration would use.
    counted
        How many of these runs count toward ``needed``. If the alarm has a promised false-alarm
        rate, these are the runs that met the target; otherwise all runs that ended by themselves.
    needed
        How many runs must count so that the contract's alarm rule can be used.
    """

    runs: int
    counted: int
    needed: int


def renewal(store: Store, held: Held, *, since: float) -> Renewal:
    """How many runs a recalibration of a contract could use now, and how many it needs.

    Only runs that began after ``since`` (seconds since 1970) are used.
    """
    with store.database.read() as at:
        (row,) = at.rows(
            "SELECT COUNT(*), COUNT(CASE WHEN r.met IS NOT NULL AND r.intervened_at IS NULL THEN 1 "
            "END), COUNT(CASE WHEN r.met = 1 AND r.intervened_at IS NULL THEN 1 END) "
            f"FROM {_RENEWABLE}",
            (held.spec.name, since),
        )
    runs, whole, met = (int(n) for n in row)
    rule, stopped, first, another = held.spec.rule, runs - whole, 1, 1  # for each group
    if isinstance(rule, Promised):
        another = needed_within(rule.rate, rule.confidence)
        # In the worst case each run that was cut off would have been a false alarm.
        first = needed_within(rule.rate, rule.confidence, rank=stopped + 1) - stopped
    elif isinstance(rule, RuledOut) and rule.confidence is not None:
        another = needed_within(rule.rate, rule.confidence)
        first = max(1, another - stopped)
    counted = met if isinstance(rule, Promised) else whole
    return Renewal(runs, counted, first + (held.fitted.n_groups - 1) * another)


def recalibrated(store: Store, held: Held, *, since: float, renew_p: bool) -> GoalMonitor:
    """A contract's monitor, recalibrated on the runs that began after ``since``.

    Nobody knows how runs that were cut off or taken over would have ended; they count as the worst
    case (method M24 in docs/methods.md).
    """
    with store.database.read() as at:
        rows = at.rows(f"SELECT r.id FROM {_RENEWABLE} ORDER BY r.number", (held.spec.name, since))
    found = store.find_runs([row[0] for row in rows])
    runs = [found[row[0]] for row in rows]
    if not runs:
        raise InputError(
            f"contract {held.spec.name!r} has no finished runs to recalibrate on: runs must have "
            f"begun after its newest version was added, and after the drift; wait for more, or "
            f"pass an earlier time as `since`"
        )
    return held.monitor.recalibrate(read_runs(store, runs, held.monitor), renew_p=renew_p)
