"""A model of a user's own, in one short file: the outcomes of the nearest training rows."""

import numpy as np

from ontarget.models import register


@register("nearest_outcomes")
class NearestOutcomes:
    kind = "nearest_outcomes"

    def __init__(self, k=10):
        self.k = k

    def fit(self, X, y):
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)

    def cdf_limits(self, X, y):
        near, y = self._near(X), np.asarray(y, dtype=float)
        at = y[..., None] if y.ndim == 2 else np.broadcast_to(y, len(near))[:, None, None]
        left, right = ((near[:, None] < at).mean(axis=2), (near[:, None] <= at).mean(axis=2))
        return (left, right) if y.ndim == 2 else (left[:, 0], right[:, 0])

    def quantile(self, X, q, *, side="left"):
        near = np.pad(self._near(X), ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
        return near[:, np.searchsorted(np.arange(near.shape[1] - 1) / (near.shape[1] - 2), q, side)]

    def to_arrays(self):
        return {"X": self.X.ravel(), "y": self.y, "k": np.array([self.k])}

    @classmethod
    def from_arrays(cls, arrays):
        model = cls(int(arrays["k"][0]))
        model.fit(arrays["X"].reshape(arrays["y"].size, -1), arrays["y"])
        return model

    def _near(self, X):
        distance = ((np.asarray(X, dtype=float)[:, None] - self.X) ** 2).sum(axis=2)
        return np.sort(self.y[np.argsort(distance, axis=1, kind="stable")[:, : self.k]], axis=1)
