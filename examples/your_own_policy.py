"""How to record your own policy in many environments at once, and keep the recording in a file.

A policy is a function from observation to action, or a trained model with Stable-Baselines3's
``predict``; pass either to `record`. Here the policy is a small controller of our own. It acts in
eight environments side by side. A run is judged by its largest swing, not by a sum of rewards.

    python examples/your_own_policy.py

Needs ``pip install 'ontarget[gym]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit, TransformReward

from ontarget import Episodes, GoalMonitor, Target
from ontarget.integrations import VectorGoalWrapper, record

STEPS = 60


def make() -> gymnasium.Env:
    """CartPole with another reward: at each step, how far the pole leans, in degrees."""
    env = TimeLimit(gymnasium.make("CartPole-v1").unwrapped, max_episode_steps=STEPS)
    return TransformReward(env, lambda _: abs(float(np.degrees(env.unwrapped.state[2]))))


class MyPolicy:
    """Replace this by your own code: it returns one action for each observation.

    This policy pushes to the side to which the pole leans, and at times at random.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, seen: np.ndarray) -> np.ndarray:
        position, speed, angle, spin = seen.T
        wanted = angle + 0.4 * spin + 0.02 * position + 0.05 * speed > 0.0
        hesitates = self.rng.random(len(seen)) < 0.4
        return np.where(hesitates, self.rng.integers(2, size=len(seen)), wanted).astype(int)


def main(episodes: int = 1000) -> None:
    envs = gymnasium.vector.SyncVectorEnv([make] * 8)

    # "max" is the largest reward of a run: here its largest lean.
    runs = record(envs, MyPolicy(seed=0), episodes, seed=0, behavior="max")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.parquet"
        runs.write(path)
        runs = Episodes.read(path)
    print(runs.describe(), "\n")
    monitor = GoalMonitor(policy="my policy").fit(runs)

    target = Target.at_most(float(np.quantile(runs.outcomes, 0.8)))
    watched = VectorGoalWrapper(envs, monitor, target, alarm_below=0.5)
    policy = MyPolicy(seed=1)
    seen, infos = watched.reset(seed=5)
    print("probability that the largest lean stays below", f"{target.upper:.2f} degrees")
    for t in range(STEPS + 1):
        if t % 15 == 0:
            shown = "  ".join(f"{p:4.0%}" for p in infos["goal"].p)
            print(f"step {t:3d}   {shown}")
        seen, *_, infos = watched.step(policy(seen))


if __name__ == "__main__":
    main()
