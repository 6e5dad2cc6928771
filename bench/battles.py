"""The paper's battles in two engines: our own skirmish, and SMAX by JaxMARL's authors.

    python bench/battles.py -o out/battles        # some five minutes of processor time
    python bench/battles.py --quick

Needs ``pip install 'ontarget[smax]'``. The folder gets what `ontarget paper` writes, for the two
engines in place of the paper's domains. Two tables follow: is each engine sound, and how long does
a battle stay open?
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ontarget import Episodes, Target
from ontarget.domains import (
    Skirmish,
    Smax,
    episode_keys,
    rollout_outcomes,
    simulate_with_snapshots,
)
from ontarget.evaluation import binomial_band
from ontarget.paper.experiment import FULL, LABELS, OPEN, QUICK, simulated
from ontarget.paper.page import main_table as main_table_of
from ontarget.paper.reproduction import reproduce
from yardstick.figures import keep
from yardstick.tables import lines

# The start, the first fight, before and after the reinforcements of step 14, and the end of most.
STEPS = (0, 10, 14, 15, 20, 25)
EVEN_STEPS = 120  # long enough for every battle between equal sides to be fought to the end
HEALTH = 45.0  # of a Marine, in both engines
TEN: Any = {"blue": (10, 10), "red": (10, 10), "most_reinforcements": 0, "horizon": EVEN_STEPS}


@dataclass(frozen=True)
class Engine:
    """An engine: its scenario of the paper's battles, and one of ten against ten.

    Every loss of hit points is a multiple of ``shot``.
    """

    scenario: Callable[[], Any]
    even: Callable[[], Any]
    shot: float


ENGINES = {
    # A shot takes 6 of 45 hit points, the last one the 3 that are left.
    "skirmish": Engine(Skirmish, lambda: Skirmish(distance=14.0, red_attacks=True, **TEN), 3.0),
    "smax": Engine(Smax, lambda: Smax(mirror=True, **TEN), 9.0),
}


def fought_share(episodes: Episodes) -> np.ndarray:
    """At each step, the share of battles in which both sides have a unit on the field."""
    counts = (episodes.at(t).states[:, :2] for t in range(episodes.horizon))
    return np.array([(own > 0.0).all(axis=1).mean() for own in counts])


def truly_open(
    engine: str, target: Target, t: int, *, states: int, rollouts: int, seed: int
) -> float:
    """The share of full states at step t from which it is open whether the target will be met.

    Open means that the target is met in between 5 and 95 % of the simulations that continue from
    the state.
    """
    scenario = ENGINES[engine].scenario()
    run = simulate_with_snapshots(scenario, states, seed + 1, snapshots=[t], progress=False)
    behavior = run.episodes.at(t).behavior
    ends = rollout_outcomes(scenario, run.snapshots[t], behavior, t, rollouts=rollouts)
    p = target.contains(ends, run.episodes.grid).mean(axis=1)
    return float(((p > OPEN[0]) & (p < OPEN[1])).mean())


def even_battles(engine: str, *, battles: int, seed: int) -> tuple[int, int]:
    """How often blue and red won in battles between equal sides."""
    scenario = ENGINES[engine].even()
    run = simulate_with_snapshots(
        scenario, battles, seed, snapshots=[EVEN_STEPS - 1], progress=False
    )
    left = scenario.observe(run.snapshots[EVEN_STEPS - 1])[:, :2] > 0.0
    return int((left[:, 0] & ~left[:, 1]).sum()), int((left[:, 1] & ~left[:, 0]).sum())


def unaccounted(engine: str, episodes: Episodes, seed: int) -> dict[str, int]:
    """The number of steps at which units, rewards or hit points do not add up.

    It is 0 in a sound engine. Units only die, except for the reinforcements, whose number is known
    from the episode's key; a reward is red's losses minus blue's; and units lose hit points only by
    whole shots.
    """
    scenario = ENGINES[engine].scenario()
    keys = episode_keys(seed, 0, len(episodes), "simulate", scenario.name)
    joined = np.zeros((episodes.horizon, len(episodes)))
    joined[scenario.reinforcement_step] = scenario.armies(keys).reinforcements
    states = np.stack([episodes.at(t).states for t in range(episodes.horizon)])
    rewards = np.stack([episodes.rewards_at(t) for t in range(episodes.horizon - 1)])
    blue_lost = states[:-1, :, 0] - states[1:, :, 0]
    red_lost = states[:-1, :, 1] + joined[:-1] - states[1:, :, 1]
    gone = states[:-1, :, 2:4].sum(axis=2) + HEALTH * joined[:-1] - states[1:, :, 2:4].sum(axis=2)
    return {
        "units": int(((blue_lost < 0.0) | (red_lost < 0.0)).sum()),
        "rewards": int((rewards != red_lost - blue_lost).sum()),
        "hit points": int(((gone < 0.0) | (gone % ENGINES[engine].shot != 0.0)).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out/battles"))
    parser.add_argument("--quick", action="store_true", help="few episodes and rollouts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for engine in ENGINES.values():
        engine.scenario()  # before any work, because it may need an extra
    plan = replace(QUICK if args.quick else FULL, domains=tuple(ENGINES), seed=args.seed)
    battles, states, rollouts = (100, 10, 5) if args.quick else (2_000, 60, 40)
    done = reproduce(plan, args.output)
    main_table = main_table_of(done.results)
    print(f"{lines(main_table.head, main_table.rows)}\n")
    sound, still = [], []
    for engine in ENGINES:
        episodes = simulated(plan, engine)
        target = Target(*np.quantile(episodes.outcomes, [0.1, 0.9], method="inverted_cdf"))
        blue, red = even_battles(engine, battles=battles, seed=plan.seed)
        low, high = binomial_band(blue + red, 0.5, band=0.99)
        wrong = unaccounted(engine, episodes, plan.seed)
        even = f"{blue:,} of {blue + red:,} ({low:,} to {high:,})"
        sound.append((LABELS[engine], even, *(f"{own:,}" for own in wrong.values())))
        full = [
            truly_open(engine, target, t, states=states, rollouts=rollouts, seed=plan.seed)
            for t in STEPS
        ]
        fought = fought_share(episodes)
        p_low = done.results["domains"][engine]["atoms"]["open_share"]["mean"]
        for name, shares in (
            ("still fought", [fought[t] for t in STEPS]),
            ("open given the full state", full),
            ("open by p_low", [p_low[t] for t in STEPS]),
        ):
            percents = (f"{100 * share:.0f} %" for share in shares)
            still.append((f"{LABELS[engine]}: {name}", *percents))
        ece = done.results["domains"][engine]["noise"]["ece"]["low"]["mean"]
        keep(f"pooled ECE of p_low, {engine}", ece, "", asked="the paper: 0.013")
    won = "blue wins against an equal red (99 % band of a fair coin)"
    head = ("", won, "units do not add up", "rewards do not", "hit points do not")
    print(f"{lines(head, sound)}\n")
    print(lines(("", *(f"t = {t}" for t in STEPS)), still))


if __name__ == "__main__":
    main()
