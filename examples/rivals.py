"""PCQR (the paper's method) and its rivals, used as in scikit-learn: fit, calibrate, predict.

    python examples/rivals.py

All methods get the same forest and the same calibration rows. The noise grows with the first
feature, so intervals of constant width are too wide where this feature is small, and too narrow
where it is large.
"""

from __future__ import annotations

import numpy as np

from ontarget import CQR, PCQR, QuantileForest, QuantileRegression, SplitConformal, Target
from ontarget.evaluation import coverage


def data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3))
    return X, 4.0 * X[:, 1] + (0.2 + 2.0 * X[:, 0]) * rng.normal(size=rows)


def main(rows: int = 2000) -> None:
    model = QuantileForest(min_leaf=20).fit(*data(rows, 0))
    X_cal, y_cal = data(rows, 1)
    X, y = data(rows, 2)
    calm, rough = X[:, 0] < 0.2, X[:, 0] > 0.8
    print("90 % intervals       covered    calm    rough   mean width")
    for kind in (PCQR, CQR, SplitConformal, QuantileRegression):
        calibrated = kind(model).calibrate(X_cal, y_cal)
        lower, upper = calibrated.interval(X, 0.9)
        shares = [coverage(lower[w], upper[w], y[w]).value for w in (y < np.inf, calm, rough)]
        print(
            f"{kind.__name__:<20}{shares[0]:8.1%}{shares[1]:8.1%}{shares[2]:8.1%}"
            f"{np.mean(upper - lower):12.2f}"
        )

    # Of these four, only PCQR also works the other way: from a target to its probability.
    pcqr = PCQR(model).calibrate(X_cal, y_cal)
    low, p, high = pcqr.probability([[0.1, 0.5, 0.5], [0.9, 0.5, 0.5]], Target(1.0, 3.0))
    for name, i in (("calm", 0), ("rough", 1)):
        print(f"P(1 <= y <= 3), {name}: {p[i]:.3f}, from {low[i]:.3f} to {high[i]:.3f}")


if __name__ == "__main__":
    main()
