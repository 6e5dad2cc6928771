"""What a monitor of the Tamarisk river costs: fit, file, live step, and a fleet of runs.

For comparison, the work of `preset="paper"` is done with other libraries on some of the steps: a
quantile-forest for each step, its predicted distribution at the outcomes of the held-out episodes
(calibrate and assure), and NumPy to rank them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget._keyed import keyed_uniform, keys_of
from ontarget._threads import n_threads
from ontarget.domains import Tamarisk, simulate
from ontarget.episodes import PaperSplit
from yardstick.figures import keep

TARGET = Target(-67.1, -14.5)


def peer_seconds(parts: PaperSplit, steps: list[int]) -> float:
    """Seconds per step for the same work with the libraries quantile-forest and NumPy."""
    from quantile_forest import RandomForestQuantileRegressor

    start = time.perf_counter()
    for t in steps:
        train, calibrate, assure = (part.at(t, grid=parts.train.grid) for part in parts[:3])
        forest = RandomForestQuantileRegressor(
            n_estimators=100, min_samples_leaf=15, max_samples_leaf=None, n_jobs=-1, random_state=0
        )
        forest.fit(train.states, train.response)
        limits = [
            [
                forest.quantile_ranks(part.states, part.response, kind=kind)
                for kind in ("strict", "weak")
            ]
            for part in (calibrate, assure)
        ]
        left, right = limits[0]
        ranks = np.sort(left + keyed_uniform(keys_of(calibrate.ids), 0, t) * (right - left))
        for limit in limits[1]:
            np.searchsorted(ranks, limit)
    return (time.perf_counter() - start) / len(steps)


def fit(parts: PaperSplit) -> GoalMonitor:
    GoalMonitor(preset="paper").fit(split=_first_steps(parts), progress=False)  # compiles
    start = time.perf_counter()
    monitor = GoalMonitor().fit(split=parts, progress=False)
    seconds = time.perf_counter() - start
    keep("fit the default monitor, 50 steps", seconds, "s", asked="< 15 s")
    print(f"fit, default preset     {seconds:6.1f} s for 50 steps (below 15 asked)")
    start = time.perf_counter()
    GoalMonitor(preset="paper").fit(split=parts, progress=False)
    ours = (time.perf_counter() - start) / 50
    theirs = peer_seconds(parts, [0, 2, 25])
    faster = theirs / ours
    keep("fit a monitor as in the paper", faster, "×", asked="≥ 8 ×", beside="quantile-forest")
    print(
        f"fit, paper preset       {ours * 50:6.1f} s; {ours * 1e3:.0f} ms a step, quantile-forest "
        f"{theirs * 1e3:.0f} ms: {faster:.1f} x faster (8 asked)"
    )
    return monitor


def _first_steps(parts: PaperSplit) -> PaperSplit:
    small = [part.take(np.arange(60)) for part in parts[:3]]
    return PaperSplit(small[0], small[1], small[2], None)


def file(monitor: GoalMonitor, path: Path) -> GoalMonitor:
    start = time.perf_counter()
    monitor.save(path)
    saved = time.perf_counter() - start
    size = path.stat().st_size / 1e6
    start = time.perf_counter()
    loaded = GoalMonitor.load(path)
    opened = time.perf_counter() - start
    start = time.perf_counter()
    loaded.watch(TARGET)
    watched = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(100):
        loaded.watch(TARGET)
    another = (time.perf_counter() - start) / 100
    keep("model file, a step", size / 50, "MB", asked="1.2 MB")
    keep("load a model file", opened * 1e3, "ms", asked="≤ 50 ms")
    keep("a watch for a further run", another * 1e6, "µs")
    print(f"file                    {size:6.1f} MB, {size / 50:.2f} a step (1.2 asked)")
    print(
        f"save {saved:.2f} s, load {opened * 1e3:.1f} ms (50 asked), first watch {watched:.2f} s "
        f"(every block checked), another {another * 1e6:.0f} µs"
    )
    return loaded


def live(monitor: GoalMonitor, runs, n_steps: int) -> None:
    watch = monitor.watch(TARGET, false_alarm_rate=0.05)
    states = [runs.at(t).states for t in range(50)]
    rewards = [np.zeros(len(runs)), *(runs.rewards_at(t) for t in range(50))]
    taken = np.full(n_steps, 0)  # written to now, so that its pages are no growth
    before, k = memory_mb(), 0
    while k < n_steps:
        i = (k // 50) % len(runs)
        watch.reset()
        for t in range(50):
            state, reward = states[t][i], float(rewards[t][i])
            start = time.perf_counter_ns()
            watch.step(state, reward)
            taken[k] = time.perf_counter_ns() - start
            k += 1
            if k == 10_000:
                before = memory_mb()
            if k == n_steps:
                break
    p50, p99, p999 = np.percentile(taken[1000:], [50, 99, 99.9]) / 1e3
    keep("one live step, median", p50, "µs", asked="≤ 60 µs")
    keep("one live step, 99th percentile", p99, "µs", asked="≤ 250 µs")
    print(
        f"Watch.step              p50 {p50:.1f} µs (60 asked), p99 {p99:.1f} µs (250 asked), "
        f"p99.9 {p999:.0f} µs"
    )
    print(f"memory                  {memory_mb() - before:+.1f} MB over {n_steps:,} steps")


def fleet(monitor: GoalMonitor, runs, agents: int = 1_000) -> None:
    states = np.stack([runs.at(t).states[:agents] for t in range(50)])
    rewards = np.stack([np.zeros(agents), *(runs.rewards_at(t)[:agents] for t in range(49))])
    equal = fleet_seconds(monitor, states, rewards, np.zeros(agents, dtype=int))
    spread = fleet_seconds(monitor, states, rewards, np.arange(agents) % 50)
    keep(f"one live step of {agents:,} runs in a call", equal * 1e6, "µs a run", asked="≤ 8 µs")
    print(
        f"FleetWatch.step         {equal * 1e6:.1f} µs an agent, {agents:,} in a call, all at one "
        f"step (8 asked)\n                        {spread * 1e6:.1f} µs spread over all 50 steps: "
        f"{spread / equal:.2f} x as long"
    )


def fleet_seconds(monitor: GoalMonitor, states, rewards, start, rounds: int = 3) -> float:
    """Seconds per agent and call of a fleet (many runs watched at once), over 50 calls.

    An agent whose run ends begins another.
    """
    everyone, taken = np.arange(start.size), []
    watch = monitor.fleet(TARGET, start.size)
    for _ in range(rounds):
        watch.reset()
        for t in range(start.max()):
            late = np.flatnonzero(start > t)
            watch.step(states[t, late], rewards[t, late], agents=late)
        seconds = 0.0
        for _ in range(50):
            t = watch.steps
            now, earned = states[t, everyone], rewards[t, everyone]
            began = time.perf_counter()
            watch.step(now, earned)
            seconds += time.perf_counter() - began
            watch.reset(np.flatnonzero(watch.steps == 50))
        taken.append(seconds / 50 / start.size)
    return min(taken)


def long_horizon(folder: Path, horizon: int = 1_000, n: int = 1_000) -> None:
    """Print what a watch costs if runs have a thousand steps: the first watch, and another one."""
    rng = np.random.default_rng(0)
    drift = rng.normal(size=n)
    rewards = 0.05 * drift[:, None] + rng.normal(size=(n, horizon))
    so_far = np.cumsum(rewards, axis=1) - rewards
    states = np.stack(
        [np.repeat(drift[:, None], horizon, 1), rng.normal(size=so_far.shape), so_far]
    )
    runs = Episodes.from_arrays(np.moveaxis(states, 0, 2), rewards)
    GoalMonitor().fit(runs, progress=False).save(folder / "long.ontarget")
    del runs, states
    monitor, target = GoalMonitor.load(folder / "long.ontarget"), Target.at_least(0.0)
    before, start = memory_mb(), time.perf_counter()
    monitor.watch(target, alarm_below=0.5)
    first, grown, further = time.perf_counter() - start, memory_mb() - before, []
    for _ in range(20):
        start = time.perf_counter()
        monitor.watch(target, alarm_below=0.5)
        further.append(time.perf_counter() - start)
    print(
        f"horizon {horizon:,}           first watch {first * 1e3:.0f} ms and {grown:.1f} MB, "
        f"one for a further run {min(further) * 1e6:.0f} µs (100 asked)"
    )


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1_000_000)
    asked = options.parse_args()
    episodes = simulate(Tamarisk("paper"), 8_000, seed=0)
    parts = episodes.split(train=2_500, calibrate=2_500, assure=1_000)
    print(f"Tamarisk, 2,500 + 2,500 + 1,000 episodes, 50 steps, {n_threads()} threads")
    monitor = fit(parts)
    with tempfile.TemporaryDirectory() as folder:
        loaded = file(monitor, Path(folder) / "river.ontarget")
        live(loaded, parts.rest, asked.steps)
        fleet(loaded, parts.rest)
        long_horizon(Path(folder))


if __name__ == "__main__":
    main()
