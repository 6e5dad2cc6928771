"""A robot arm with sticky joints: will the hand end within two centimetres of its goal?

    python examples/robot_arm.py

A run is one reach of the arm. How much the joints stick differs from run to run, and no sensor
shows it. The monitor infers it from how the arm moves. A run is judged by its last distance to the
goal, not by a sum of rewards.
"""

from __future__ import annotations

import numpy as np

from ontarget import Episodes, GoalMonitor, Target

STEPS, SECONDS, CENTIMETRES = 30, 0.05, 40.0
CLOSE = Target.at_most(2.0)


def tip(angle: np.ndarray) -> np.ndarray:
    """The position of the hand in centimetres, for an arm of two links of 40 cm."""
    sums = np.cumsum(angle, axis=1)
    return CENTIMETRES * np.stack([np.cos(sums).sum(axis=1), np.sin(sums).sum(axis=1)], axis=1)


def reaches(n: int, seed: int) -> Episodes:
    """Recorded runs of the arm under a simple controller; rewards are the distances to the goal."""
    rng = np.random.default_rng(seed)
    friction = rng.gamma(1.5, 1.0, size=(n, 1))
    angle, goal = rng.uniform(-1.2, 1.2, (2, n, 2))
    speed = np.zeros((n, 2))
    states, rewards = [], []
    for _ in range(STEPS):
        states.append(np.concatenate([goal - angle, speed], axis=1))
        push = 25.0 * (goal - angle) - 6.0 * speed + 2.0 * rng.normal(size=(n, 2))
        speed = speed + SECONDS * (push - friction * np.tanh(20.0 * speed))
        angle = angle + SECONDS * speed
        rewards.append(np.linalg.norm(tip(angle) - tip(goal), axis=1))
    return Episodes.from_arrays(
        np.stack(states, axis=1),
        np.stack(rewards, axis=1),
        features=["error_1", "error_2", "speed_1", "speed_2"],
        behavior="last",
        ids=np.arange(n) + 1_000_000 * seed,
    )


def main(past: int = 2000, new: int = 400) -> tuple[GoalMonitor, Episodes, Target]:
    monitor = GoalMonitor().fit(reaches(past, seed=0), progress=False)
    later = reaches(new, seed=1)
    print(monitor.evaluate(later, CLOSE).summary())
    return monitor, later, CLOSE


if __name__ == "__main__":
    main()
