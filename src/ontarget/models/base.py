"""The protocol that every conditional distribution follows (M2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

from ontarget.typing import AnyArray, ArrayLike, FloatArray

__all__ = ["ConditionalDistribution", "Side"]

Side: TypeAlias = Literal["left", "right"]


@runtime_checkable
class ConditionalDistribution(Protocol):
    """A model of the outcome's distribution given a row of features.

    Both limits of the CDF are asked for, because outcomes may have atoms: the left limit is
    ``P(Y < y | x)`` and the right one ``P(Y <= y | x)``. Likewise the quantile has two inverses,
    ``side="left"`` for ``inf{y : F(y) >= q}`` and ``side="right"`` for ``inf{y : F(y) > q}``;
    ``q <= 0`` on the left gives -inf and ``q >= 1`` on the right gives +inf, never an end of the
    support.
    """

    kind: ClassVar[str]

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        steps: ArrayLike | None = None,
        categorical: Sequence[int] | None = None,
    ) -> Self:
        """Learn from rows; rows of one episode share an id, rows of one step a step."""
        ...

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Left and right limits of the CDF: y scalar or (n,) gives (n,), (n, m) gives (n, m)."""
        ...

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Quantiles of each row: q scalar gives (n,), 1-D gives (n, m)."""
        ...

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row."""
        ...

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model that gave these arrays."""
        ...
