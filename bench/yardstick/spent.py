"""A program that measures what the `GoalMonitor` of one version of the code costs on a question.

Run as ``PYTHONPATH=CHECKOUT/src python spent.py FOLDER``. CHECKOUT is a folder with one version of
this repository. Only names that every version since f7bcf78 has are used here. The program prints
one line of JSON: seconds of processor time of the fit, bytes of the file, and the median of live
steps in microseconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

STEPS = 20_000  # live steps whose median counts
FEW = 60  # episodes of a first fit, which compiles


def main(folder: Path) -> None:
    from ontarget import Episodes, GoalMonitor, Target

    about = json.loads((folder / "question.json").read_text())
    frame = pl.read_parquet(folder / "past.parquet")
    past = Episodes.from_frame(
        frame,
        episode="episode",
        step="step",
        reward="reward",
        features=about["features"],
        categorical=about["categorical"],
        horizon=about["horizon"],
        first_step=0,
    )
    GoalMonitor().fit(past.take(np.arange(FEW)), progress=False)
    parts = {} if about["parts"] is None else {"split": past.split(**about["parts"])}
    given = () if parts else (past,)
    started = time.process_time()
    monitor = GoalMonitor().fit(*given, **parts, seed=about["seed"], progress=False)
    fit = time.process_time() - started
    file = folder / "model.ontarget"
    monitor.save(file)
    loaded = GoalMonitor.load(file)
    step = live(loaded.watch(Target(*about["target"])), past)
    print(json.dumps({"fit": fit, "file": file.stat().st_size, "step": step}))


def live(watch, runs) -> float:
    """The median time of one live step in microseconds, over whole runs one after the other."""
    rows = [runs.at(t) for t in range(runs.horizon)]
    rewards = [runs.rewards_at(t) for t in range(runs.horizon)]
    taken: list[int] = []
    here = [dict(zip(one.ids.tolist(), range(len(one.ids)), strict=True)) for one in rows]
    for run in rows[0].ids.tolist():
        watch.reset()
        earned = 0.0
        for t in range(runs.horizon):
            if run not in here[t]:
                break
            i = here[t][run]
            state = rows[t].states[i]
            started = time.perf_counter_ns()
            watch.step(state, earned)
            taken.append(time.perf_counter_ns() - started)
            earned = float(rewards[t][i])
        if len(taken) >= STEPS:
            break
    return float(np.median(taken[len(taken) // 20 :])) / 1e3


if __name__ == "__main__":
    main(Path(sys.argv[1]))
