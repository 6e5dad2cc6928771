"""How often `monitor.drift` calls runs changed: where nothing has changed, and where something has.

    python bench/drift.py [SPLITS] [SETS]

First, one finite log of simulated runs is divided at random SPLITS times (1,000 unless given) into
recorded and new runs. A monitor is fitted on the recorded runs, each time with another seed. As
nothing has changed, at most 1 % of the splits may be called changed. Then, changes are planted in
new runs, and SETS monitors (100 unless given) are asked about each. Every comparison is made
without an order of the runs, and with their order. Takes about fifteen minutes.
"""

from __future__ import annotations

import sys

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import QuantileForest
from yardstick.figures import keep

TARGET = Target.at_least(1.0)
CHANGES: dict[str, dict[str, float]] = {
    "mean lower": {"mean": -0.12},
    "mean higher": {"mean": 0.12},
    "wider spread": {"spread": 1.35},
    "narrower spread": {"spread": 0.75},
    "met share": {"lift": 0.5},
    "starts": {"start": 0.5},
    "lengths": {"shorter": 2},
}
LATE = {"mean lower, second half": (2, {"mean": -0.24}), "mean, last quarter": (4, {"mean": -0.35})}


def runs(
    n: int,
    rng: np.random.Generator,
    *,
    first: int = 0,
    mean: float = 0.0,
    spread: float = 1.0,
    start: float = 0.0,
    shorter: float = 0,
    lift: float = 0.0,
) -> Episodes:
    """Walks whose drift is part of the state; ``lift`` is the share of near misses made to meet."""
    drift = rng.normal(start, size=n)
    lengths = rng.integers(4, 9, size=n) - int(shorter)
    gains = (
        np.rint(10 * (0.1 + mean + 0.3 * drift[:, None] + spread * rng.normal(size=(n, 8)))) / 10
    )
    lucky, states, rewards = rng.random(n) < lift, [], []
    for i, length in enumerate(lengths.tolist()):
        own = gains[i, :length]
        if lucky[i] and -1.0 < own.sum() < 1.0:
            own[-1] += 1.0 - own.sum()
        states.append(np.column_stack([np.full(length, drift[i]), rng.normal(size=length)]))
        rewards.append(np.round(own, 1))
    return Episodes.from_arrays(states, rewards, ids=np.arange(first, first + n), horizon=8)


def planted(change: str, n: int, rng: np.random.Generator) -> Episodes:
    """Runs with a change in all of them, or only in the last part."""
    if change in CHANGES:
        return runs(n, rng, first=10_000, **CHANGES[change])
    part, how = LATE[change]
    later = n // part
    calm = runs(n - later, rng, first=10_000)
    return Episodes.concat([calm, runs(later, rng, first=20_000, **how)])


def fitted(recorded: Episodes, seed: int) -> GoalMonitor:
    """A monitor with a small forest."""
    forest = QuantileForest(n_trees=12, min_leaf=5)
    return GoalMonitor(forest).fit(recorded, seed=seed, progress=False)


def called(monitor: GoalMonitor, new: Episodes) -> tuple[bool, bool]:
    """Whether new runs are called changed, without and with their order."""
    order = np.arange(len(new))
    return monitor.drift(new, TARGET).changed, monitor.drift(new, TARGET, order=order).changed


def main() -> None:
    """Print how many splits and how many planted changes are called changed."""
    splits, sets = (int(one) for one in (*sys.argv[1:], *("1000", "100")[len(sys.argv) - 1 :]))
    log, rng = runs(900, np.random.default_rng(0)), np.random.default_rng(1)
    wrong = np.zeros(2, dtype=int)
    for seed in range(splits):
        mixed = rng.permutation(900)
        wrong += called(fitted(log.take(mixed[:600]), seed), log.take(mixed[600:]))
    for how, count in zip(("without order", "with order"), wrong.tolist(), strict=True):
        print(f"one log of 900 runs, {splits:,} random splits, {how}: {count} called changed")
        keep(f"called changed where nothing changed, {how}", count / splits, "", asked="≤ .01")
    print(f"\n{'planted change':<26}{'new runs':>10}{'without order':>15}{'with order':>12}")
    found: dict[tuple[str, int], list[tuple[bool, bool]]] = {}
    for seed in range(sets):
        rng = np.random.default_rng([2, seed])
        monitor = fitted(runs(1_000, rng), seed)
        for n in (100, 300):
            for change in (*CHANGES, *LATE):
                found.setdefault((change, n), []).append(called(monitor, planted(change, n, rng)))
    for (change, n), hits in found.items():
        plain, ordered = np.mean(hits, axis=0)
        print(f"{change:<26}{n:>10}{plain:>15.2f}{ordered:>12.2f}")
        keep(f"called changed, {change}, {n} runs, without order", plain, "")
        keep(f"called changed, {change}, {n} runs, with order", ordered, "")


if __name__ == "__main__":
    main()
