"""After drift (M26): recalibrated monitors, the restart after an alarm, and the bet on harm.

A recalibrated monitor is put through the same turns as a fitted one: its models learned another
process, so they are wrong about every run, and the promises must hold always. The restart and the
bet on harm are one binomial count each, and so are the traps that they avoid.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from ontarget.drift import DriftBet, DriftGuard, HarmBet
from ontarget.drift.bets import KeptFor
from validity.turns import (
    Turns,
    World,
    check_alarms,
    check_cdf,
    check_drift,
    check_intervals,
    check_promises,
    check_ruled_out,
)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

UNLIKELY = 1e-8
WORLDS = [World(seed, atoms, forest) for seed, (atoms, forest) in
          enumerate([(False, False), (True, False), (False, True), (True, True)])]  # fmt: skip


def at_most(count: int, n: int, rate: float) -> bool:
    return bool(binom.sf(count - 1, n, rate) > UNLIKELY)


def recalibrated_turns(world: World) -> Turns:
    """Each run of a pool as the new one; the others recalibrate a monitor of another process."""
    learn, _ = replace(world, seed=world.seed + 200).episodes()
    old = world.fitted(*learn.split(0.8, 0.2)[:2])
    _, pool = world.episodes()
    everyone = np.arange(world.pool)
    return [
        (old.recalibrate(pool.take(everyone[everyone != i])), pool.take([i]))
        for i in everyone.tolist()
    ]


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_recalibrated_monitor_keeps_every_promise(world: World) -> None:
    turns = recalibrated_turns(world)
    check_intervals(world, turns)
    check_promises(world, turns)
    check_cdf(world, turns)
    check_alarms(world, turns, exact=False)
    check_ruled_out(world, turns)
    if not world.atoms:  # every guard breaks its first tie by the same draw
        check_drift(world, turns)


def missed_after_an_alarm(run: int, *, restarts: bool, move: float = 2.0) -> bool:
    """Whether a new run lies above the upper tenth of the 39 runs that recalibrate.

    The process moves up after 40 runs, and the guard soon alarms; 40 runs are under way at a time.
    The restart takes the runs that began after the alarm, as the guard names them; the trap takes
    the last ones before it, which are of both processes.
    """
    rng = np.random.default_rng([26, run])
    bet = DriftBet(norm.cdf(rng.normal(size=60)), seed=run, level=0.9)
    guard = DriftGuard(bet, lambda _: {}, KeptFor("drift", "", 0, "0.9", ""))
    seen = rng.normal(size=200) + move * (np.arange(200) >= 40)
    outcomes = np.append(seen, rng.normal(move, size=39) if restarts else [])
    ranks = norm.cdf(outcomes).tolist()
    for name in range(40):
        guard.begin(name)
    alarm = 0
    while not guard.note(alarm, ranks[alarm], ranks[alarm]).alarm:
        guard.begin(alarm + 40)
        alarm += 1
    later = range(200, len(ranks))
    for name in later:
        guard.begin(name)
    for name in [*range(alarm + 1, alarm + 40), *later]:
        guard.note(name, ranks[name], ranks[name])
    last = max(alarm, 39)
    kept = list(guard.since_alarm if restarts else range(last - 38, last + 1))
    assert len(kept) == 39
    return bool(rng.normal(move) > np.sort(outcomes[kept])[-4])  # k = ⌊0.1 · 40⌋ = 4


def test_a_restart_on_runs_after_the_alarm_keeps_its_promise() -> None:
    missed = sum(missed_after_an_alarm(run, restarts=True) for run in range(300))
    assert at_most(missed, 300, 0.1)
    assert missed > 10


def test_a_restart_on_the_runs_before_the_alarm_would_be_caught() -> None:
    missed = sum(missed_after_an_alarm(run, restarts=False) for run in range(300))
    assert not at_most(missed, 300, 0.1)


def streams(n: int, runs: int, *, change: float = 0.0):
    """For each stream p and z of assure runs and of new ones; p is 0.05 too high throughout."""
    for stream in range(n):
        rng = np.random.default_rng([27, stream])
        p = 0.05 + 0.9 * rng.random(200 + runs)
        true = np.clip(p - 0.05, 0.0, 1.0)
        true[200:] = np.clip(true[200:] - change, 0.0, 1.0)
        z = rng.random(p.size) < true
        yield stream, p, z


def harm_alarms(n: int, runs: int, *, change: float = 0.0) -> int:
    count = 0
    for stream, p, z in streams(n, runs, change=change):
        bet = HarmBet((p - z)[:200], seed=stream, level=0.95)
        count += bet.observe_noted((p - z)[200:, None])[-1].alarm
    return count


def test_a_standing_bias_is_no_harm() -> None:
    assert at_most(harm_alarms(300, 400), 300, 0.05)


def alarms_of_a_bet_that_p_is_calibrated(n: int, runs: int) -> int:
    """The trap: a bet against p itself, which knows nothing of how far p was off before."""
    alarms = 0
    for _, p, z in streams(n, runs):
        wealth = np.cumsum(np.log1p(0.5 * (p - z)[200:]))
        alarms += bool(wealth.max() >= math.log(20.0))
    return alarms


def test_a_bet_that_p_is_calibrated_would_be_caught() -> None:
    assert not at_most(alarms_of_a_bet_that_p_is_calibrated(300, 400), 300, 0.05)


def test_harm_is_found_where_runs_end_worse_and_nowhere_else() -> None:
    assert harm_alarms(40, 400, change=0.15) >= 36
    assert harm_alarms(40, 400, change=-0.15) == 0
