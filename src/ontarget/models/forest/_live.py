"""A forest that answers at every step of a run; the rows that it gets are not checked."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._batch_kernel import limits_of_rows
from ontarget.models.forest._members import Members, every_tree, most_members
from ontarget.models.forest._members_kernel import add_members_of_rows
from ontarget.models.forest._store import table_from_arrays, table_to_arrays


class LiveForest:
    """A forest that does not check its rows; several threads may ask it at once.

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

    __slots__ = ("_forest",)

    takes_threads: ClassVar[bool] = True

    def __init__(self, forest: ForestTable) -> None:
        self._forest = forest

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``."""
        limits_of_rows(self._forest, X, y, (left, right))

    @property
    def most_members(self) -> int:
        """The most training rows that can get a nonzero weight in the prediction for one row."""
        return most_members(self._forest)

    def members(self, X: FloatArray, out: Members) -> None:
        """Append to ``out`` the training rows that each row's prediction is made from."""
        add_members_of_rows(self._forest, X, every_tree(len(X)), 1.0, out.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _from_arrays, (table_to_arrays(self._forest),)


def _from_arrays(arrays: dict[str, Any]) -> LiveForest:
    return LiveForest(table_from_arrays(arrays))
