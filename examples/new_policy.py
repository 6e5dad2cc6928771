"""A new policy, judged before it has run: draw the recorded runs that it would have made.

    python examples/new_policy.py

A rover chooses at each of six legs between a fast way and a careful one, by a coin. The log has the
chance of every choice. The new policy is careful seven times in ten. Its own runs would be best to
fit on, but there are none yet. So runs are drawn at random from the log, each with a chance in
proportion to how much likelier the new policy would have made it. The drawn runs are distributed
like runs of the new policy, so all promises for recorded runs hold for its runs.
"""

from __future__ import annotations

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import QuantileForest

LEGS, COIN, NEW = 6, 0.5, 0.7  # the chance of the careful way: recorded, and from now on
TARGET = Target.at_least(4.8)
BOUND = max(NEW / COIN, (1 - NEW) / (1 - COIN)) ** LEGS  # known before any run is seen


def played(
    n: int, careful: float, rng: np.random.Generator, name: str
) -> tuple[Episodes, np.ndarray]:
    """Runs of a policy that is careful with this chance, and what it chose at each leg."""
    rough = np.abs(rng.normal(size=(n, LEGS)))
    chose = rng.random((n, LEGS)) < careful
    slips = rng.random((n, LEGS)) < np.minimum(0.6 * rough, 0.9)
    metres = np.where(chose, 0.95, np.where(slips, 0.3, 1.1)) + 0.05 * rng.normal(size=(n, LEGS))
    ids = [f"{name}-{i}" for i in range(n)]
    return Episodes.from_arrays(rough[:, :, None], metres, ids=ids, features=["rough"]), chose


def main(logged: int = 6000, fresh: int = 1500, trees: int = 50) -> None:
    rng = np.random.default_rng(0)
    log, chose = played(logged, COIN, rng, "logged")
    truth, _ = played(fresh, NEW, rng, "new")

    # What the new policy does with its chance, over what the log says was done with what chance.
    ratios = np.where(chose, NEW / COIN, (1 - NEW) / (1 - COIN))
    drawn = log.thinned(ratios, bound=BOUND)
    print(f"{len(drawn):,} of {logged:,} runs drawn, about one in {BOUND:.1f}")

    print(f"on {fresh:,} true runs of the new policy, of which "
          f"{TARGET.contains(truth.outcomes).mean():.1%} reach the goal")  # fmt: skip
    for name, runs in (("all logged runs", log), ("the drawn runs", drawn)):
        monitor = GoalMonitor(QuantileForest(n_trees=trees)).fit(runs, progress=False)
        found = monitor.evaluate(truth, TARGET, resamples=20)
        alarms = found.alarms(false_alarm_rate=0.1).quality.false_alarms
        print(f"   fitted on {name:<16} p says {np.nanmean(found.p[0]):.1%} at the start, "
              f"{alarms.value:.1%} false alarms of 10 %")  # fmt: skip


if __name__ == "__main__":
    main()
