"""p renewed on recalibration: its promises hold, because p never saw the runs that assure it (M8).

Half of the new runs teach p, the others assure. Here every run of the second half takes a turn as
the new one, as in `turns`: broken promises are counted, not estimated. p itself is an estimate, and
nothing is promised of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.fitting import recalibrating
from validity.test_planted_conformal_bugs import caught
from validity.turns import (
    Turns,
    World,
    check_alarms,
    check_cdf,
    check_intervals,
    check_ruled_out,
)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")


def turns(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    apart: bool = True,
    first: int | None = None,
) -> Turns:
    """Each run of the pool as the new one; the monitor of another process is renewed on the rest.

    ``apart`` is how it is done: others teach p than assure it. If not, the same ones do both.
    ``first`` is how many take turns, all by default.
    """
    old, _ = replace(world, seed=world.seed + 200).episodes()
    monitor = world.fitted(*old.split(0.8, 0.2)[:2])
    teach, pool = world.episodes()

    def halves(new: Episodes, seed: int) -> tuple[Episodes, Episodes]:
        assure = np.isin(new.ids, pool.ids)
        return new.take(~assure) if apart else new.take(assure), new.take(assure)

    monkeypatch.setattr(recalibrating, "_halves", halves)
    found = []
    for i in range(world.pool if first is None else first):
        rest = Episodes.concat([teach, pool.take(np.arange(world.pool) != i)])
        found.append((monitor.recalibrate(rest, renew_p=True), pool.take([i])))
    return found


@pytest.mark.parametrize("atoms", [False, True])
def test_promises_hold_where_p_was_renewed(atoms: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, atoms, forest=False)
    found = turns(world, monkeypatch)
    check_alarms(world, found, exact=False)
    check_ruled_out(world, found)
    check_intervals(world, found)
    check_cdf(world, found)


def check_apart(monitor: GoalMonitor) -> None:
    """Raise if a run both teaches p and assures it."""
    learn, assure = map(monitor.fitted.trained.fingerprints_of, ("learn", "assure"))
    assert not np.isin(assure, learn).any()


def test_a_p_that_saw_the_runs_that_assure_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it saw, not by its rate: six pools of 30 runs counted no more alarms than allowed.

    The map of a target has so few parameters that it hardly bends to single runs. The promise needs
    runs that it has not seen all the same.
    """
    world = World(3, atoms=False, forest=False)
    check_apart(turns(world, monkeypatch, first=1)[0][0])
    with caught:
        check_apart(turns(world, monkeypatch, first=1, apart=False)[0][0])


def test_the_halves_share_no_run_and_depend_on_ids_alone() -> None:
    _, pool = World(2, atoms=False, forest=False, pool=31).episodes()
    first, second = recalibrating._halves(pool, 0)
    assert sorted([*first.ids, *second.ids]) == sorted(pool.ids.tolist())
    other = Episodes.from_arrays(
        [np.ones((int(n), 2)) for n in pool.lengths],
        [np.ones(int(n)) for n in pool.lengths],
        ids=pool.ids,
        horizon=pool.horizon,
    )
    assert sorted(recalibrating._halves(other, 0)[0].ids) == sorted(first.ids)
