"""A stacked forest for live rows, which are not checked; answers go into the caller's arrays."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models._packed_kernel import pack
from ontarget.models.forest._members import Members, every_tree, most_members
from ontarget.models.stacked._stack_kernel import (
    Stack,
    kinds_of,
    limits_of_stacked_rows,
    members_of_stacked_rows,
)
from ontarget.models.stacked._store import stack_from_arrays, stack_to_arrays

__all__ = ["LiveStackedForest"]


class LiveStackedForest:
    """A stacked forest that answers without checks; safe for threads."""

    __slots__ = ("_kinds", "_packed", "_stack")

    takes_threads: ClassVar[bool] = True

    def __init__(self, stack: Stack) -> None:
        self._stack = stack  # which keeps alive what is packed
        self._packed, self._kinds = pack(stack), kinds_of(stack)

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write both limits of the CDF of each row at each of its values.

        X is (rows, features), the others (rows, values); all contiguous float64.
        """
        limits_of_stacked_rows(self._packed, self._kinds, X, y, (left, right))

    @property
    def most_members(self) -> int:
        """How many members a row has at most."""
        return most_members(self._stack.small, self._stack.large)

    def members(self, X: FloatArray, out: Members) -> None:
        """Append the training rows behind each row's distribution, and their mass.

        Their masses add up to the forests' weight.
        """
        skipped = every_tree(len(X))
        members_of_stacked_rows(self._packed, self._kinds, X, skipped, out.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _from_arrays, (stack_to_arrays(self._stack),)


def _from_arrays(arrays: dict[str, Any]) -> LiveStackedForest:
    return LiveStackedForest(stack_from_arrays(arrays))
