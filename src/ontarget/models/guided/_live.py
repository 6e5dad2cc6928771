"""A guided forest that answers at every step of a run; the rows that it gets are not checked."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._members import Members, every_tree, most_members
from ontarget.models.forest._store import table_from_arrays, table_to_arrays
from ontarget.models.guided._guides_kernel import (
    Guides,
    limits_of_guided_rows,
    members_of_guided_rows,
)
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays


class LiveGuidedForest:
    """A guided forest that does not check its rows; several threads may ask it at once."""

    __slots__ = ("_model",)

    takes_threads: ClassVar[bool] = True

    def __init__(self, guides: Guides, forest: ForestTable) -> None:
        self._model = (guides, forest)

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``.

        X has the shape (rows, features); ``y``, ``left`` and ``right`` have the shape (rows,
        values). All are contiguous float64 arrays.
        """
        limits_of_guided_rows(self._model, X, y, (left, right))

    @property
    def most_members(self) -> int:
        """The most training rows that can get a nonzero weight in the prediction for one row."""
        return most_members(self._model[1])

    def members(self, X: FloatArray, out: Members) -> None:
        """Append to ``out`` the training rows that each row's prediction is made from.

        Each training row comes with its weight. The weights of a prediction add up to 1.
        """
        members_of_guided_rows(self._model, X, every_tree(len(X)), out.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        guides, forest = self._model
        return _from_arrays, ({**table_to_arrays(forest), **guides_to_arrays(guides)},)


def _from_arrays(arrays: dict[str, Any]) -> LiveGuidedForest:
    return LiveGuidedForest(guides_from_arrays(arrays), table_from_arrays(arrays))
