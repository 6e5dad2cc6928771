"""How long it takes to explain why p changed, and whether the right feature is named.

p is the probability of meeting the target. First, `Watch.explain` is timed as the live view calls
it, while eight features change: in processor time, which other work on the machine hardly changes,
and in wall-clock time. Then comes a process in which only one feature changes the true probability.
Which share of the changes of p does the explanation give to that feature?

    python bench/explain.py --episodes 600 --features 8
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from yardstick.figures import keep

STEPS, ASKED = 10, 40


def recorded(n: int, features: int, seed: int) -> Episodes:
    """Runs whose last reward is the first feature plus chance; the other features are noise."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.normal(size=(n, STEPS, features)), axis=1)
    rewards = np.zeros((n, STEPS))
    rewards[:, -1] = states[:, -1, 0] + rng.normal(size=n)
    return Episodes.from_arrays(states, rewards)


def share_of_the_one(episodes: int, seed: int) -> float:
    """The share of p's changes that the explanation gives to the one feature that matters.

    Four features change; only this one changes the true probability of meeting the target.
    """
    rng = np.random.default_rng(seed)
    states, rewards = rng.normal(size=(episodes, 3, 4)), np.zeros((episodes, 3))
    rewards[:, -1] = (states[:, -1, 0] + 0.3 * rng.normal(size=episodes)).round(2)
    states[:, :, 0] = states[:, -1:, 0] + np.array([2.0, 0.3, 0.0]) * states[:, :, 0]
    monitor = GoalMonitor().fit(Episodes.from_arrays(states, rewards), progress=False)
    total, own = 0.0, 0.0
    for _ in range(ASKED):
        before, now = rng.normal(size=(2, 4))
        before[0], now[0] = rng.choice([-1.0, 1.0]) * np.array([-1.0, 1.0])
        why = monitor.explain(2, now, 0.0, Target.at_least(0.0), before=(before, 0.0))
        part = next(one.change for one in why.contributions if one.cause == "x0")
        total, own = total + abs(why.change), own + part * np.sign(why.change)
    return own / total


def main() -> None:
    """Fit, watch some runs up to a step, and explain that step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--features", type=int, default=8)
    asked = parser.parse_args()
    monitor = GoalMonitor().fit(recorded(asked.episodes, asked.features, 0), progress=False)
    new, target = recorded(ASKED, asked.features, 1), Target.at_least(0.0)
    watch = monitor.watch(target, alarm_below=0.1)
    seconds, walls, gaps = [], [], []
    for run in range(ASKED):
        watch.reset()
        for t in range(STEPS // 2):
            watch.step(new.at(t).states[run])
        start, clock = process_time(), perf_counter()
        found = watch.explain()
        seconds.append(process_time() - start)
        walls.append(perf_counter() - clock)
        gaps.append(abs(sum(one.change for one in found.contributions) - found.change))
    print(f"{asked.features} features, {asked.episodes} episodes, {ASKED} explanations")
    for name, times in (("processor time", seconds), ("on the wall", walls)):
        low, middle, high = 1000 * np.quantile(times[1:], [0.1, 0.5, 0.9])
        print(f"  {name:<20} {middle:.1f} ms ({low:.1f} to {high:.1f})")
        keep(f"explain a step, {asked.features} features, {name}", middle, "ms", asked="≤ 10 ms")
    print(f"  parts add up         within {max(gaps):.1e} of the change")
    share = share_of_the_one(1_500, seed=1)
    print(f"  the one that matters {100 * share:.1f} % of the changes of p")
    keep("changes of p explained by the one feature that matters", 100 * share, "%", asked="≥ 95 %")


if __name__ == "__main__":
    main()
