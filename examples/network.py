"""A neural network in place of the forest: the same monitor, the same promises.

    python examples/network.py

To train it, PyTorch is needed: ``pip install 'ontarget[network]'``. The fitted monitor works
without PyTorch.
"""

from __future__ import annotations

from ontarget import GoalMonitor, Target
from ontarget.domains import Tamarisk, simulate
from ontarget.models import QuantileNetwork

TARGET = Target.at_least(-80)


def main(past: int = 1500, new: int = 300) -> dict[str, GoalMonitor]:
    river = Tamarisk("tight-budget")
    runs, later = simulate(river, past, seed=0), simulate(river, new, seed=1)
    monitors = {"forest": GoalMonitor(), "network": GoalMonitor(QuantileNetwork())}
    for name, monitor in monitors.items():
        monitor.fit(runs, progress=False)
        found = monitor.evaluate(later, TARGET)
        rate = found.alarms(false_alarm_rate=0.05).quality.false_alarms.value
        print(f"{name:8} Brier {found.brier().value:.4f}   false alarms {rate:.1%}, promised 5 %")
    return monitors


if __name__ == "__main__":
    main()
