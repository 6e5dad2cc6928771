"""LunarLander with a noisy autopilot: will this descent score 200, and which ones will not?

Records the autopilot (once: the recordings are kept as Parquet), fits a monitor on 3,000 episodes,
and measures it on fresh ones: is a probability of 80 % right 80 % of the time, and how early does
an alarm with a promised 5 % of false alarms see a crash coming?

    python examples/lunar_lander.py --folder lunar-lander

Needs ``pip install 'ontarget[gym]' 'gymnasium[box2d]'``. Takes some minutes the first time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ontarget import Episodes, Target

FEATURES = ["x", "y", "speed_x", "speed_y", "angle", "spin", "left_leg", "right_leg"]
TARGET = Target.at_least(200.0)
HORIZON = 1000


class Autopilot:
    """Steers towards the pad and brakes the fall; now and then it fires an engine at random."""

    COAST, FIRE_LEFT, FIRE_MAIN, FIRE_RIGHT = range(4)

    def __init__(self, noise: float = 0.1, seed: int = 0) -> None:
        self.noise = noise
        self.rng = np.random.default_rng(seed)

    def __call__(self, seen: np.ndarray) -> int:
        if self.rng.random() < self.noise:
            return int(self.rng.integers(4))
        x, y, speed_x, speed_y, angle, spin, left_leg, right_leg = seen.tolist()
        if left_leg or right_leg:  # touched down: only the fall needs braking
            turn, lift = 0.0, -0.5 * speed_y
        else:
            # Lean against the drift, never by more than 0.4 rad; stay higher the further away.
            wanted_angle = min(0.4, max(-0.4, 0.5 * x + speed_x))
            turn = 0.5 * (wanted_angle - angle) - spin
            lift = 0.5 * (0.55 * abs(x) - y) - 0.5 * speed_y
        if lift > max(abs(turn), 0.05):
            return self.FIRE_MAIN
        if turn < -0.05:
            return self.FIRE_RIGHT
        if turn > 0.05:
            return self.FIRE_LEFT
        return self.COAST


def recorded(path: Path, episodes: int, seed: int) -> Episodes:
    """The recording at this path; it is made first where there is none."""
    if not path.exists():
        import gymnasium

        from ontarget.integrations import record

        env = gymnasium.make("LunarLander-v3")
        path.parent.mkdir(parents=True, exist_ok=True)
        record(env, Autopilot(seed=seed), episodes, seed=seed, features=FEATURES).write(path)
    return Episodes.read(path)
