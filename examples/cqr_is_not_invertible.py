"""CQR can give the same interval at two levels, so an interval has no single probability.

CQR (conformalized quantile regression) turns a level such as 80 % into an interval. PCQR, the
paper's method, can be inverted: from a target to its probability. It uses one rising function, the
same for all levels, from the predicted CDF to the calibrated CDF, and this function is inverted.
(It rises in steps of 1/(n + 1), so with n = 99 two levels such as 0.891 and 0.9 may share an
interval.) CQR has no such function: it computes a separate correction for each level. So it can
give the same interval at levels that are far apart, as this counterexample from the paper shows,
and an interval then has no single probability. For one row, the model's quantiles at 0.05, 0.1, 0.9
and 0.95 are a, a + e, b − e and b. In the calibration set, too few outcomes are inside the model's
80 % intervals, and too many are inside its 90 % intervals. So CQR widens the 80 % interval by
exactly e more than the 90 % interval on each side, and both become equal.
"""

from __future__ import annotations

import numpy as np

from ontarget import CQR, PCQR, Target

LEVELS = np.array([0.0, 0.05, 0.1, 0.9, 0.95, 1.0])
# One continuous, strictly increasing quantile function per kind of row. In the first a = −2, b = 2
# and e = 1. Every number here is a sum of powers of two, so that nothing is rounded.
VALUES = np.array(
    [
        [-4.0, -2.0, -1.0, 1.0, 2.0, 4.0],
        [-4.0, -1.75, -0.59375, 0.59375, 1.75, 4.0],
    ]
)


class TwoKinds:
    """A model with two kinds of rows; a row's feature says which of two distributions it has."""

    def cdf_limits(self, X, y):
        values = np.asarray(y, dtype=float)
        values = np.broadcast_to(values, (len(X),)) if values.ndim == 0 else values
        kinds = np.asarray(X)[:, 0].astype(int)
        mass = np.stack([np.interp(values[i], VALUES[k], LEVELS) for i, k in enumerate(kinds)])
        return mass, mass

    def quantile(self, X, q, *, side="left"):
        kinds = np.asarray(X)[:, 0].astype(int)
        return np.stack([np.interp(q, LEVELS, VALUES[k]) for k in kinds])


def calibration_set() -> tuple[np.ndarray, np.ndarray]:
    """99 rows with distinct outcomes: 10 of the first kind near 0, and 89 of the second kind."""
    first = np.linspace(-0.45, 0.45, 10)
    second = np.arange(1, 90) / 64 * np.where(np.arange(89) % 2, 1.0, -1.0)
    X = np.concatenate((np.zeros((10, 1)), np.ones((89, 1))))
    return X, np.concatenate((first, second))


def main() -> None:
    X, y = calibration_set()
    row = np.zeros((1, 1))
    cqr, pcqr = CQR(TwoKinds()).calibrate(X, y), PCQR(TwoKinds()).calibrate(X, y)
    print("level   correction   CQR interval         PCQR interval")
    for level in (0.8, 0.9):
        (lower,), (upper,) = cqr.interval(row, level)
        (left,), (right,) = pcqr.interval(row, level)
        print(
            f"{level:5.2f}   {cqr.correction(level):+10.2f}   [{lower:+.4f}, {upper:+.4f}]"
            f"   [{left:+.4f}, {right:+.4f}]"
        )
    low, p, high = pcqr.probability(row, Target(-1.5, 1.5))
    print(f"PCQR's probability of [-1.5, 1.5]: {p[0]:.3f}, from {low[0]:.2f} to {high[0]:.2f}")


if __name__ == "__main__":
    main()
