"""LunarLander with three conditions at once: a good score, little fuel, and little tilt.

This script records the noisy autopilot of `lunar_lander.py` with three numbers per flight: score,
fuel and tilt. (Recordings are stored as Parquet and made only once.) It fits a monitor on 3,000
flights. On new flights, it measures how good p is (the probability of meeting all conditions), and
how early alarms come. It ends with a picture of one failed flight: p of all conditions together,
and of each.

    python examples/lander_goal.py --folder lander-goal

Needs ``pip install 'ontarget[gym]' 'gymnasium[box2d]'``. Takes some ten minutes the first time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
from lunar_lander import FEATURES, Autopilot

from ontarget import Episodes, Evaluation, Goal, GoalMonitor, Promised
from ontarget.integrations import record

JUDGED = {"return": "sum", "fuel": "sum:fuel", "tilt": "max:tilt"}
GOAL = Goal.parse("return >= 200 & fuel <= 30 & tilt <= 0.45")
FALSE_ALARMS = 0.05
FRAMES, HORIZON = 5, 200  # frames in a step, and steps in the longest flight
# What the environment takes off the score for an engine at full power, in each step.
FUEL = {Autopilot.FIRE_MAIN: 0.3, Autopilot.FIRE_LEFT: 0.03, Autopilot.FIRE_RIGHT: 0.03}
ANGLE = FEATURES.index("angle")


class Gauges(gymnasium.Wrapper[Any, Any, Any, Any]):
    """LunarLander, with the fuel burnt in each step, and the tilt after it, in ``info``."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        gauges = {"fuel": FUEL.get(int(action), 0.0), "tilt": abs(float(seen[ANGLE]))}
        return seen, reward, terminated, truncated, {**info, **gauges}


def recorded(path: Path, episodes: int, seed: int) -> Episodes:
    """The flights recorded at this path, with ten steps per second; recorded now if there are none.

    The environment has 50 frames per second. One of our steps is five frames: the state at the
    first frame, the reward and the fuel of all five together, and their greatest tilt.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        env = Gauges(gymnasium.make("LunarLander-v3", max_episode_steps=FRAMES * HORIZON))
        flown = record(
            env, Autopilot(seed=seed), episodes, seed=seed, features=FEATURES, behavior=JUDGED
        )
        flown.write(path)
    frames = pl.read_parquet(path).sort("episode", "step")
    steps = frames.group_by("episode", pl.col("step") // FRAMES, maintain_order=True).agg(
        pl.col(FEATURES).first(), pl.col("reward", "fuel").sum(), pl.col("tilt").max()
    )
    return Episodes.from_frame(steps, features=FEATURES, behavior=JUDGED, horizon=HORIZON)


def chosen_flight(found: Evaluation) -> int:
    """The position of a flight that missed the goal, to be drawn.

    Its p (the probability of meeting the goal) was above 40 % in the first two seconds; then an
    alarm came.
    """
    raised = found.alarms(Promised(FALSE_ALARMS)).first
    early = np.nanmean(found.p[:20], axis=0)
    open_still = ~found.met & (raised >= 20) & (early > 0.4)
    return int(np.flatnonzero(open_still)[0])


def picture(found: Evaluation, flight: int, path: Path) -> None:
    """Draw one flight: p of the goal over time, p of each condition, and the alarm.

    p is the probability that the flight meets it.
    """
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = drawn.subplots()
    n = int(found.lengths[flight])
    seconds = np.arange(n) * FRAMES / 50
    for name, part in found.parts.items():
        axes.plot(seconds, part.p[:n, flight], lw=1.2, label=f"{name} alone")
    axes.plot(seconds, found.p[:n, flight], color="black", lw=2.4, label="all three")
    raised = found.alarms(Promised(FALSE_ALARMS))
    threshold, first = raised.triggers[0].threshold, raised.first[flight]
    axes.axhline(threshold, color="0.5", lw=0.8, ls="--", label="alarm below")
    axes.axvline(seconds[first], color="tab:red", lw=1.2, ls=":", label="alarm")
    ended = {name: float(found.episodes.only(name).outcomes[flight]) for name in JUDGED}
    shown = ", ".join(f"{name} {value:.3g}" for name, value in ended.items())
    axes.set(
        xlabel="seconds", ylabel="probability", ylim=(-0.02, 1.02), title=f"ended with {shown}"
    )
    drawn.legend(loc="outside right center", frameon=False, fontsize="small")
    drawn.savefig(path, dpi=150)


def main(folder: Path, *, episodes: int = 3000, fresh: int = 1500) -> dict[str, float]:
    past = recorded(folder / f"past-{episodes}.parquet", episodes, seed=0)
    print(past.describe())
    monitor = GoalMonitor(policy="noisy autopilot")
    monitor.fit(past, checkpoint=folder / f"fit-{episodes}")
    monitor.save(folder / "lander_goal.ontarget")
    later = recorded(folder / f"later-{fresh}.parquet", fresh, seed=1)
    found = monitor.evaluate(later, GOAL)
    print(found.summary(false_alarm_rate=FALSE_ALARMS))
    for name, part in found.parts.items():
        print(f"{name:<10} met by {part.met.mean():.1%} by itself, ECE {part.ece().value:.4f}")
    raised = found.alarms(Promised(FALSE_ALARMS)).quality
    early, middle, late = np.quantile(raised.lead_steps, [0.25, 0.5, 0.75]) * FRAMES / 50
    print(f"lead       {middle:.1f} s before the flight ends (quartiles {early:.1f} to {late:.1f})")
    picture(found, chosen_flight(found), folder / "lander_goal.png")
    return {
        "ece": found.ece().value,
        "false_alarms": raised.false_alarms.value,
        "detections": raised.detections.value,
        "median_lead": float(middle),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("lander-goal"))
    parser.add_argument("--episodes", type=int, default=3000, help="to fit the monitor on")
    parser.add_argument("--fresh", type=int, default=1500, help="to measure it on")
    main(**vars(parser.parse_args()))
