"""The runs that the benchmarks of the service send; they are the same every time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ontarget import Episodes, GoalMonitor, Outlook, Target

HORIZON = 50
FEATURES = 4
TARGET = "0:"
RATE = 0.05
_MONITORS: list[GoalMonitor] = []


def write_model(folder: Path) -> Path:
    """Fit a monitor to random walks, and write its model file; returns the path."""
    rng = np.random.default_rng(0)
    shape = 1_000, HORIZON
    walks = Episodes.from_arrays(rng.normal(size=(*shape, FEATURES)), rng.normal(size=shape))
    monitor = GoalMonitor().fit(walks, progress=False)
    _MONITORS[:] = [monitor]
    monitor.save(folder / "walk.ontarget")
    return folder / "walk.ontarget"


def message(agent: str, step: int, run: str = "1") -> dict:
    """The message that reports a step of an agent; always the same for the same arguments."""
    rng = np.random.default_rng([zlib.crc32(f"{agent}/{run}".encode()), step])
    state = rng.normal(size=FEATURES).tolist()
    reward = float(rng.normal()) if step else 0.0
    return {"agent": agent, "run": run, "step": step, "state": state, "reward": reward}


def oracle(agent: str, steps: int) -> Iterator[Outlook]:
    """The right answer (`Outlook`) for each step of an agent's run: that of a `Watch`."""
    watch = _MONITORS[0].watch(Target.parse(TARGET), false_alarm_rate=RATE)
    for step in range(steps):
        sent = message(agent, step)
        yield watch.step(sent["state"], sent["reward"])
