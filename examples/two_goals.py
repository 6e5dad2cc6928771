"""A drone must be fast and save energy: the probability of both together, and of each.

python examples/two_goals.py
"""

from __future__ import annotations

import numpy as np

from ontarget import Episodes, Goal, GoalMonitor, Target

LEGS = 8
GOAL = Goal(distance=Target.at_least(20.0), energy=Target.at_most(12.0))


def flights(n: int, seed: int) -> Episodes:
    """Recorded flights of a drone; wind makes a flight slow and costs energy."""
    rng = np.random.default_rng(seed)
    wind = 0.6 * rng.normal(size=(n, 1)) + rng.normal(size=(n, LEGS))
    metres = 3.0 - 0.8 * wind + 0.5 * rng.normal(size=(n, LEGS))
    power = 1.4 + 0.3 * wind + 0.2 * rng.normal(size=(n, LEGS))
    return Episodes.from_arrays(
        wind[:, :, None],
        {"reward": metres, "energy": power},
        features=["wind"],
        behavior={"distance": "sum", "energy": "sum:energy"},
        ids=np.arange(n) + 1_000_000 * seed,
    )


def main(past: int = 1500, run: int = 49) -> list[tuple[float, float, float]]:
    monitor = GoalMonitor().fit(flights(past, seed=0), progress=False)
    watch = monitor.watch(GOAL, false_alarm_rate=0.1)
    rng = np.random.default_rng(run)
    wind, earned, said = 0.6 * rng.normal(), 0.0, []
    for leg in range(LEGS):
        now = wind + rng.normal()
        outlook = watch.step([now], earned)
        each = [watch.parts[name].p for name in ("distance", "energy")]
        said.append((outlook.p, *each))
        print(
            f"leg {leg}: both {outlook.p:.2f}, distance {each[0]:.2f}, energy {each[1]:.2f}  "
            f"{outlook.status}"
        )
        earned = {
            "reward": 3.0 - 0.8 * now + 0.5 * rng.normal(),
            "energy": 1.4 + 0.3 * now + 0.2 * rng.normal(),
        }
    print(watch.end(earned).reason)
    return said


if __name__ == "__main__":
    main()
