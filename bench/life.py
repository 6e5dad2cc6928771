"""A monitor's life: a changed policy, guards that notice it, and a long stream of runs.

CartPole under a policy that pushes at random half of the time. Then that share falls to 0.42, and
runs end better, or rises to 0.58, and they end worse.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.drift import DriftBet, Following, HarmBet
from ontarget.integrations import record
from yardstick.figures import keep

GOAL = Target.at_least(100)


class Balancer:
    """Pushes to the side to which the pole will lean; at times it pushes at random."""

    def __init__(self, seed: int, noise: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise = noise

    def __call__(self, seen: np.ndarray) -> int:
        if self.rng.random() < self.noise:
            return int(self.rng.integers(2))
        return int(seen[2] + 0.3 * seen[3] > 0.0)


def recorded(n: int, noise: float, seed: int) -> Episodes:
    """Runs of one policy; ids contain the seed."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=150)
    return record(env, Balancer(seed, noise), n, seed=seed)


def changed_policy(old: int, test: int) -> GoalMonitor:
    """Print how far p is off on the new policy, for several ways to deal with it."""
    past = recorded(old, 0.5, seed=1)
    monitor = GoalMonitor(reward_bounds=(0, 1)).fit(past, progress=False)
    new, later = recorded(200, 0.42, seed=2), recorded(test, 0.42, seed=3)
    few = new.take(range(50))
    ways = {
        "old monitor": lambda: monitor,
        "recalibrated on 50": lambda: monitor.recalibrate(few),
        "recalibrated on 50, p renewed": lambda: monitor.recalibrate(few, renew_p=True),
        "recalibrated on 200, p renewed": lambda: monitor.recalibrate(new, renew_p=True),
        "fitted on the 50 alone": lambda: _fresh(few),
        "fitted on the 200 alone": lambda: _fresh(new),
        "fitted on old and 200 new": lambda: GoalMonitor().fit(
            Episodes.concat([past, new]), warm=monitor, progress=False
        ),
    }
    print(f"CartPole, {old:,} runs recorded; the policy changed; {test:,} later runs")
    print(f"{'':<32}{'ECE':>8}{'Brier':>8}{'assure':>8}{'false alarms at 10 %':>22}{'seconds':>9}")
    for name, make in ways.items():
        start = time.perf_counter()
        made = make()
        seconds = time.perf_counter() - start
        found = made.evaluate(later, GOAL, resamples=20)
        try:
            false = f"{found.alarms(false_alarm_rate=0.1).quality.false_alarms.value:.1%}"
        except ValueError:
            false = "none promised"
        print(
            f"{name:<32}{found.ece().value:>8.4f}{found.brier().value:>8.4f}"
            f"{made.sizes['assure']:>8}{false:>22}{seconds:>9.1f}",
            flush=True,
        )
    return monitor


def _fresh(runs: Episodes) -> GoalMonitor:
    return GoalMonitor(reward_bounds=(0, 1)).fit(runs, progress=False)


def guards(monitor: GoalMonitor, runs: int) -> None:
    """Print when each guard alarms, for runs that end as before, better and worse."""
    print(f"\nfirst alarm among {runs:,} runs{'drift guard':>20}{'harm guard':>14}")
    for name, noise in (("as before", 0.5), ("better", 0.42), ("worse", 0.58)):
        part, told = recorded(runs, noise, seed=int(100 * noise)), []
        for guard in (monitor.drift_guard(), monitor.harm_guard(GOAL)):
            alarm = "none"
            for i in range(len(part)):
                if guard.observe(part.take([i])).alarm:
                    alarm = str(i + 1)
                    break
            told.append(alarm)
        print(f"   {name:<26}{told[0]:>20}{told[1]:>14}", flush=True)


def stream(runs: int) -> None:
    """Print what a run costs in time and memory, early and late in a long stream."""
    rng = np.random.default_rng(0)
    ranks, excess = rng.random(runs), rng.random(runs) - (rng.random(runs) < 0.5)
    lowest = rng.beta(2.0, 2.0, size=runs)
    drift, harm = DriftBet(rng.random(500)), HarmBet(rng.random(500) - (rng.random(500) < 0.5))
    rule = Following(0.05, threshold=0.2)
    print(f"\n{'runs':>10}{'µs a run':>10}{'MB held':>10}")
    for start in range(0, runs, runs // 5):
        stop, began = start + runs // 5, time.process_time()
        for i in range(start, stop):
            drift.observe(float(ranks[i]))
            harm.observe(0.5 + 0.5 * float(excess[i]))
            rule.observe(alarmed=bool(lowest[i] < rule.threshold), met=True)
        micros = 1e6 * (time.process_time() - began) / (stop - start)
        held = sum(len(pickle.dumps(one)) for one in (drift, harm, rule)) / 1e6
        keep(f"drift guard and alarm, after {stop:,} runs", micros, "µs a run")
        print(f"{stop:>10,}{micros:>10.1f}{held:>10.2f}", flush=True)
    print(f"false alarms of the alarm that follows: {rule.share:.4f} of 0.05 ± {rule.within:.4f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rule.json"
        rule.save(path)
        again = DriftBet(ranks[:1])
        again.restore(json.loads(json.dumps(drift.to_json())))
        same = again.observe(0.3) == drift.observe(0.3)
        print(f"resumed alike: guard {same}, alarm {vars(Following.load(path)) == vars(rule)}")


def main() -> None:
    """Run all of it, or a small part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    quick = parser.parse_args().quick
    monitor = changed_policy(*((200, 50) if quick else (1500, 800)))
    guards(monitor, 50 if quick else 400)
    stream(1_000 if quick else 100_000)


if __name__ == "__main__":
    main()
