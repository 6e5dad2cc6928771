"""The base class of all forests, with what monitors and scikit-learn need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from ontarget._arguments import whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import ArrayLike, FloatArray, IntArray
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import DistributionEstimator
from ontarget.models.forest._members import Members
from ontarget.models.forest._origins import in_few_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Leaves on pooled steps have at least this many rows, however short most episodes are.
_LEAST_POOLED = 5
_BLOCK = 32


class ForestEstimator(DistributionEstimator):
    """The base class of models that store training rows in the leaves of trees.

    A leaf holds at least ``min_leaf`` rows; at most ``n_jobs`` threads are used.
    """

    min_leaf: int
    n_jobs: int | None
    training_episodes_: IntArray
    training_steps_: IntArray

    @property
    def row_share(self) -> float:
        """The total weight of the training rows in a prediction, from 0 to 1.

        It is 1 for a plain forest. In a mixture with other models, it is the weight of the forests.
        """
        return 1.0

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, in the order of the columns of `row_weights`.

        The outcomes are ascending.
        """
        raise NotImplementedError

    def live(self) -> Any:
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
        raise NotImplementedError

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The weight of each training row in the prediction for each row of X; a sparse matrix.

        The shape is (rows of X, training rows).
        """
        raise NotImplementedError

    def members(self, X: ArrayLike) -> Members:
        """The training rows that the prediction for each row of X is made from, and their weights.

        These are the training rows in the leaves that the row reaches. At most 64 rows of each leaf
        are returned. If a leaf holds more, 64 rows that are spread evenly over its outcomes
        represent it. So this is faster than `row_weights`, and exact if leaves are small. The
        result takes about ten kilobytes per row of X.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> X = np.arange(40.0).reshape(20, 2)
        >>> found = QuantileForest(20, min_leaf=2).fit(X, X[:, 0]).members(X[:1])
        >>> print(found.mass.sum().round(6), found.rows[0, : found.counts[0]].max() < 20)
        1.0 True
        """
        rows, live = self._query_rows(X), self.live()
        found = Members.room(len(rows), live.most_members)
        with threads_at_most(self.n_jobs):
            run_blocks(
                lambda a, b: live.members(rows[a:b], found.between(a, b)), len(rows), block=_BLOCK
            )
        return found

    def number_episodes(self, numbers: ArrayLike) -> Self:
        """Give the episodes of the training rows other numbers; returns the model.

        ``numbers[e]`` is the new number of the episode that had the number e.
        """
        renamed = np.asarray(numbers)[self.training_episodes_]
        self.training_episodes_ = in_few_bytes(renamed)
        return self

    def pooled_over(self, n_steps: int | float) -> Self:
        """An unfitted copy for training rows that come from ``n_steps`` steps of each episode.

        An episode then has ``n_steps`` rows. So ``min_leaf`` is multiplied by this number, and
        still counts episodes (method M14 in docs/methods.md). If episodes end early, pass the mean
        number of rows per episode as a float. The product is then rounded, and is at least five if
        ``n_steps`` is above 1. A monitor calls this method for every model that it fits.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> QuantileForest(min_leaf=7).pooled_over(5)
        QuantileForest(min_leaf=35)
        >>> QuantileForest(min_leaf=7).pooled_over(2.5)
        QuantileForest(min_leaf=18)
        """
        copy: Self = clone(self)
        least = whole_number("min_leaf", self.min_leaf, least=1)
        if not isinstance(n_steps, float):
            copy.min_leaf = least * whole_number("n_steps", n_steps, least=1)
        elif 1.0 <= n_steps < np.inf:
            copy.min_leaf = max(_LEAST_POOLED if n_steps > 1.0 else least, round(least * n_steps))
        else:
            raise InputError(Argument("n_steps"), f" needs a number from 1 up, got {n_steps!r}")
        return copy
