"""A contract's promises made anew, from runs that the service has recorded."""

from __future__ import annotations

from ontarget.errors import InputError
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service._export import read_runs
from ontarget.service.contracts import Held
from ontarget.service.store import Store

__all__ = ["recalibrated"]


def recalibrated(store: Store, held: Held, *, since: float, renew_p: bool) -> GoalMonitor:
    """The contract's monitor, with promises that rest on runs that began after ``since`` alone.

    Runs that were cut off or taken over count as they must: as if they had gone wrong (M24).
    """
    with store.database.read() as at:
        rows = at.rows(
            "SELECT r.id FROM runs r JOIN contracts c ON c.id = r.contract WHERE c.name = ? AND "
            "r.started_at > ? AND (r.met IS NOT NULL OR r.cut_off = 1) ORDER BY r.number",
            (held.spec.name, since),
        )
    found = store.find_runs([row[0] for row in rows])
    # A run whose first message is its last has no step to learn from.
    runs = [found[row[0]] for row in rows if found[row[0]].next > 1]
    if not runs:
        raise InputError(
            f"contract {held.spec.name!r} has no finished runs to recalibrate on: they must have "
            "begun after its newest version was put in force, and after drift was seen; wait for "
            "more, or choose an earlier moment with since"
        )
    return held.monitor.recalibrate(read_runs(store, runs, held.monitor), renew_p=renew_p)
