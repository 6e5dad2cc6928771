"""What a monitor does over a long time: a changed policy, guards that notice it, many runs.

The runs are CartPole under a policy that pushes at random half of the time. Later this share falls
to 0.42, and runs end better, or it rises to 0.58, and they end worse.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.drift import DriftGuard
from ontarget.integrations import record
from ontarget.models import Marginal
from yardstick.figures import keep

GOAL = Target.at_least(100)


class Balancer:
    """A policy for CartPole: pushes to the side to which the pole leans, and at times at random."""

    def __init__(self, seed: int, noise: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise = noise

    def __call__(self, seen: np.ndarray) -> int:
        if self.rng.random() < self.noise:
            return int(self.rng.integers(2))
        return int(seen[2] + 0.3 * seen[3] > 0.0)


def recorded(n: int, noise: float, seed: int) -> Episodes:
    """Recorded runs of CartPole under one policy; the seed is part of each run's id."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=150)
    return record(env, Balancer(seed, noise), n, seed=seed)


def changed_policy(old: int, test: int) -> GoalMonitor:
    """Print how far p is off under a changed policy, for several ways to deal with the change.

    p is the probability of meeting the target.
    """
    past = recorded(old, 0.5, seed=1)
    monitor = GoalMonitor(reward_bounds=(0, 1)).fit(past, progress=False)
    new, later = recorded(200, 0.42, seed=2), recorded(test, 0.42, seed=3)
    few = new.take(range(50))
    ways = {
        "old monitor": lambda: monitor,
        "recalibrated on 50": lambda: monitor.recalibrate(few),
        "recalibrated on 50, p renewed": lambda: monitor.recalibrate(few, renew_p=True),
        "recalibrated on 200": lambda: monitor.recalibrate(new),
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
        keep(f"ECE after the policy changed, {name}", found.ece().value, "")
    return monitor


def _fresh(runs: Episodes) -> GoalMonitor:
    return GoalMonitor(reward_bounds=(0, 1)).fit(runs, progress=False)


def guards(monitor: GoalMonitor, runs: int) -> None:
    """Print when each guard alarms, for runs that end as before, better and worse.

    A guard collects evidence from finished runs that the process has changed.
    """
    print(f"\nfirst alarm among {runs:,} runs{'drift guard':>20}{'harm guard':>14}")
    for name, noise in (("as before", 0.5), ("better", 0.42), ("worse", 0.58)):
        part, told = recorded(runs, noise, seed=int(100 * noise)), []
        guards = {"drift": monitor.drift_guard(), "harm": monitor.harm_guard(GOAL)}
        for kind, guard in guards.items():
            alarm = "none"
            for i in range(len(part)):
                if guard.observe(part.take([i])).alarm:
                    alarm = str(i + 1)
                    break
            told.append(alarm)
            if alarm != "none":
                keep(f"first alarm of the {kind} guard, runs that end {name}", int(alarm), "runs")
        print(f"   {name:<26}{told[0]:>20}{told[1]:>14}", flush=True)


def stream(runs: int, at_once: int = 100) -> None:
    """Print what a run costs in time and memory, early and late in a long stream of runs.

    Every run is passed to two guards, which collect evidence of a change. Then these are saved and
    loaded, and must continue as if they had not been saved.
    """
    rng = np.random.default_rng(0)

    def walks(n: int, first: int) -> Episodes:
        states, gains = rng.normal(size=(n, 3, 1)), rng.normal(size=(n, 3))
        return Episodes.from_arrays(states, gains, ids=np.arange(first, first + n), horizon=3)

    monitor = GoalMonitor(Marginal()).fit(walks(1000, 10**9), progress=False)
    target = Target.at_least(0.0)
    guards = {"drift guard": monitor.drift_guard(), "harm guard": monitor.harm_guard(target)}
    seconds = dict.fromkeys(guards, 0.0)
    print(f"\nµs a run, {at_once} at once\n{'runs':>10}", *(f"{name:>13}" for name in seconds),
          f"{'MB':>8}")  # fmt: skip
    for first in range(0, runs, at_once):
        some = walks(at_once, first)
        for name, guard in guards.items():
            began = time.process_time()
            guard.observe(some)
            seconds[name] += time.process_time() - began
        done = first + at_once
        if done % (runs // 5) == 0:
            each = (f"{1e6 * one / (runs // 5):>13.1f}" for one in seconds.values())
            micros = 1e6 * sum(seconds.values()) / (runs // 5)
            keep(f"two guards, after {done:,} runs", micros, "µs a run")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{done:>10,}", *each, f"{peak:>8.0f}", flush=True)
            seconds = dict.fromkeys(seconds, 0.0)
    _resumed(monitor, target, guards, walks(200, runs))


def _resumed(
    monitor: GoalMonitor, target: Target, guards: dict[str, DriftGuard], later: Episodes
) -> None:
    """Print whether guards that are loaded from a file continue as if never saved."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.json" for name in guards}
        for name, guard in guards.items():
            guard.save(paths[name])
        size = sum(path.stat().st_size for path in paths.values())
        again = {
            "drift guard": monitor.drift_guard(resume=paths["drift guard"]),
            "harm guard": monitor.harm_guard(target, resume=paths["harm guard"]),
        }
        same = [again[name].observe(later) == one.observe(later) for name, one in guards.items()]
    print(f"saved in {size / 1e6:.1f} MB; resumed alike: {all(same)}")


def main() -> None:
    """Run all parts of this benchmark, or a small part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--stream", type=int, metavar="RUNS", help="a stream of so many runs alone")
    given = parser.parse_args()
    if given.stream is None:
        monitor = changed_policy(*((200, 50) if given.quick else (1500, 800)))
        guards(monitor, 50 if given.quick else 400)
    stream(given.stream or (1_000 if given.quick else 100_000))


if __name__ == "__main__":
    main()
