"""CartPole from nothing to an alarm: record a policy, fit a monitor, check it, watch runs.

    python examples/cartpole.py

Needs ``pip install 'ontarget[gym]'``.
"""

from __future__ import annotations

import gymnasium
import numpy as np

from ontarget import GoalMonitor, Outlook, Target
from ontarget.integrations import GoalWrapper, record

FEATURES = ["position", "speed", "angle", "spin"]


class TipsyBalancer:
    """A policy for CartPole: pushes to the side to which the pole leans, and at times at random."""

    def __init__(self, seed: int, noise: float = 0.5) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise = noise

    def __call__(self, seen: np.ndarray) -> int:
        if self.rng.random() < self.noise:
            return int(self.rng.integers(2))
        return int(seen[2] + 0.3 * seen[3] > 0.0)


def main(episodes: int = 1000) -> None:
    env = gymnasium.make("CartPole-v1", max_episode_steps=200)

    # 1. Record the policy as it is.
    past = record(env, TipsyBalancer(seed=0), episodes, seed=0, features=FEATURES)
    print(past.describe(), "\n")

    # 2. Fit: four in five episodes are learned from, and the alarm's promise rests on the others.
    # No step takes anything away from the sum, so once it reaches 150 the target is met for good.
    monitor = GoalMonitor(policy="tipsy balancer", reward_bounds=(0, 1)).fit(past)

    # 3. Check it on runs that it has never seen: another seed.
    target = Target.at_least(150)
    new = record(env, TipsyBalancer(seed=1), episodes // 2, seed=1, features=FEATURES)
    found = monitor.evaluate(new, target)
    print(found.summary())
    print(found.alarms(false_alarm_rate=0.1).quality, "\n")

    # 4. Watch. Of the runs that stay up for 150 steps, at most 10 % shall ever raise the alarm.
    def on_alarm(outlook: Outlook, env: GoalWrapper) -> None:
        print(f"  step {outlook.t:3d}  ALARM  {outlook.reason}")

    watched = GoalWrapper(env, monitor, target, false_alarm_rate=0.1, on_alarm=on_alarm)
    policy = TipsyBalancer(seed=2)
    for run in range(8):
        seen, info = watched.reset(seed=run)
        print(f"run {run}: {info['goal'].p:.0%} likely to last 150 steps")
        over = False
        while not over:
            seen, _, terminated, truncated, info = watched.step(policy(seen))
            over = terminated or truncated
        print(f"  step {info['goal'].t:3d}  {info['goal'].status}   {info['goal'].reason}")


if __name__ == "__main__":
    main()
