"""LunarLander with a noisy autopilot: will this descent score at least 200?

This script records the autopilot (recordings are stored as Parquet and made only once), fits a
monitor on 3,000 episodes, and measures it on new ones. Is a probability of 80 % right 80 % of the
time? How early does an alarm with 5 % promised false alarms see a crash coming?

    python examples/lunar_lander.py --folder lunar-lander

Needs ``pip install 'ontarget[gym]' 'gymnasium[box2d]'``. Takes some minutes the first time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

from ontarget import Episodes, GoalMonitor, Promised, Target
from ontarget.evaluation import (
    AlarmQuality,
    CalibrationEstimate,
    alarm_quality,
    pool,
    reliability,
)
from ontarget.evaluation.figures import came_true_chart

FEATURES = ["x", "y", "speed_x", "speed_y", "angle", "spin", "left_leg", "right_leg"]
TARGET = Target.at_least(200.0)
FALSE_ALARMS = 0.05
CRASH = -100.0  # the reward of a crash


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
    """The episodes recorded at this path; they are recorded now if there are none."""
    if not path.exists():
        import gymnasium

        from ontarget.integrations import record

        env = gymnasium.make("LunarLander-v3")
        path.parent.mkdir(parents=True, exist_ok=True)
        record(env, Autopilot(seed=seed), episodes, seed=seed, features=FEATURES).write(path)
    return Episodes.read(path)


def crashed(episodes: Episodes) -> np.ndarray:
    """Which episodes ended in a crash."""
    last = np.empty(len(episodes))
    for t in range(int(episodes.lengths.max())):
        last[episodes.at(t).index] = episodes.rewards_at(t)
    return last == CRASH


def measured(
    monitor: GoalMonitor, episodes: Episodes, picture: Path
) -> tuple[CalibrationEstimate, AlarmQuality, AlarmQuality]:
    """How good the probabilities are on new episodes, and the alarms: for misses and for crashes.

    A miss is an episode that does not meet the target.
    """
    found = monitor.evaluate(episodes, TARGET)
    said = pool(found.p, found.met)
    binned = reliability(said.p, said.met, bins=20, episode=said.episode)
    came_true_chart(binned).savefig(picture, dpi=150)

    raised, crash = found.alarms(Promised(FALSE_ALARMS)), crashed(episodes)
    crashes = alarm_quality(raised.first[crash], found.met[crash], found.lengths[crash])
    return found.ece(), raised.quality, crashes


def main(
    folder: Path,
    *,
    episodes: int = 3000,
    fresh: int = 1500,
    steps_per_model: int | None = None,
) -> dict[str, float]:
    past = recorded(folder / f"past-{episodes}.parquet", episodes, seed=0)
    print(past.describe())
    started = perf_counter()
    monitor = GoalMonitor(steps_per_model=steps_per_model, policy="noisy autopilot")
    monitor.fit(past)
    print(f"fitted in {perf_counter() - started:.0f} s")
    monitor.save(folder / "lander.ontarget")
    # Settings are compared by this: the fresh episodes are for measuring alone.
    print(f"\non the assure episodes\n{monitor.alarm_curve(TARGET, rates=[FALSE_ALARMS])}")

    later = recorded(folder / f"later-{fresh}.parquet", fresh, seed=1)
    calibration, misses, crashes = measured(monitor, later, folder / "reliability.png")
    met = TARGET.contains(later.outcomes).mean()
    print(f"\non {fresh:,} fresh episodes, of which {met:.0%} met the target")
    by_chance = f"chance alone {calibration.floor:.4f}"
    print(f"pooled ECE                  {calibration.value:.4f} ({by_chance})")
    print(f"false alarms                {misses.false_alarms}")
    print(f"missed targets alarmed      {misses.detections}")
    print(f"crashes alarmed             {crashes.detections}")
    early, middle, late = np.quantile(crashes.lead_steps, [0.25, 0.5, 0.75])
    print(f"steps before the crash      {middle:.0f} (quartiles {early:.0f} to {late:.0f})")
    return {
        "ece": calibration.value,
        "false_alarms": misses.false_alarms.value,
        "crashes_alarmed": crashes.detections.value,
        "median_lead": float(middle),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("lunar-lander"))
    parser.add_argument("--episodes", type=int, default=3000, help="to fit the monitor on")
    parser.add_argument("--fresh", type=int, default=1500, help="to measure it on")
    parser.add_argument("--steps-per-model", type=int, help="how many steps share a model")
    main(**vars(parser.parse_args()))
