"""Forests asked live: rows without checks, into arrays that the caller keeps."""

from __future__ import annotations

from ontarget._typing import FloatArray
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._batch_kernel import limits_of_rows
from ontarget.models.guided._guides_kernel import Guides, limits_of_guided_rows

__all__ = ["LiveForest"]


class LiveForest:
    """A forest, guided or not, that answers without checks; any thread may ask it.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget.models import QuantileForest
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> live = QuantileForest(n_trees=5, min_leaf=2).fit(X, X[:, 0]).live()
    >>> left, right = np.empty((1, 1)), np.empty((1, 1))
    >>> live.limits(X[:1], np.array([[99.0]]), left, right)
    >>> print(right.round(3))
    [[1.]]
    """

    __slots__ = ("_forest", "_guides")

    def __init__(self, forest: ForestTable, guides: Guides | None = None) -> None:
        self._forest = forest
        self._guides = guides

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write both limits of the CDF of each row at each of its values.

        X is (rows, features), the others (rows, values); all contiguous float64.
        """
        if self._guides is None:
            limits_of_rows(self._forest, X, y, (left, right))
        else:
            limits_of_guided_rows((self._guides, self._forest), X, y, (left, right))
