"""A stacked forest that answers at every step of a run; the rows that it gets are not checked."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models._packed_kernel import pack
from ontarget.models.forest._estimator import Members, every_tree, most_members
from ontarget.models.stacked._stack_kernel import (
    Stack,
    kinds_of,
    limits_of_stacked_rows,
    members_of_stacked_rows,
)
from ontarget.models.stacked._store import stack_from_arrays, stack_to_arrays


class LiveStackedForest:
    """A stacked forest that does not check its rows; several threads may ask it at once."""

    __slots__ = ("_kinds", "_packed", "_stack")

    takes_threads: ClassVar[bool] = True

    def __init__(self, stack: Stack) -> None:
        self._stack = stack  # which keeps alive what is packed
        self._packed, self._kinds = pack(stack), kinds_of(stack)

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``.

        X has the shape (rows, features); ``y``, ``left`` and ``right`` have the shape (rows,
        values). All are contiguous float64 arrays.
        """
        limits_of_stacked_rows(self._packed, self._kinds, X, y, (left, right))

    @property
    def most_members(self) -> int:
        """The most training rows that can get a nonzero weight in the prediction for one row."""
        return most_members(self._stack.forest, self._stack.second)

    def members(self, X: FloatArray, out: Members) -> None:
        """Append to ``out`` the training rows that each row's prediction is made from.

        Each training row comes with its weight. The weights of a prediction add up to the weight of
        the forests in the mixture of models.
        """
        skipped = every_tree(len(X))
        members_of_stacked_rows(self._packed, self._kinds, X, skipped, out.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _from_arrays, (stack_to_arrays(self._stack),)


def _from_arrays(arrays: dict[str, Any]) -> LiveStackedForest:
    return LiveStackedForest(stack_from_arrays(arrays))
