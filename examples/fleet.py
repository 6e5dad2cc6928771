"""Watches two hundred battles at once, with one call per step for all of them.

python examples/fleet.py
"""

from __future__ import annotations

import numpy as np

from ontarget import GoalMonitor, Target
from ontarget.domains import Skirmish, simulate


def main(episodes: int = 1500, agents: int = 200) -> None:
    monitor = GoalMonitor().fit(simulate(Skirmish(), episodes, seed=0), progress=False)
    victory = Target.at_least(1)  # red loses more than blue does
    fleet = monitor.fleet(victory, agents, false_alarm_rate=0.05)

    battles = simulate(Skirmish(), agents, seed=1)
    ever = np.zeros(agents, dtype=bool)
    for t in range(battles.horizon):
        rewards = battles.rewards_at(t - 1) if t else 0.0
        outlooks = fleet.step(battles.at(t).states, rewards)
        ever |= outlooks.alarm
        if t % 10 == 0:
            share = outlooks.alarm.mean()
            print(f"t = {t:2d}   mean p = {outlooks.p.mean():.3f}   in alarm {share:6.1%}")
    met = victory.contains(battles.outcomes)
    print(f"won {met.sum()}, of which {ever[met].sum()} ever raised an alarm")
    print(f"not won {(~met).sum()}, of which {ever[~met].sum()} did")


if __name__ == "__main__":
    main()
