"""Conditional distributions that are known exactly, for tests: every answer is exact in floats."""

from __future__ import annotations

import numpy as np


class Uniform:
    """F(y | x) = y on [0, 1], whatever the row: an outcome is its own rank."""

    kind = "known_uniform"

    def cdf_limits(self, X, y):
        values = np.asarray(y, dtype=float)
        values = np.broadcast_to(values, (len(X),)) if values.ndim == 0 else values
        mass = np.clip(values, 0.0, 1.0)
        return mass, mass.copy()

    def quantile(self, X, q, *, side="left"):
        levels = np.asarray(q, dtype=float)
        at = levels.copy()
        if side == "left":
            at = np.where(levels <= 0.0, -np.inf, np.where(levels > 1.0, np.inf, at))
        else:
            at = np.where(levels < 0.0, -np.inf, np.where(levels >= 1.0, np.inf, at))
        return np.tile(at, (len(X), 1)) if levels.ndim else np.full(len(X), at)

    def predict(self, X):
        return np.full(len(X), 0.5)


class Atoms:
    """Mass on a few values, the same for every row."""

    kind = "known_atoms"

    def __init__(self, values, masses):
        self.values = np.asarray(values, dtype=float)
        cumulative = np.cumsum(np.asarray(masses, dtype=float))
        self.upto = np.concatenate(([0.0], cumulative / cumulative[-1]))

    def cdf_limits(self, X, y):
        values = np.asarray(y, dtype=float)
        values = np.broadcast_to(values, (len(X),)) if values.ndim == 0 else values
        left = self.upto[np.searchsorted(self.values, values, side="left")]
        right = self.upto[np.searchsorted(self.values, values, side="right")]
        return left, right

    def quantile(self, X, q, *, side="left"):
        levels = np.asarray(q, dtype=float)
        padded = np.concatenate((self.values, [np.inf]))
        at = padded[np.searchsorted(self.upto[1:], levels, side=side)]
        # Q(q <= 0) is -inf on the left; on the right only below 0.
        at = np.where(levels <= 0.0 if side == "left" else levels < 0.0, -np.inf, at)
        return np.tile(at, (len(X), 1)) if levels.ndim else np.full(len(X), at)

    def predict(self, X):
        return np.full(len(X), float(np.sum(np.diff(self.upto) * self.values)))


class Shifted:
    """A known distribution moved to each row's first feature: F(y | x) = F(y − x₀)."""

    kind = "known_shifted"

    def __init__(self, law):
        self.law = law

    def _base(self, X, y):
        shift = np.asarray(X, dtype=float)[:, 0]
        values = np.asarray(y, dtype=float)
        return values - (shift[:, None] if values.ndim == 2 else shift)

    def cdf_limits(self, X, y):
        return self.law.cdf_limits(X, self._base(X, y))

    def quantile(self, X, q, *, side="left"):
        at = self.law.quantile(X, q, side=side)
        shift = np.asarray(X, dtype=float)[:, 0]
        return at + (shift[:, None] if at.ndim == 2 else shift)

    def predict(self, X):
        return self.law.predict(X) + np.asarray(X, dtype=float)[:, 0]
