"""From arrays to an alarm in one page: will this walk end above zero?

python examples/quickstart.py
"""

from __future__ import annotations

import numpy as np

from ontarget import Episodes, GoalMonitor, Target


def recorded(episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recorded random walks: states before acting, (episodes, steps, features), and rewards.

    The rewards are (episodes, steps).
    """
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(episodes, 1))
    seen = slope + 0.5 * rng.normal(size=(episodes, 12))  # a noisy view of the slope
    rewards = 0.3 * slope + rng.normal(size=(episodes, 12))
    return seen[:, :, None], rewards


def main(episodes: int = 3000) -> None:
    past = Episodes.from_arrays(*recorded(episodes, seed=0), features=["view"])
    monitor = GoalMonitor().fit(past, progress=False)

    target = Target.at_least(0.0)
    watch = monitor.watch(target, false_alarm_rate=0.1)
    low, high = watch.trigger.promised.spread()
    print(f"alarm below p = {watch.trigger.threshold:.3f}: at most 10 % of good runs raise it")
    print(f"(nine in ten sets of as many assure episodes: {low:.1%} to {high:.1%})\n")

    states, rewards = recorded(1, seed=4)
    reward = 0.0
    for state, earned in zip(states[0], rewards[0], strict=True):
        outlook = watch.step(state, reward)
        least, most = outlook.spread  # what the number of assure episodes leaves open
        said = f"p = {outlook.p:.3f}, {least:.3f} to {most:.3f}"
        print(f"t = {outlook.t:2d}   {said}   {outlook.status}")
        reward = earned  # it is known at the next step
    print(watch.end(reward).reason)


if __name__ == "__main__":
    main()
