"""From the path of your own log to a verdict: help-desk cases, a marathon, any table of runs.

    python examples/log_from_a_path.py helpdesk.parquet :8 started  # closed within 8 days?
    python examples/log_from_a_path.py boston.parquet :240          # run in at most 240 minutes?

The file needs the columns episode, step and reward. All other columns are features, except those
named at the end of the command, which are left out. The monitor is fitted on two thirds of the
runs, and checked on the other third.
"""

from __future__ import annotations

import sys

import numpy as np

from ontarget import Episodes, GoalMonitor, Target

MOST = 4000  # runs are enough for an example


def main(path: str, wanted: str, *drop: str) -> tuple[GoalMonitor, Episodes, Target]:
    target = Target.parse(wanted)
    log = Episodes.read(path, episode="episode", step="step", reward="reward", drop=list(drop))
    order = np.random.default_rng(0).permutation(len(log))[:MOST]
    past, new = np.split(order, [2 * order.size // 3])
    monitor = GoalMonitor().fit(log.take(past), progress=False)
    later = log.take(new)
    print(log.describe(), monitor.evaluate(later, target).summary(), sep="\n\n")
    return monitor, later, target


if __name__ == "__main__":
    main(*sys.argv[1:])
