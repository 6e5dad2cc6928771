"""``ontarget warm``: compiles the numerical code ahead of its first use."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from ontarget._progress import progress_bar
from ontarget.cli.options import AsJson

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor

_RUNS, _STEPS = 120, 4


def warm(as_json: AsJson = False) -> None:
    """Compile the numerical code for this machine now, so that the first real use is fast.

    It runs a small fit, a watch, an evaluation and an explanation. The compiled code is kept on
    disk; a second call only checks it, in a few seconds.
    """
    start = perf_counter()
    stages: dict[str, Callable[[GoalMonitor], None]] = {
        "watching": _watch,
        "evaluating": _evaluate,
        "explaining": _explain,
        "simulating": _simulate,
    }
    with progress_bar("fitting", 1 + len(stages), unit="parts", shown=not as_json) as reached:
        monitor = _fitted()
        for done, (name, use) in enumerate(stages.items(), start=1):
            reached(done, name)
            use(monitor)
    seconds = perf_counter() - start
    if as_json:
        typer.echo(json.dumps({"seconds": round(seconds, 1)}))
        return
    typer.echo(f"compiled and kept for this machine, in {seconds:.0f} s")


def _runs(seed: int) -> Episodes:
    """A few simulated runs of different lengths, with a number, a category and missing values."""
    import numpy as np
    import polars as pl

    from ontarget import Episodes

    rng = np.random.default_rng(seed)
    run, step = (one.ravel() for one in np.mgrid[:_RUNS, :_STEPS])
    table = pl.DataFrame(
        {
            "episode": run,
            "step": step,
            "level": np.where(rng.random(run.size) < 0.1, np.nan, rng.normal(size=run.size)),
            "mode": np.array(["calm", "busy"])[rng.integers(2, size=run.size)],
            "reward": rng.normal(size=run.size),
        }
    )
    ragged = table.filter((pl.col("step") < 2) | (pl.col("episode") % 3 > 0))
    return Episodes.from_frame(ragged, horizon=_STEPS)


def _fitted() -> GoalMonitor:
    from ontarget import GoalMonitor

    return GoalMonitor().fit(_runs(0), progress=False)


def _watch(monitor: GoalMonitor) -> None:
    from ontarget import Target

    state = {"level": 0.5, "mode": "calm"}
    monitor.watch(Target.at_least(0.0), alarm_below=0.5).step(state)
    monitor.fleet(Target.at_least(0.0), 2, alarm_below=0.5).step([[0.5, 0.0], [0.1, 1.0]])


def _evaluate(monitor: GoalMonitor) -> None:
    from ontarget import Below, Target

    monitor.evaluate(_runs(1), Target.at_least(0.0), progress=False).summary(Below(0.5))


def _explain(monitor: GoalMonitor) -> None:
    from ontarget import Target

    states = [[0.5, 0.0], [0.1, 1.0]]
    monitor.explain(1, states[1], 0.5, Target.at_least(0.0), before=(states[0], 0.0))
    monitor.path_band(1, states, 0.5, 0.8)


def _simulate(_: GoalMonitor) -> None:
    from ontarget.domains import simulate

    for domain in ("tamarisk", "skirmish"):
        simulate(domain, 4, progress=False)
