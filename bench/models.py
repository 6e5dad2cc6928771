"""One row asked live, by each kind of model: in its kernels, and through a watch.

The network is there only if PyTorch is installed: ``pip install 'ontarget[network]'``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ontarget import GoalMonitor, Target
from ontarget.domains import Tamarisk, simulate
from ontarget.models import (
    BoostedQuantiles,
    DistributionRegression,
    QuantileForest,
    QuantileNetwork,
    StackedForest,
)
from ontarget.models._entry import live_model
from yardstick.figures import keep

MODELS = [StackedForest, QuantileForest, BoostedQuantiles, DistributionRegression]
MODELS += [QuantileNetwork] if find_spec("torch") else []


def microseconds(call: Callable[[], object], n: int = 2_000) -> float:
    """The median time of a call, over ten rounds."""
    call()
    rounds = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(n // 10):
            call()
        rounds.append((time.perf_counter() - start) / (n // 10))
    return 1e6 * float(np.median(rounds))


def main() -> None:
    runs = simulate(Tamarisk(), 2_500, seed=0, progress=False)
    target = Target(-60.0, -20.0)  # two ends
    print("Tamarisk, 2,500 episodes of 50 steps, a target of two ends")
    print(f"{'model':<24}{'fit, s':>8}{'kernel, µs':>12}{'watch, µs':>11}{'file, MB':>10}")
    for model in MODELS:
        start = time.perf_counter()
        monitor = GoalMonitor(model()).fit(runs, progress=False)
        seconds = time.perf_counter() - start
        row = monitor.fitted.at(10).inputs(runs.at(10).states[:1], runs.at(10).behavior[:1])
        live = live_model(monitor.fitted.at(10).parts[0][1])
        y, left, right = np.array([[-60.0, -20.0]]), np.empty((1, 2)), np.empty((1, 2))
        kernel = microseconds(lambda: live.limits(row, y, left, right))  # noqa: B023
        watch, states = monitor.watch(target, alarm_below=0.5), runs.at(0).states

        def run() -> None:
            watch.reset()  # noqa: B023
            for t in range(50):
                watch.step(states[t], *([-1.0] if t else []))  # noqa: B023

        with TemporaryDirectory() as folder:
            monitor.save(f"{folder}/one.ontarget")
            size = Path(folder, "one.ontarget").stat().st_size / 1e6
        step = microseconds(run, 100) / 50
        keep(f"one live step, {model.__name__}", step, "µs")
        print(f"{model.__name__:<24}{seconds:>8.0f}{kernel:>12.1f}{step:>11.1f}{size:>10.1f}")


if __name__ == "__main__":
    main()
