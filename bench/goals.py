"""How close p of a goal over two numbers is to the true probability, and what a live step costs.

p is the probability that a run meets its goal. Here two random walks are correlated, and the goal
is that both end above 0. The true probability is known from a normal distribution of two
dimensions. Our p is compared with simpler answers: the product of the probabilities of the two
walks, the smaller of these two, and a boosted classifier.

    python bench/goals.py --episodes 2000 --seed 0

With `--behaviors 3`, only the time of a live step is measured, for a goal over three walks.
"""

from __future__ import annotations

import argparse
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.ensemble import HistGradientBoostingClassifier

from ontarget import Episodes, Goal, GoalMonitor, Target
from yardstick.figures import keep

STEPS, CORRELATION, TESTED = 10, 0.7, 300
NAMES = ("left", "right", "up", "down", "in", "out")
GOAL = Goal.parse("left >= 0 & right >= 0")
COVARIANCE = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])


def walks(n: int, seed: int, k: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The moves of n sets of k random walks, (n, steps, k), and the positions before each move."""
    rng = np.random.default_rng(seed)
    covariance = CORRELATION + (1.0 - CORRELATION) * np.eye(k)
    moves = rng.multivariate_normal(np.zeros(k), covariance, size=(n, STEPS))
    return moves, np.cumsum(moves, axis=1) - moves


def recorded(n: int, seed: int, k: int = 2) -> Episodes:
    """n sets of k random walks as episodes."""
    moves, before = walks(n, seed, k)
    signals = dict(zip(NAMES, np.moveaxis(moves, 2, 0), strict=False))
    return Episodes.from_arrays(before, signals, behavior=dict.fromkeys(signals, "sum"))


def truth(position: np.ndarray, t: int) -> np.ndarray:
    """The true probability that both walks end at 0 or above, given their positions at step t."""
    law = multivariate_normal([0.0, 0.0], COVARIANCE * (STEPS - t))
    return np.asarray(law.cdf(position))


def classifier(n: int, seed: int) -> Any:
    """A boosted classifier of whether both walks end above 0, trained on the rows of all steps."""
    moves, before = walks(n, seed)
    met = (moves.sum(axis=1) >= 0.0).all(axis=1)
    steps = np.broadcast_to(np.arange(STEPS)[None, :, None], (n, STEPS, 1))
    rows = np.concatenate([before, steps], axis=2).reshape(-1, 3)
    return HistGradientBoostingClassifier(random_state=seed).fit(rows, np.repeat(met, STEPS))


def main() -> None:
    """Compare the monitor's p with the truth and with simpler answers; time a live step.

    p is the probability that both walks end above 0.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--behaviors", type=int, help="measure a step of so many, and no more")
    options = parser.parse_args()
    n, seed, k = options.episodes, options.seed, options.behaviors
    if k is not None:
        cost(GoalMonitor().fit(recorded(n, seed, k), progress=False), k)
        return
    monitor = GoalMonitor().fit(recorded(n, seed), progress=False)
    boosted = classifier(n, seed)
    _, before = walks(TESTED, seed + 1)
    errors: dict[str, list[np.ndarray]] = {}
    for t in range(STEPS):
        X = before[:, t]
        so_far = {"left": X[:, 0], "right": X[:, 1]}
        each = [
            monitor.only(name).outlook(t, X, so_far[name], Target.at_least(0)).p for name in so_far
        ]
        said = {
            "independence": each[0] * each[1],
            "least of the two": np.minimum(*each),
            "boosted classifier": boosted.predict_proba(np.column_stack([X, np.full(TESTED, t)]))[
                :, 1
            ],
            "ours, common map": monitor.outlook(t, X, so_far, GOAL).p,
            "ours": monitor.outlook(t, X, so_far, GOAL, calibration="target").p,
        }
        true = truth(X, t)
        for name, p in said.items():
            errors.setdefault(name, []).append(p - true)
    print(f"{n} episodes of {STEPS} steps, correlation {CORRELATION}, seed {seed}")
    print(f"{'p of an AND by':<20}{'excess Brier ·10⁴':>20}{'mean |error|':>15}")
    for name, found in errors.items():
        error = np.concatenate(found)
        keep(f"excess Brier · 10⁴ of an AND, {name}", 1e4 * float(np.mean(error**2)), "")
        print(f"{name:<20}{1e4 * np.mean(error**2):>20.1f}{np.mean(np.abs(error)):>15.4f}")
    cost(monitor)


def cost(monitor: GoalMonitor, k: int = 2, runs: int = 300) -> None:
    """Print how long a live step takes, in wall-clock time and in processor time."""
    goal = Goal({name: Target.at_least(0) for name in NAMES[:k]})
    watch = monitor.watch(goal, alarm_below=0.1)
    alone = monitor.only("left").watch(Target.at_least(0), alarm_below=0.1)
    moves, before = walks(runs, 7, k)
    for name, one in ((f"a goal over {k} behaviors", watch), ("a target", alone)):
        spent = []
        for i in range(runs):
            one.reset()
            brought: Any = 0.0
            for t in range(STEPS):
                start = perf_counter(), thread_time()
                one.step(before[i, t], brought)
                spent.append((perf_counter() - start[0], thread_time() - start[1]))
                signals = dict(zip(NAMES, moves[i, t].tolist(), strict=False))
                brought = signals if one is watch else signals["left"]
        wall, used = 1e6 * np.median(spent, axis=0)
        least = 1e6 * np.quantile([own for _, own in spent], 0.1)
        keep(f"one live step, {name}", float(wall), "µs")
        print(
            f"a live step of {name} takes {wall:.0f} µs, {used:.0f} µs of the processor (medians; "
            f"a tenth takes {least:.0f} µs or less)"
        )


if __name__ == "__main__":
    main()
