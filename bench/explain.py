"""What an explanation of one step costs, with eight features, all of which change.

The time is the processor's, so that other work on the machine hardly counts. It is measured for
`Watch.explain`, as the live view calls it.

    python bench/explain.py --episodes 600 --features 8
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from ontarget import Episodes, GoalMonitor, Target

STEPS, ASKED = 10, 40


def recorded(n: int, features: int, seed: int) -> Episodes:
    """Runs whose last reward is the first feature, and some luck; the other features are noise."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.normal(size=(n, STEPS, features)), axis=1)
    rewards = np.zeros((n, STEPS))
    rewards[:, -1] = states[:, -1, 0] + rng.normal(size=n)
    return Episodes.from_arrays(states, rewards)


def main() -> None:
    """Fit, watch some runs up to a step, and explain that step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--features", type=int, default=8)
    asked = parser.parse_args()
    monitor = GoalMonitor().fit(recorded(asked.episodes, asked.features, 0), progress=False)
    new, target = recorded(ASKED, asked.features, 1), Target.at_least(0.0)
    watch = monitor.watch(target, alarm_below=0.1)
    seconds, gaps = [], []
    for run in range(ASKED):
        watch.reset()
        for t in range(STEPS // 2):
            watch.step(new.at(t).states[run])
        start = process_time()
        found = watch.explain()
        seconds.append(process_time() - start)
        gaps.append(abs(sum(one.change for one in found.contributions) - found.change))
    low, middle, high = 1000 * np.quantile(seconds[1:], [0.1, 0.5, 0.9])
    print(f"{asked.features} features, {asked.episodes} episodes, {ASKED} explanations")
    print(f"  processor time       {middle:.1f} ms ({low:.1f} to {high:.1f})")
    print(f"  parts add up         within {max(gaps):.1e} of the change")


if __name__ == "__main__":
    main()
