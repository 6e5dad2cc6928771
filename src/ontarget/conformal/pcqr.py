"""PCQR, the paper's calibration method, and its inverse; for all episodes together or per group.

From a level, PCQR (probability-space conformalized quantile regression) makes intervals. From a
target, its inverse makes a probability. The formulas are methods M3 to M5 in docs/methods.md; PCQR
per group is method M11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.conformal.levels import Level, require_reachable, tail_rank
from ontarget.conformal.limits import (
    CalibrationRows,
    Calibrator,
    Kind,
    TargetEnds,
    checked_offset,
    n_rows,
    score_rank,
)
from ontarget.conformal.ranks import (
    CalibratedCDF,
    Interval,
    Probability,
    Ranks,
    TargetCounts,
    draw_ranks,
    target_counts,
)
from ontarget.errors import Argument, GroupError, InputError, UnfittedError
from ontarget.models.base import ConditionalDistribution, Side
from ontarget.target import Target


class PCQR(Calibrator):
    """Probability-space conformalized quantile regression, and its inverse.

    Parameters
    ----------
    model
        A fitted conditional distribution: anything with ``cdf_limits`` and ``quantile``.
    grid
        Outcomes and the bounds of targets are rounded to multiples of this number before they are
        compared, so that 0.1 + 0.2 equals 0.3; None for no rounding.

    Notes
    -----
    Assume that the calibration episodes and a new one are exchangeable given the model, and that
    the model has seen none of them. Then the new outcome lies in ``interval(X, level)`` with
    probability at least ``level``. It is at least the bound ``promise(X, level)`` with probability
    at least ``level``.

    The calibrated CDF has a lower and an upper version. For every number β from 0 to 1, the upper
    CDF at the new outcome is at most β with probability at most β. The lower CDF just below the
    outcome is at least β with probability at most 1 − β. If the n calibration ranks and the rank of
    the new outcome are all different, this means that the calibrated CDF at the outcome is uniform
    up to 1/(n + 1).

    These guarantees hold on average over episodes and calibration sets. Nothing is guaranteed about
    one particular row; no distribution-free method can do that usefully. Nothing is guaranteed
    about the probability of one particular target either. `VennAbers` has a guarantee about one
    target, but only about its pair of probabilities: ``E[Z | p_Z] = p_Z``, where Z is 1 if the
    target is met and 0 if not.

    References
    ----------
    Guyer and Dietterich, "Will My Robot Achieve My Goals? Predicting the Probability that an MDP
    Policy Reaches a User-Specified Behavior Target".

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import PCQR, QuantileForest, Target
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 1))
    >>> y = X[:, 0] + rng.normal(size=600)
    >>> model = QuantileForest().fit(X[:300], y[:300])
    >>> pcqr = PCQR(model).calibrate(X[300:], y[300:])
    >>> low, p, high = pcqr.probability([[0.0]], Target.at_least(0.0))
    >>> bool(low[0] <= p[0] <= high[0]), bool(0.4 < p[0] < 0.6)
    (True, True)
    >>> lower, upper = pcqr.interval([[0.0]], level=0.8)
    """

    _asks: ClassVar[tuple[str, ...]] = ("cdf_limits", "quantile")
    model: ConditionalDistribution

    _stopped = 0
    _spare = 0

    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        left, right = self.model.cdf_limits(rows.X, rows.y)
        self._ranks = Ranks.of(draw_ranks(left, right, rows.keys, seed=seed, step=step))

    @classmethod
    def from_ranks(
        cls,
        model: ConditionalDistribution,
        ranks: Ranks,
        *,
        grid: float | None = None,
        stopped: int = 0,
        thinned: bool = False,
    ) -> Self:
        """A calibrated PCQR from ranks that are already known.

        ``stopped`` further episodes were cut off and have no rank. The worst case is assumed: all
        their outcomes lie outside an interval or bound. ``thinned`` says that only every c-th rank
        may be stored. An interval then uses one rank more (one less for ``kind="at_most"``),
        because ranks that are not stored may lie on either side of its bounds.
        """
        pcqr = cls(model, grid=grid)
        pcqr._ranks, pcqr._n, pcqr._stopped = ranks, ranks.n + stopped, stopped
        pcqr._spare = int(thinned)
        return pcqr

    @property
    def ranks(self) -> Ranks:
        """The calibration ranks: where outcomes fell in their predicted distributions.

        The result is a `Ranks` object. Its attribute ``values`` is a sorted, read-only array (n,)
        of numbers from 0 to 1, and its attribute ``n`` is their number.
        """
        _ = self.n_calibration
        return self._ranks

    def counts(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> TargetCounts:
        """The probabilities of `probability` as whole numbers, for exact comparisons."""
        ends = TargetEnds.of(target, self.grid)
        ranks = self.ranks
        a_minus, a_plus = ends.limits(self.model, X, checked_offset(offset, n_rows(X)))
        return target_counts(ranks, a_minus, a_plus, None if ends.single else ends.first)

    def probability(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> Probability:
        """The probability that each row's outcome lies in the target, from a calibrated CDF.

        The result is a named tuple ``(low, p, high)`` of arrays. They are read from a calibrated
        distribution. That does not make the probability of one target calibrated: see the notes on
        the class.

        Parameters
        ----------
        X
            One row of features per run to answer for.
        target
            One target gives arrays of shape (rows,); a sequence of k targets gives (rows, k).
        offset
            The behavior so far, one number or one per row. The model predicts what follows, so the
            target is shifted by ``-offset``.

        Notes
        -----
        A wider target never gets a lower probability. For two adjacent targets without overlap,
        the ``p`` of their union is the sum of their two ``p``. The ``low`` of the union may be
        higher than the sum of the two ``low``, and its ``high`` lower than the sum of the two
        ``high``: by up to (1 + ties)/(n + 1), where ties is the number of ranks that equal the
        predicted CDF at the common bound.
        """
        return self.counts(X, target, offset).probability()

    def cdf(self, X: ArrayLike, y: ArrayLike, *, side: Side = "right") -> CalibratedCDF:
        """The calibrated CDF at y: P(Y <= y), or P(Y < y) for ``side="left"``.

        For n rows, y is one number, an array (n,), or an array (n, m) for m values per row. The
        result is a named tuple ``(low, mid, high)`` of arrays (n,), or (n, m) in the last case.
        ``low`` and ``high`` are the lower and upper calibrated CDF that the guarantee is about, and
        ``mid`` is the middle of both. The CDF is exactly 0 at -infinity and 1 at +infinity.
        """
        if side not in ("left", "right"):
            raise InputError(Argument("side"), f" needs 'left' or 'right', got {side!r}")
        ranks = self.ranks
        values = np.asarray(y, dtype=np.float64)
        if np.any(np.isnan(values)):
            raise InputError(Argument("y"), " needs numbers, got NaN")
        values = np.broadcast_to(values, (n_rows(X),)) if values.ndim == 0 else values
        infinite = np.isinf(values)
        finite = np.where(infinite, 0.0, snap(values, self.grid))
        left, right = self.model.cdf_limits(X, finite)
        limit = left if side == "left" else right
        return ranks.bounds(np.where(infinite, values, limit))

    def interval(
        self,
        X: ArrayLike,
        level: Level,
        kind: Kind = "at_least",
        *,
        unbounded: bool = False,
        confidence: Level | None = None,
    ) -> Interval:
        """One interval per row that covers the outcome with probability at least ``level``.

        Parameters
        ----------
        X
            One row of features per run to answer for.
        level
            The coverage, strictly between 0 and 1; 0.9 is taken as exactly nine tenths.
        kind
            ``"at_least"``: closed intervals whose coverage is at least the level. ``"at_most"``:
            open intervals whose coverage is at most the level; one is empty if lower >= upper.
        unbounded
            What to do if there are too few calibration episodes for this level: True gives the
            whole line, False raises an error.
        confidence
            By default the level holds on average over the sets of calibration episodes that might
            have been recorded. With 0.95 it holds for at least 95 in 100 of these sets, if episodes
            are independent.
        """
        n = self.n_calibration
        rows = n_rows(X)
        k = score_rank(level, n, kind, unbounded=unbounded, confidence=confidence)
        k += self._spare if kind == "at_least" else -self._spare
        if kind == "at_most":
            k = max(0, k - self._stopped)
        if k == 0:
            return Interval(np.full(rows, math.inf), np.full(rows, -math.inf))
        if k > n - self._stopped:
            if not unbounded and kind == "at_least":
                require_reachable(level, n, confidence, stopped=self._stopped)
            return Interval(np.full(rows, -math.inf), np.full(rows, math.inf))
        tail = self._ranks.depth(k)
        if kind == "at_most":
            return Interval(
                self.model.quantile(X, tail, side="right"),
                self.model.quantile(X, _one_minus(tail, up=True), side="left"),
            )
        return Interval(
            self.model.quantile(X, tail, side="left"),
            self.model.quantile(X, _one_minus(tail, up=False), side="right"),
        )

    def promise(
        self,
        X: ArrayLike,
        level: Level,
        side: Literal["lower", "upper"] = "lower",
        *,
        unbounded: bool = False,
        confidence: Level | None = None,
    ) -> FloatArray:
        """A one-sided bound per row that is promised at the level, (rows,).

        With ``side="lower"``, "the outcome is at least this bound" holds with probability at least
        ``level``, on average over rows. With ``side="upper"``, "the outcome is at most this bound"
        does. The bound of a row is the quantile that the model predicts for it, at one quantile
        level for all rows. Among bounds of this form it is the best one that the calibration
        episodes allow. If there are too few calibration episodes for the level, the result is an
        error, or -infinity (for ``"upper"`` +infinity) with ``unbounded=True``. ``confidence`` is
        as for `interval`.
        """
        if side not in ("lower", "upper"):
            raise InputError(Argument("side"), f" needs 'lower' or 'upper', got {side!r}")
        n = self.n_calibration
        if not unbounded:
            require_reachable(level, n, confidence, stopped=self._stopped)
        k = tail_rank(level, n, confidence) - self._stopped
        if k <= 0:
            return np.full(n_rows(X), -math.inf if side == "lower" else math.inf)
        if side == "lower":
            return self.model.quantile(X, self._ranks.order(k), side="left")
        return self.model.quantile(X, self._ranks.order(self._ranks.n + 1 - k), side="right")


def _one_minus(tail: float, *, up: bool) -> float:
    """1 − tail as a float that is rounded up (``up=True``) or down, not to the nearest."""
    nearest = 1.0 - tail
    back = 1.0 - nearest  # exact, because nearest is at least one half
    if up and back > tail:
        return math.nextafter(nearest, math.inf)
    if not up and back < tail:
        return math.nextafter(nearest, -math.inf)
    return nearest


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
        """The answers of ``ask`` for all rows of X, in the order of the rows."""
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
