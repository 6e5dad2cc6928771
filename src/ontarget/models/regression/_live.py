"""A distribution regression that answers at every step of a run; its rows are not checked."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models.regression._law_kernel import Regression, limits_of_rows
from ontarget.models.regression._store import regression_from_arrays, regression_to_arrays


class LiveRegression:
    """A distribution regression that does not check its rows; several threads may ask it."""

    __slots__ = ("_model",)

    takes_threads: ClassVar[bool] = True

    def __init__(self, model: Regression) -> None:
        self._model = model

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``.

        X has the shape (rows, features); ``y``, ``left`` and ``right`` have the shape (rows,
        values). All are contiguous float64 arrays.
        """
        limits_of_rows(self._model, X, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _from_arrays, (regression_to_arrays(self._model),)


def _from_arrays(arrays: dict[str, Any]) -> LiveRegression:
    return LiveRegression(regression_from_arrays(arrays))
