"""Draw the pictures of docs/gallery.md from the examples that it shows.

    python docs/draw_gallery.py arm goals rover
    python docs/draw_gallery.py desk=helpdesk.parquet,:8,started marathon=boston.parquet,:240
    python docs/draw_gallery.py network

Each argument is the name of an example; its picture is docs/images/gallery-NAME.png. A log is given
as NAME=PATH,TARGET,COLUMN,… with the columns to leave out at the end.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ontarget import Episodes, GoalMonitor, Target
from ontarget.evaluation.figures import episodes_chart

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "examples"))
mpl.use("Agg")


def three_runs(monitor: GoalMonitor, new: Episodes, target: Target) -> Figure:
    """A figure of two runs that met the target and one that missed it, with the alarm's threshold.

    It shows p (the probability of meeting the target) over the steps.
    """
    lengths = np.asarray(new.lengths)
    met = target.contains(new.outcomes, monitor.fitted.grid)
    long = lengths >= np.quantile(lengths, 0.9)  # there is more to see
    chosen = [np.flatnonzero(long & ~met)[0], *np.flatnonzero(long & met)[:2]]
    found = monitor.evaluate(new.take(chosen), target)
    threshold = monitor.watch(target, false_alarm_rate=0.05).trigger.threshold
    return episodes_chart(found.p[: lengths[chosen].max()], found.met, threshold=threshold)


def arm() -> Figure:
    """A figure of runs of the robot arm."""
    return three_runs(*importlib.import_module("robot_arm").main())


def log(*words: str) -> Figure:
    """A figure of runs of a log: its path, the target, and the columns to leave out."""
    return three_runs(*importlib.import_module("log_from_a_path").main(*words))


def goals() -> Figure:
    """A figure of the probabilities of one flight: of both goals together, and of each."""
    said = np.array(importlib.import_module("two_goals").main())
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for name, p, style in zip(
        ("both", "distance", "energy"), said.T, ("-", "--", ":"), strict=True
    ):
        axes.plot(p, style, label=name, linewidth=2)
    axes.set(xlabel="leg", ylabel="probability", ylim=(-0.02, 1.02))
    axes.legend(frameon=False)
    return figure


def rover() -> Figure:
    """A figure of how many alarmed runs reached the goal, with and without the safe mode."""
    switched, control = importlib.import_module("acting_on_alarms").main()
    figure, axes = plt.subplots(figsize=(6.4, 2.0), layout="constrained")
    bars = axes.barh(["left alone", "switched to safe mode"], [100 * control, 100 * switched])
    axes.bar_label(bars, fmt="%.0f %%", padding=4)
    axes.set(xlim=(0, 100), xlabel="% of alarmed runs that reached the goal")
    return figure


def network() -> Figure:
    """A figure of one run of the river, with a forest and with a neural network as the model."""
    example = importlib.import_module("network")
    monitors = example.main(past=600, new=150)
    run = example.simulate(example.Tamarisk("tight-budget"), 300, seed=1).take([272])
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for (name, monitor), style in zip(monitors.items(), ("-", "--"), strict=True):
        axes.plot(monitor.evaluate(run, example.TARGET).p[:, 0], style, label=name, linewidth=2)
    axes.set(xlabel="step", ylabel="probability", ylim=(-0.02, 1.02))
    axes.legend(frameon=False)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "arm": arm,
    "goals": goals,
    "network": network,
    "rover": rover,
}


def main() -> None:
    """Draw the pictures that the arguments name."""
    for word in sys.argv[1:]:
        name, _, place = word.partition("=")
        figure = log(*place.split(",")) if place else PICTURES[name]()
        figure.savefig(DOCS / "images" / f"gallery-{name}.png", dpi=110)


if __name__ == "__main__":
    main()
