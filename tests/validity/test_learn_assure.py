"""All that is promised comes from assure and stays exact, whatever learn made of the model (M16).

Small forests and a law that is plainly wrong, few episodes, ragged lengths, with and without ties.
"""

from __future__ import annotations

from functools import cache

import pytest

from validity.turns import (
    World,
    check_alarms,
    check_cdf,
    check_drift,
    check_intervals,
    check_promises,
    check_ruled_out,
)

# With so few episodes a promised threshold may lie below every p.
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

WORLDS = [
    World(seed, atoms=atoms, forest=forest)
    for seed in range(2)
    for atoms in (False, True)
    for forest in (False, True)
]
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


@in_every_world
def test_whole_runs_are_ruled_out_and_leave_their_band_as_often_as_promised(world: World) -> None:
    check_ruled_out(world, turns_of(world))


@pytest.mark.parametrize("world", [one for one in WORLDS if not one.atoms], ids=str)
def test_a_new_run_takes_each_place_in_the_bag_of_the_drift_guard_once(world: World) -> None:
    check_drift(world, turns_of(world))
