"""Jet engines that were taken off the wing before they failed: four ways to use such records.

    python examples/cut_off_engines.py
    python examples/cut_off_engines.py train_FD001.txt   # NASA's C-MAPSS units, cut off here

An engine is inspected every few cycles. It wears, its readings rise, and at last it fails. Many
engines are cut off: taken off the wing by a schedule that knows nothing of their wear. Normally
nobody knows how long they would have lasted. Here it is known, because the engines are simulated,
or because C-MAPSS runs every unit to its end. So each way is judged on engines that nobody cut off.
"""

from __future__ import annotations

import sys

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import FewEpisodesError
from ontarget.models import QuantileForest

LONGEST, GOAL, CHANCE = 24, 12, 0.06  # in inspections; the chance to be taken off at each
TARGET = Target.at_least(GOAL)

Units = list[np.ndarray]  # of each unit the readings at every inspection, until it fails


def made_up(n: int, rng: np.random.Generator) -> Units:
    """Simulated engines; each wears at its own rate, and fails when its wear passes 1."""
    found = []
    for rate in rng.lognormal(np.log(0.075), 0.35, size=n):
        wear = np.cumsum(rate * rng.gamma(4.0, 0.25, size=LONGEST))
        life = min(int(np.count_nonzero(wear < 1.0)) + 1, LONGEST)
        before = np.concatenate([[0.0], wear[: life - 1]])
        found.append(before[:, None] + 0.1 * rng.normal(size=(life, 2)))
    return found


def read_units(path: str) -> Units:
    """The engines in a C-MAPSS file (unit, cycle, settings, sensors), at every tenth cycle.

    An engine lasts some 130 to 360 cycles; the two readings are sensors 4 and 11, which rise with
    wear.
    """
    rows = np.loadtxt(path)
    units = [rows[rows[:, 0] == unit] for unit in np.unique(rows[:, 0])]
    return [own[::10, [8, 15]][:LONGEST] for own in units]


def recorded(units: Units, rng: np.random.Generator, censored: str, seed: int) -> Episodes:
    """The engines as a log would have them: some were taken off before they failed.

    ``censored`` says how such episodes are treated.
    """
    lives = np.array([len(unit) for unit in units])
    taken_off = rng.geometric(CHANCE, size=len(units))
    ends = np.minimum(lives, taken_off)
    more: dict[str, object] = {"horizon": LONGEST}
    if censored == "weights":  # the chance to be taken off at each inspection but the first
        chances = [np.r_[0.0, np.full(end - 1, CHANCE)] for end in ends]
        more |= {"stop_probability": chances, "stop_bound": (1 - CHANCE) ** (1 - LONGEST)}
    if censored == "horizon":  # only units that were to stay on until the goal, judged there
        more = {"cutoff": taken_off, "horizon": GOAL}
    return Episodes.from_arrays(
        [unit[:end] for unit, end in zip(units, ends, strict=True)],
        [np.ones(end) for end in ends],
        ids=[f"{seed}-{i}" for i in range(len(units))],
        truncated=taken_off < lives,
        censored=censored,
        **more,
    )


def left_alone(units: Units, horizon: int) -> Episodes:
    """Engines that nobody took off, up to the horizon (the number of steps that count)."""
    return Episodes.from_arrays(
        [unit[:horizon] for unit in units],
        [np.ones(min(len(unit), horizon)) for unit in units],
        ids=[f"fresh-{i}" for i in range(len(units))],
        horizon=horizon,
    )


def main(path: str | None = None, units: int = 1200, fresh: int = 1000, trees: int = 50) -> None:
    rng = np.random.default_rng(0)
    known = made_up(units, rng) if path is None else read_units(path)
    if path is None:
        later = made_up(fresh, rng)
    else:
        half = len(known) // 2
        known, later = known[:half], known[half:]
    lives = np.array([len(unit) for unit in later])
    print(f"{len(known)} units, cut off with a chance of {CHANCE:.0%} at each inspection")
    print(f"left alone, {np.mean(lives >= GOAL):.1%} of others last {GOAL} inspections\n")
    print(f"{'censored=':<14}{'used':>6}{'p says':>9}{'Brier':>8}{'false alarms at 10 %':>22}")
    for censored in ("drop", "worst-case", "weights", "horizon"):
        runs = recorded(known, np.random.default_rng(1), censored, seed=0)
        monitor = GoalMonitor(QuantileForest(n_trees=trees)).fit(runs, progress=False)
        found = monitor.evaluate(left_alone(later, runs.horizon), TARGET, resamples=20)
        try:
            rate = f"{found.alarms(false_alarm_rate=0.1).quality.false_alarms.value:.1%}"
        except FewEpisodesError:
            rate = "too many cut off"
        p = found.p[:GOAL]  # later on it is decided
        brier = float(np.nanmean((p - found.met) ** 2))
        print(
            f"{censored:<14}{len(runs):>6,}{np.nanmean(p[0]):>9.1%}{brier:>8.4f}{rate:>22}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])
