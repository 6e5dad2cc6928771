"""How near p of a goal over two behaviors comes to the truth, and what a live step costs.

Two random walks move together; the goal is that both end above 0. The true probability is known: a
normal distribution of two dimensions. Beside ours stand what one would write instead: the product
of the two marginal probabilities, the smaller of them, and a boosted classifier of the event.

    python bench/goals.py --episodes 2000 --seed 0
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.ensemble import HistGradientBoostingClassifier

from ontarget import Episodes, Goal, GoalMonitor, Target
from yardstick.figures import keep

STEPS, CORRELATION, TESTED = 10, 0.7, 300
GOAL = Goal.parse("left >= 0 & right >= 0")
COVARIANCE = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])


def walks(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The moves of n pairs of walks, (n, steps, 2), and where they stand before each."""
    rng = np.random.default_rng(seed)
    moves = rng.multivariate_normal([0.0, 0.0], COVARIANCE, size=(n, STEPS))
    return moves, np.cumsum(moves, axis=1) - moves


def recorded(n: int, seed: int) -> Episodes:
    """Pairs of walks as episodes."""
    moves, before = walks(n, seed)
    signals = {"left": moves[..., 0], "right": moves[..., 1]}
    return Episodes.from_arrays(before, signals, behavior={"left": "sum", "right": "sum"})


def truth(position: np.ndarray, t: int) -> np.ndarray:
    """P(both end at 0 or above), given where they stand before step t."""
    law = multivariate_normal([0.0, 0.0], COVARIANCE * (STEPS - t))
    return np.asarray(law.cdf(position))


def classifier(n: int, seed: int) -> Any:
    """A boosted classifier of the event, trained on the rows of every step."""
    moves, before = walks(n, seed)
    met = (moves.sum(axis=1) >= 0.0).all(axis=1)
    steps = np.broadcast_to(np.arange(STEPS)[None, :, None], (n, STEPS, 1))
    rows = np.concatenate([before, steps], axis=2).reshape(-1, 3)
    return HistGradientBoostingClassifier(random_state=seed).fit(rows, np.repeat(met, STEPS))


def main() -> None:
    """Print the table and the cost of a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n, seed = options.episodes, options.seed
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
        print(f"{name:<20}{1e4 * np.mean(error**2):>20.1f}{np.mean(np.abs(error)):>15.4f}")
    cost(monitor)


def cost(monitor: GoalMonitor, runs: int = 300) -> None:
    """Print what a live step costs."""
    watch, alone = (
        monitor.watch(GOAL, alarm_below=0.1),
        monitor.only("left").watch(Target.at_least(0), alarm_below=0.1),
    )
    moves, before = walks(runs, 7)
    spent: tuple[list[float], list[float]] = ([], [])
    for i in range(runs):
        watch.reset()
        alone.reset()
        brought: Any = 0.0
        for t in range(STEPS):
            start = perf_counter()
            watch.step(before[i, t], brought)
            middle = perf_counter()
            alone.step(before[i, t], brought["left"] if t else 0.0)
            spent[0].append(middle - start)
            spent[1].append(perf_counter() - middle)
            brought = {"left": float(moves[i, t, 0]), "right": float(moves[i, t, 1])}
    goal, target = (1e6 * float(np.median(one)) for one in spent)
    keep(
        "one live step, a goal over two behaviors",
        goal,
        "µs",
        beside=f"one target: {target:.0f} µs",
    )
    print(f"a live step of the goal takes {goal:.0f} µs, of a target {target:.0f} µs (medians)")


if __name__ == "__main__":
    main()
