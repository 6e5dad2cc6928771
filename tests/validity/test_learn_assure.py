"""All that is promised comes from assure and stays exact, whatever learn made of the model (M16).

Small forests and a law that is plainly wrong, few episodes, ragged lengths, with and without ties.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

from ontarget.fitted.joint.asked import map_target
from validity.turns import (
    LEVEL,
    ONE_SIDED,
    RATE,
    TARGET,
    World,
    alarms,
    check_alarms,
    check_cdf,
    check_drift,
    check_intervals,
    check_promises,
    check_ruled_out,
    judged,
    outcome,
    runs,
)

# With so few episodes a promised threshold may lie below every p.
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

WORLDS = [
    World(seed, atoms=atoms, forest=forest)
    for seed in range(2)
    for atoms in (False, True)
    for forest in (False, True)
]
# One new run for 19 assure runs, many times over; all its bounds together fail once in 10⁷ times.
FRESH, UNLIKELY = World(0, atoms=False, forest=False, pool=19), 2e-9
turns_of = cache(World.turns)
in_every_world = pytest.mark.parametrize("world", WORLDS, ids=str)


@in_every_world
def test_intervals_cover_as_many_runs_as_promised(world: World) -> None:
    check_intervals(world, turns_of(world))


@in_every_world
def test_one_sided_promises_are_broken_as_often_as_announced(world: World) -> None:
    check_promises(world, turns_of(world))


@in_every_world
def test_low_and_high_are_valid_at_every_rank(world: World) -> None:
    check_cdf(world, turns_of(world))


@in_every_world
def test_runs_that_meet_the_target_alarm_as_often_as_promised(world: World) -> None:
    check_alarms(world, turns_of(world), exact=world.exact)


@pytest.mark.parametrize("seed", range(3))
def test_a_targets_own_map_leaves_alarms_as_often_false_as_promised(seed: int) -> None:
    """The biased law is so wrong that the map has much to put right; it comes from learn alone."""
    world = World(seed, atoms=False, forest=False, learn=400)
    turns = world.turns()
    learned = map_target(turns[0][0].contracts.asked(TARGET))
    assert learned is not None
    assert learned.identity.min() < 0.1
    check_alarms(world, turns, exact=True)


@in_every_world
def test_whole_runs_are_ruled_out_and_leave_their_band_as_often_as_promised(world: World) -> None:
    check_ruled_out(world, turns_of(world))


@pytest.mark.parametrize("world", [one for one in WORLDS if not one.atoms], ids=str)
def test_a_new_run_takes_each_place_in_the_bag_of_the_drift_guard_once(world: World) -> None:
    check_drift(world, turns_of(world))


def fresh_bits(world: World, replicate: int) -> dict[str, Any]:
    """What becomes of one new run, with everything fresh and the episodes split by the monitor."""
    rng = np.random.default_rng([16, world.seed, replicate])
    both = runs(world.learn + world.pool + 1, rng, atoms=world.atoms)
    recorded, new = both.take(range(len(both) - 1)), both.take([len(both) - 1])
    split = recorded.split(learn=world.learn, assure=world.pool, seed=replicate)
    monitor = world.unfitted().fit(split=split, seed=replicate, progress=False)
    step, y = new.at(1), outcome(new)
    bits: dict[str, Any] = {}
    bits["ruled out"], bits["band"], bits["assured"] = judged(monitor, new)
    lower, upper = monitor.interval(1, step.states, step.behavior, LEVEL)
    bits["interval"] = not lower[0] <= y <= upper[0]
    for side in ("lower", "upper"):
        bound = monitor.promise(1, step.states, step.behavior, ONE_SIDED, side=side)[0]
        bits[side] = y < bound if side == "lower" else y > bound
    if TARGET.contains(y):
        bits["alarm"] = alarms(monitor, new)
    bits["place"] = monitor.drift_guard(t=1).observe(new).p
    return bits


@pytest.mark.slow
@pytest.mark.parametrize("world", [FRESH, replace(FRESH, atoms=True, forest=True)], ids=str)
def test_one_new_run_breaks_each_promise_at_its_rate_with_everything_fresh(world: World) -> None:
    found = [fresh_bits(world, replicate) for replicate in range(1000)]
    # What 19 assure runs make of the rates that were asked for: 4 of 20 each.
    rates = dict.fromkeys(("interval", "lower", "upper", "ruled out", "band"), 0.2)
    for what, rate in (rates | {"alarm": float(RATE), "assured": float(RATE)}).items():
        bits = [one[what] for one in found if what in one]
        said = f"{world}: {what} {np.mean(bits):.3f} of {rate} in {len(bits)}"
        assert binom.sf(sum(bits) - 1, len(bits), rate) > UNLIKELY, said
        if world.exact and what in rates:
            assert binom.cdf(sum(bits), len(bits), rate) > UNLIKELY, said
    assert kstest([one["place"] for one in found], "uniform").pvalue > UNLIKELY
