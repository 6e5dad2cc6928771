"""PCQR per group, each calibrated with its own episodes (method M11 in docs/methods.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Self, TypeAlias

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.conformal._calibration import CalibrationRows, Kind, n_rows
from ontarget.conformal._levels import Level
from ontarget.conformal._limits import checked_offset
from ontarget.conformal._ranks import Ranks, draw_ranks
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.results import CalibratedCDF, Interval, Probability
from ontarget.errors import Argument, GroupError, InputError, UnfittedError
from ontarget.models.base import ConditionalDistribution
from ontarget.target import Target

# A question to one group's PCQR: takes the rows of this group, and their indices among all rows.
Question: TypeAlias = Callable[[PCQR, FloatArray, IndexArray], tuple[FloatArray, ...]]


class GroupedPCQR:
    """PCQR calibrated separately per group (Mondrian), so that promises hold within every group.

    Parameters
    ----------
    model
        A fitted conditional distribution, shared by all groups.
    min_size
        The smallest number of calibration episodes that a group may have; a smaller group is an
        error.
    grid
        Outcomes and the bounds of targets are rounded to multiples of this number before they are
        compared, so that 0.1 + 0.2 equals 0.3; None for no rounding.

    Notes
    -----
    If within a group the calibration episodes and a new one are exchangeable and the model has seen
    none of them, then everything that `PCQR` promises holds within that group. The group must be
    known before the episode starts; an unknown group is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import GroupedPCQR
    >>> from ontarget.models import Marginal
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.zeros((400, 1)), rng.normal(size=400)
    >>> calm = np.arange(400) % 2 == 0
    >>> y[calm] *= 0.1
    >>> groups = np.where(calm, "calm", "rough")
    >>> model = Marginal().fit(X[:200], y[:200])
    >>> grouped = GroupedPCQR(model).calibrate(X[200:], y[200:], groups=groups[200:])
    >>> lower, upper = grouped.interval(X[:2], 0.9, groups=["calm", "rough"])
    >>> bool(upper[0] - lower[0] < 0.5 < 2.0 < upper[1] - lower[1])
    True
    """

    def __init__(
        self, model: ConditionalDistribution, *, min_size: int = 20, grid: float | None = None
    ) -> None:
        PCQR(model)  # so that a model which cannot be asked is refused here
        self.model = model
        self.min_size = whole_number("min_size", min_size, least=1)
        self.grid = grid
        self._groups: dict[object, PCQR] | None = None

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike,
        ids: ArrayLike | None = None,
        seed: int = 0,
        step: int = 0,
    ) -> Self:
        """The object itself, calibrated group by group.

        ``groups`` has one label per row of X. A group with fewer than `min_size` rows is an error.
        """
        rows = CalibrationRows.checked(self.model, X, y, ids=ids, grid=self.grid)
        labels, codes = _coded(groups, rows.y.size)
        sizes = np.bincount(codes, minlength=len(labels))
        small = [f"{g!r} ({n})" for g, n in zip(labels, sizes, strict=True) if n < self.min_size]
        if small:
            raise GroupError(
                f"every group needs at least {self.min_size} calibration episodes (min_size); too "
                f"few are in {', '.join(small)}; merge groups, record more, or lower min_size"
            )
        left, right = self.model.cdf_limits(rows.X, rows.y)
        drawn = draw_ranks(left, right, rows.keys, seed=seed, step=step)
        self._groups = {
            label: PCQR.from_ranks(self.model, Ranks.of(drawn[codes == j]), grid=self.grid)
            for j, label in enumerate(labels)
        }
        return self

    @property
    def groups(self) -> dict[object, PCQR]:
        """The calibrated PCQR of each group."""
        if self._groups is None:
            raise UnfittedError(
                "GroupedPCQR is not calibrated; call calibrate(X, y, groups=...) with episodes "
                "that the model has not seen"
            )
        return self._groups

    def probability(
        self,
        X: ArrayLike,
        target: Target | Sequence[Target],
        offset: ArrayLike = 0.0,
        *,
        groups: ArrayLike,
    ) -> Probability:
        """The calibrated probability that each row's outcome lies in the target.

        Each row is calibrated with the episodes of its own group. See `PCQR.probability`.
        """
        moved = checked_offset(offset, n_rows(X))
        return Probability(
            *self._by_group(
                X, groups, lambda pcqr, rows, at: pcqr.probability(rows, target, moved[at])
            )
        )

    def cdf(self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike) -> CalibratedCDF:
        """The calibrated CDF at y of each row, calibrated with episodes of the row's own group."""
        values = np.asarray(y, dtype=np.float64)
        values = np.broadcast_to(values, (n_rows(X),)) if values.ndim == 0 else values
        return CalibratedCDF(
            *self._by_group(X, groups, lambda pcqr, rows, at: pcqr.cdf(rows, values[at]))
        )

    def interval(
        self,
        X: ArrayLike,
        level: Level,
        kind: Kind = "at_least",
        *,
        groups: ArrayLike,
        unbounded: bool = False,
        confidence: Level | None = None,
    ) -> Interval:
        """One interval per row that covers the outcome with probability at least ``level``.

        This holds within the row's group. See `PCQR.interval`, also for ``kind="at_most"``.
        """

        def ask(pcqr: PCQR, rows: FloatArray, _: IndexArray) -> Interval:
            return pcqr.interval(rows, level, kind, unbounded=unbounded, confidence=confidence)

        return Interval(*self._by_group(X, groups, ask))

    def promise(
        self,
        X: ArrayLike,
        level: Level,
        side: Literal["lower", "upper"] = "lower",
        *,
        groups: ArrayLike,
        unbounded: bool = False,
        confidence: Level | None = None,
    ) -> FloatArray:
        """The best one-sided bound per row that can be promised at this level, (rows,).

        The promise holds within the row's group. See `PCQR.promise`.
        """

        def ask(pcqr: PCQR, rows: FloatArray, _: IndexArray) -> tuple[FloatArray]:
            return (pcqr.promise(rows, level, side, unbounded=unbounded, confidence=confidence),)

        return self._by_group(X, groups, ask)[0]

    def _by_group(self, X: ArrayLike, groups: ArrayLike, ask: Question) -> tuple[FloatArray, ...]:
        """The answers of ``ask`` for all rows of X, in the order of the rows.

        ``ask`` is called once per group: with the group's PCQR, its rows and their positions in X.
        """
        known = self.groups
        rows = np.asarray(X)
        labels, codes = _coded(groups, n_rows(X))
        unseen = [repr(label) for label in labels if label not in known]
        if unseen:
            raise GroupError(
                f"group {', '.join(unseen)} was not calibrated; the calibrated groups are "
                f"{', '.join(repr(label) for label in known)}"
            )
        places = [np.flatnonzero(codes == j) for j in range(len(labels))]
        answers = [
            ask(known[label], rows[at], at) for label, at in zip(labels, places, strict=True)
        ]
        if not answers:
            return ask(next(iter(known.values())), rows, np.arange(0))
        back = np.argsort(np.concatenate(places))
        return tuple(np.concatenate(part)[back] for part in zip(*answers, strict=True))


def _coded(groups: ArrayLike, rows: int) -> tuple[list[object], IndexArray]:
    """The distinct groups, and for each row the index of its group among them."""
    labels: AnyArray = np.asarray(groups)
    if labels.shape != (rows,):
        raise InputError(
            Argument("groups"), f" needs one group per row of X ({rows}), got shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError(Argument("groups"), " needs a group for every row, got NaN")
    distinct, codes = np.unique(labels, return_inverse=True)
    return distinct.tolist(), codes.astype(np.intp)
