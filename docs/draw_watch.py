"""Draw the README's picture: a failing river run, its alarm, and two runs that end well.

``python docs/draw_watch.py`` writes docs/images/watch.png.
"""

from __future__ import annotations

from pathlib import Path

from ontarget import GoalMonitor, Target
from ontarget.domains import Tamarisk, simulate
from ontarget.evaluation.figures import episodes_chart

PICTURE = Path(__file__).parent / "images" / "watch.png"
RUNS = [272, 111, 211]  # the README's failing run first


def main() -> None:
    """Fit a monitor as the README does, watch three new runs, and draw them."""
    river, target = Tamarisk("tight-budget"), Target.at_least(-80)
    monitor = GoalMonitor().fit(simulate(river, 3_000, seed=0), progress=False)
    watched = simulate(river, 300, seed=1).take(RUNS)
    found = monitor.evaluate(watched, target)
    watch = monitor.watch(target, false_alarm_rate=0.05)
    figure = episodes_chart(found.p, found.met, threshold=watch.trigger.threshold)
    figure.savefig(PICTURE, dpi=160)


if __name__ == "__main__":
    main()
