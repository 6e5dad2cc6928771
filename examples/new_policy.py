"""How to judge a new policy before it has run: draw recorded runs as if it had made them.

    python examples/new_policy.py

At each of six legs, a rover chooses between a fast way and a careful one, by tossing a coin. The
log has the probability of every choice. The new policy is careful seven times in ten. It would be
best to fit a monitor on runs of the new policy, but there are none yet. So runs are drawn at random
from the log, each with a probability in proportion to how much more likely it is under the new
policy. The drawn runs are distributed like runs of the new policy, so all promises that hold for
recorded runs hold for runs of the new policy.
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
    """Runs of a policy that is careful with this probability, and its choices at each leg."""
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
