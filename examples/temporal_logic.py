"""A rule in temporal logic as one more number that runs are judged by, beside the return.

A drone flies ten legs past walls. The rule is: the gap to the walls never falls below 0.2, and
never stays below 1 for three legs in a row. The robustness of the rule says by how much it has held
so far; below 0, the rule is broken. The library RTAMT computes the robustness (``pip install
rtamt``). If RTAMT is not installed, ten lines here compute the same number. The monitor reads the
robustness as a column: `"rule": "column:robustness"`.

    python examples/temporal_logic.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ontarget import Episodes, Goal, GoalMonitor

RULE = "historically(gap >= 0.2 and once[0:2](gap >= 1.0))"
GOAL = Goal.parse("return >= 18 & rule >= 0")
LEGS = 10


def by_rtamt() -> Callable[[Sequence[float]], list[float]]:
    """A function that computes with RTAMT, after each leg, by how much the rule has held so far.

    The rule is that the gap is never below 0.2, and never below 1 for three legs in a row.
    """
    import rtamt

    rule = rtamt.StlDiscreteTimeSpecification()
    rule.declare_var("gap", "float")
    rule.spec = RULE
    rule.parse()

    def robustness(gaps: Sequence[float]) -> list[float]:
        found = [float(rule.update(t, [("gap", gap)])) for t, gap in enumerate(gaps)]
        rule.reset()  # for the next run; before the first one, RTAMT has nothing to reset
        return found

    return robustness


def by_hand(gaps: Sequence[float]) -> list[float]:
    """The robustness of the rule after each leg: the smallest margin by which it has held so far.

    The rule is that the gap is never below 0.2, and never below 1 for three legs in a row. So there
    are two margins at each leg: the gap minus 0.2, and the largest of the last three gaps minus 1.
    """
    found, least = [], math.inf
    for t, gap in enumerate(gaps):
        least = min(least, gap - 0.2, max(gaps[max(0, t - 2) : t + 1]) - 1.0)
        found.append(least)
    return found


def flights(
    n: int, seed: int, robustness: Callable[[Sequence[float]], list[float]] = by_hand
) -> Episodes:
    """Recorded flights of a drone; strong wind slows it down and pushes it towards the walls.

    ``robustness`` computes by how much a rule about the gaps has held.
    """
    rng = np.random.default_rng(seed)
    wind = np.zeros((n, LEGS))
    for t in range(LEGS):
        wind[:, t] = (0.7 * wind[:, t - 1] if t else 0.0) + rng.normal(size=n)
    speed = (2.2 - 0.5 * wind + 0.4 * rng.normal(size=(n, LEGS))).round(2)
    gap = np.maximum(0.0, 1.6 - 0.4 * wind + 0.3 * rng.normal(size=(n, LEGS))).round(3)
    held = np.array([robustness(one) for one in gap.tolist()])
    before = np.column_stack([np.full(n, 2.0), gap[:, :-1]])
    return Episodes.from_arrays(
        np.stack([wind, before], axis=2),
        {"reward": speed, "robustness": held},
        ids=np.arange(n) + 100_000 * seed,
        features=["wind", "gap"],
        behavior={"return": "sum", "rule": "column:robustness"},
    )


def main(episodes: int = 1000) -> None:
    try:
        robustness, source = by_rtamt(), "RTAMT"
    except ImportError:  # it is not installed, or too old for this Python
        robustness, source = by_hand, "this file"
    print(f"the robustness of the rule comes from {source}")
    monitor = GoalMonitor().fit(flights(episodes, 0, robustness), progress=False)
    new = flights(300, 1, robustness)
    found = monitor.evaluate(new, GOAL)
    print(f"{GOAL}: met by {found.met.mean():.0%}, ECE {found.ece().value:.3f}")

    watch = monitor.watch(GOAL, false_alarm_rate=0.1)
    alarmed = found.alarms(false_alarm_rate=0.1).first
    chosen = int(np.flatnonzero(~found.met & (alarmed > 0))[0])  # it failed, with an alarm
    brought: Any = 0.0
    for t in range(LEGS):
        outlook = watch.step(new.only("return").at(t).states[chosen], brought)
        each = ", ".join(f"{name} {part.p:.2f}" for name, part in watch.parts.items())
        print(f"{t}  p = {outlook.p:.2f}  {outlook.status!s:<5}  {each}")
        held = new.only("rule")
        after = held.at(t + 1).behavior if t + 1 < LEGS else held.outcomes
        earned = new.only("return").rewards_at(t)
        brought = {"reward": earned[chosen], "robustness": after[chosen]}
    print(watch.end(brought).reason)


if __name__ == "__main__":
    main()
