"""The two game engines: how each fights the paper's battles, and a battle of equal sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ontarget import Target
from ontarget.domains import (
    Skirmish,
    Smax,
    episode_keys,
    rollout_outcomes,
    simulate_with_snapshots,
)
from ontarget.episodes import Episodes
from ontarget.paper.arrays import FloatArray
from ontarget.paper.summary import OPEN

__all__ = [
    "ENGINES",
    "OPEN_STEPS",
    "Engine",
    "even_battles",
    "fought_share",
    "truly_open",
    "unaccounted",
]

# The start, the first fight, before and after the reinforcements of step 14, and the end of most.
OPEN_STEPS: Final = (0, 10, 14, 15, 20, 25)
# Long enough for every battle between equal sides to be fought to the end.
_EVEN_STEPS: Final = 120
# Of a Marine, in both engines.
_HEALTH: Final = 45.0


@dataclass(frozen=True)
class Engine:
    """A game engine that fights the paper's battles.

    Attributes
    ----------
    scenario
        A function that makes the paper's scenario in this engine.
    even
        A function that makes a battle of ten against ten, with the same policy on both sides and no
        reinforcements.
    shot
        The hit points that one shot takes; every loss is a multiple of this number.
    facts
        Facts about the engine as texts: who wrote it, its units, what a step is, how far apart the
        start locations are, and what red does.
    """

    scenario: Callable[[], Any]
    even: Callable[[], Any]
    shot: float
    facts: tuple[str, ...]


_TEN: Final = (10, 10)

ENGINES: Final = {
    "skirmish": Engine(
        Skirmish,
        lambda: Skirmish(
            blue=_TEN,
            red=_TEN,
            most_reinforcements=0,
            horizon=_EVEN_STEPS,
            distance=14.0,
            red_attacks=True,
        ),
        3.0,  # a shot takes 6 of 45, the last one the 3 that are left
        (
            "this project",
            "Marines, 8 shots to kill, range 5.75",
            "8 game loops (0.36 s), units act one after the other",
            "20",
            "waits, fights what comes near",
        ),
    ),
    "smax": Engine(
        Smax,
        lambda: Smax(blue=_TEN, red=_TEN, most_reinforcements=0, horizon=_EVEN_STEPS, mirror=True),
        9.0,
        (
            "JaxMARL's authors",
            "Marines, 5 shots to kill, range 5",
            "0.5 s in 8 ticks, all units act at once",
            "16",
            "attacks: the engine's heuristic policy",
        ),
    ),
}


def fought_share(episodes: Episodes) -> FloatArray:
    """At each step, the share of battles in which both sides have a unit on the field."""
    counts = (episodes.at(t).states[:, :2] for t in range(episodes.horizon))
    return np.array([(own > 0.0).all(axis=1).mean() for own in counts])


def truly_open(
    engine: str, target: Target, t: int, *, states: int, rollouts: int, seed: int
) -> dict[str, Any]:
    """The share of full states at step t from which it is open whether the target will be met.

    Open means that the target is met in between 5 and 95 % of the simulations that continue from
    the state. The states come from episodes with another seed than the study's own.
    """
    scenario = ENGINES[engine].scenario()
    run = simulate_with_snapshots(scenario, states, seed + 1, snapshots=[t], progress=False)
    behavior = run.episodes.at(t).behavior
    ends = rollout_outcomes(scenario, run.snapshots[t], behavior, t, rollouts=rollouts)
    p = target.contains(ends, run.episodes.grid).mean(axis=1)
    share = float(((p > OPEN[0]) & (p < OPEN[1])).mean())
    return {"share": share, "states": states, "rollouts": rollouts}


def even_battles(engine: str, *, battles: int, seed: int) -> dict[str, Any]:
    """How often blue, red and nobody won in battles between equal sides."""
    scenario = ENGINES[engine].even()
    run = simulate_with_snapshots(
        scenario, battles, seed, snapshots=[_EVEN_STEPS - 1], progress=False
    )
    left = scenario.observe(run.snapshots[_EVEN_STEPS - 1])[:, :2] > 0.0
    blue = int((left[:, 0] & ~left[:, 1]).sum())
    red = int((left[:, 1] & ~left[:, 0]).sum())
    return {"battles": battles, "blue": blue, "red": red, "neither": battles - blue - red}


def unaccounted(engine: str, episodes: Episodes, seed: int) -> dict[str, Any]:
    """The number of steps at which units, hit points or rewards do not add up.

    It is 0 in a sound engine. Units only die, except for the reinforcements, whose number is known
    from the episode's key; a reward is red's losses minus blue's; and units lose hit points only by
    whole shots.
    """
    made = ENGINES[engine]
    scenario = made.scenario()
    keys = episode_keys(seed, 0, len(episodes), "simulate", scenario.name)
    joined = np.zeros((episodes.horizon, len(episodes)))
    joined[scenario.reinforcement_step] = scenario.armies(keys).reinforcements
    states = np.stack([episodes.at(t).states for t in range(episodes.horizon)])
    rewards = np.stack([episodes.rewards_at(t) for t in range(episodes.horizon - 1)])
    blue_lost = states[:-1, :, 0] - states[1:, :, 0]
    red_lost = states[:-1, :, 1] + joined[:-1] - states[1:, :, 1]
    gone = states[:-1, :, 2:4].sum(axis=2) + _HEALTH * joined[:-1] - states[1:, :, 2:4].sum(axis=2)
    return {
        "steps": rewards.size,
        "units": int(((blue_lost < 0.0) | (red_lost < 0.0)).sum()),
        "rewards": int((rewards != red_lost - blue_lost).sum()),
        "hit points": int(((gone < 0.0) | (gone % made.shot != 0.0)).sum()),
    }
