"""A distribution regression for live rows, unchecked; answers go into the caller's arrays."""

from __future__ import annotations

from typing import Any, ClassVar

from ontarget._typing import FloatArray
from ontarget.models.regression._law_kernel import Regression, limits_of_rows
from ontarget.models.regression._store import regression_from_arrays, regression_to_arrays

__all__ = ["LiveRegression"]


class LiveRegression:
    """A distribution regression that answers without checks; safe for threads."""

    __slots__ = ("_model",)

    takes_threads: ClassVar[bool] = True

    def __init__(self, model: Regression) -> None:
        self._model = model

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write both limits of the CDF of each row at each of its values.

        X is (rows, features), the others (rows, values); all contiguous float64.
        """
        limits_of_rows(self._model, X, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _from_arrays, (regression_to_arrays(self._model),)


def _from_arrays(arrays: dict[str, Any]) -> LiveRegression:
    return LiveRegression(regression_from_arrays(arrays))
