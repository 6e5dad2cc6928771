"""What decides a simulated battle, and when: python bench/skirmish.py.

It prints three tables: how often blue wins by the numbers of soldiers, beside Lanchester's square
law; the same in finer steps, by the health of one soldier; and how open a battle still is at each
step, given its full state.
"""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console
from rich.table import Table

from ontarget.domains import rollout_outcomes, simulate, simulate_with_snapshots
from ontarget.domains.draws import episode_keys
from ontarget.domains.skirmish import Skirmish
from yardstick.figures import keep

BATTLES = 2_000
RED = 10
STATES, ROLLOUTS = 100, 100
DISTANCES = (16.0, 20.0, 24.0, 28.0)
STEPS = (0, 14, 15, 20, 25, 30)


def fought(blue: int, *, weak_health: float = 45.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """How many soldiers of both sides are left after each battle: ``blue`` against 10 red ones.

    One red soldier starts with the health ``weak_health``. Both sides advance.
    """
    scenario = Skirmish(
        blue=(blue, blue),
        red=(RED, RED),
        most_reinforcements=0,
        distance=14.0,
        red_attacks=True,
        horizon=150,  # far beyond the paper's, so that battles are fought to the end
    )
    keys = episode_keys(seed, 0, BATTLES)
    battle = scenario.start(keys)
    battle.health[:, blue] = weak_health
    for t in range(scenario.horizon):
        scenario.step(battle, t, keys)
    left = scenario.observe(battle)
    return left[:, 0], left[:, 1]


def win_row(blue_left: np.ndarray, red_left: np.ndarray) -> tuple[int, int]:
    won = int((red_left == 0).sum())
    return won, won + int((blue_left == 0).sum())


def numbers() -> Table:
    table = Table(title=f"{BATTLES:,} battles each, blue against {RED} red, both advance")
    for column in ("blue", "ratio", "blue wins", "of decided", "blue left", "square law"):
        table.add_column(column, justify="right")
    for blue in range(7, 15):
        blue_left, red_left = fought(blue, seed=blue)
        won, decided = win_row(blue_left, red_left)
        kept = f"{blue_left[red_left == 0].mean():.1f}" if won else "-"
        law = f"{math.sqrt(blue**2 - RED**2):.1f}" if blue > RED else "-"
        table.add_row(str(blue), f"{blue / RED:.1f}", str(won), str(decided), kept, law)
        if abs(blue - RED) <= 1:
            keep(f"battles that blue wins, {blue} against {RED}", won / decided, "")
    return table


def health() -> Table:
    table = Table(title=f"{BATTLES:,} battles each, 10 against 10, one red Marine weakened")
    for column in ("its health", "ratio of health", "blue wins", "rate"):
        table.add_column(column, justify="right")
    for left in (45.0, 39.0, 33.0, 27.0, 21.0, 15.0, 9.0, 3.0):
        won, decided = win_row(*fought(10, weak_health=left, seed=100 + int(left)))
        ratio = 450.0 / (405.0 + left)
        table.add_row(f"{left:g}", f"{ratio:.3f}", str(won), f"{won / decided:.3f}")
    return table


def openness() -> Table:
    table = Table(
        title="share of full states whose chance of ending in the 10-90 % interval of returns is "
        f"between 5 and 95 % ({STATES} states, {ROLLOUTS} rollouts)"
    )
    for column in ("distance", "mean", "sd", "interval", *(f"t={t}" for t in STEPS)):
        table.add_column(column, justify="right")
    for distance in DISTANCES:
        domain = Skirmish(distance=distance)
        returns = simulate(domain, 5_000, seed=6).outcomes
        low, high = np.quantile(returns, [0.1, 0.9])
        run = simulate_with_snapshots(domain, STATES, seed=5, snapshots=STEPS)
        shares = []
        for t in STEPS:
            so_far = run.episodes.at(t).behavior
            ends = rollout_outcomes(domain, run.snapshots[t], so_far, t, rollouts=ROLLOUTS)
            p = ((ends >= low) & (ends <= high)).mean(axis=1)
            shares.append(f"{np.mean((p > 0.05) & (p < 0.95)):.2f}")
        spread = (f"{returns.mean():.2f}", f"{returns.std():.2f}", f"[{low:g}, {high:g}]")
        table.add_row(f"{distance:g}", *spread, *shares)
    return table


def main() -> None:
    console = Console(width=110)
    for table in (numbers(), health(), openness()):
        console.print(table)


if __name__ == "__main__":
    main()
