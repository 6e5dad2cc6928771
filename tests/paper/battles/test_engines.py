"""What is asked of any engine, on our own; SMAX is asked the same in the study."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.domains import Skirmish, simulate
from ontarget.episodes import Episodes
from ontarget.paper.battles.engines import (
    ENGINES,
    even_battles,
    fought_share,
    truly_open,
    unaccounted,
)
from ontarget.target import Target


@pytest.fixture(scope="module")
def battles() -> Episodes:
    return simulate("skirmish", 200, seed=2, progress=False)


def test_a_sound_engine_accounts_for_everything(battles: Episodes) -> None:
    found = unaccounted("skirmish", battles, seed=2)
    assert found == {"steps": 56 * 200, "units": 0, "rewards": 0, "hit points": 0}


def test_reinforcements_of_other_episodes_do_not_add_up(battles: Episodes) -> None:
    found = unaccounted("skirmish", battles, seed=3)
    assert found["rewards"] > 100
    assert found["hit points"] > 50


def test_battles_are_fought_from_the_start_and_over_at_the_end(battles: Episodes) -> None:
    share = fought_share(battles)
    assert share[0] == 1.0
    assert share[-1] < 0.2
    assert (np.diff(share[15:]) <= 0.0).all(), "only reinforcements can start a battle again"


def test_even_battles_are_all_counted() -> None:
    found = even_battles("skirmish", battles=60, seed=1)
    assert found["blue"] + found["red"] + found["neither"] == found["battles"] == 60
    assert min(found["blue"], found["red"]) > 5


def test_a_target_that_cannot_be_missed_leaves_nothing_open() -> None:
    certain = Target(-100.0, 100.0)
    found = truly_open("skirmish", certain, 14, states=5, rollouts=10, seed=0)
    assert found == {"share": 0.0, "states": 5, "rollouts": 10}
    even_odds = Target.at_least(4.0)
    found = truly_open("skirmish", even_odds, 0, states=5, rollouts=20, seed=0)
    assert 0.0 < found["share"] < 1.0


def test_both_engines_tell_the_same_facts() -> None:
    assert {len(engine.facts) for engine in ENGINES.values()} == {5}
    assert ENGINES["skirmish"].scenario() == Skirmish()
