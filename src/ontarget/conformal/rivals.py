"""The methods that PCQR is compared with.

These are raw quantiles, split conformal prediction, CQR, and a conformal predictive system, whose
calibrated CDF comes from residuals. All are used in the same way: pass a fitted model, call
``calibrate``, then ``interval``. `RawInverse` and `ConformalPredictiveSystem` also have
``probability``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal.levels import Level, exact_level, floor_rank, require_reachable, tail_rank
from ontarget.conformal.limits import (
    CalibrationRows,
    Calibrator,
    Kind,
    TargetEnds,
    checked_kind,
    checked_offset,
    n_rows,
    raw_probability,
    score_rank,
)
from ontarget.conformal.ranks import (
    CalibratedCDF,
    Interval,
    Probability,
    Ranks,
    TargetCounts,
    target_counts,
)
from ontarget.errors import Argument, InputError
from ontarget.target import Target

Difficulty: TypeAlias = Callable[[Any], ArrayLike]


class QuantileRegression(Calibrator):
    """The model's own intervals, uncalibrated; at level 0.8 from its 10 % to its 90 % quantile.

    Notes
    -----
    Nothing is promised. `calibrate` only checks and counts the episodes, so that this class can be
    used like the calibrated methods.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import QuantileRegression
    >>> from ontarget.models import Marginal
    >>> X, y = np.zeros((99, 1)), np.arange(99.0)
    >>> model = Marginal().fit(X, y)
    >>> lower, upper = QuantileRegression(model).interval([[0.0]], level=0.8)
    >>> print(lower.round(), upper.round())
    [9.] [88.]
    """

    _asks: ClassVar[tuple[str, ...]] = ("quantile",)

    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        """Store nothing, because the intervals are not calibrated."""

    def interval(self, X: ArrayLike, level: Level, kind: Kind = "at_least") -> Interval:
        """The model's central interval of this level, per row; ``kind`` makes no difference."""
        checked_kind(kind)
        return _central(self.model.quantile(X, _tails(level)))


class RawInverse(QuantileRegression):
    """The model's own probability of a target, uncalibrated.

    Notes
    -----
    Nothing is promised; ``low``, ``p`` and ``high`` are the same number.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import RawInverse, Target
    >>> from ontarget.models import Marginal
    >>> X, y = np.zeros((99, 1)), np.arange(99.0)
    >>> model = Marginal().fit(X, y)
    >>> print(RawInverse(model).probability([[0.0]], Target.at_least(49.5)).p.round(2))
    [0.49]
    """

    _asks: ClassVar[tuple[str, ...]] = ("cdf_limits", "quantile")

    def probability(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> Probability:
        """The model's probability that each row's outcome lies in the target."""
        ends = TargetEnds.of(target, self.grid)
        limits = ends.limits(self.model, X, checked_offset(offset, n_rows(X)))
        p = raw_probability(*limits, ends.first)
        p = p[:, 0] if ends.single else p
        return Probability(p, p, p)


class SplitConformal(Calibrator):
    """Split conformal prediction: the model's mean, plus and minus one distance for all rows.

    Notes
    -----
    If the calibration episodes and a new one are exchangeable and the model has seen none of them,
    the new outcome lies in the interval with probability at least the level. The width is the same
    for every row, however uncertain its outcome is.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import SplitConformal
    >>> from ontarget.models import Marginal
    >>> X, y = np.zeros((99, 1)), np.arange(99.0)
    >>> model = Marginal().fit(X, y)
    >>> lower, upper = SplitConformal(model).calibrate(X, y).interval([[0.0]], level=0.8)
    >>> print(lower, upper)
    [9.] [89.]
    """

    _asks: ClassVar[tuple[str, ...]] = ("predict",)

    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        self._distances = Ranks.of(np.abs(rows.y - np.asarray(self.model.predict(rows.X))))

    def interval(
        self, X: ArrayLike, level: Level, kind: Kind = "at_least", *, unbounded: bool = False
    ) -> Interval:
        """The predicted mean of each row ± a distance, the same for all rows.

        With this distance, intervals cover the outcome with probability at least ``level``.
        ``kind="at_most"`` gives open intervals with coverage at most ``level``. If there are too
        few calibration episodes for the level, that is an error; with ``unbounded=True``, intervals
        are the whole line instead.
        """
        k = score_rank(level, self.n_calibration, kind, unbounded=unbounded)
        centre = np.asarray(self.model.predict(X), dtype=np.float64)
        return _widened(Interval(centre, centre), self._distances.order(k))


class CQR(Calibrator):
    """Conformalized quantile regression: the model's intervals, all widened by the same distance.

    Notes
    -----
    If the calibration episodes and a new one are exchangeable and the model has seen none of them,
    the new outcome lies in the interval with probability at least the level. The distance differs
    from level to level and may be negative, so intervals of different levels may coincide or
    cross. So CQR cannot be inverted to give the probability of a target. If a negative distance
    makes the ends of an interval cross, it is empty.

    References
    ----------
    Romano, Patterson and Candès, "Conformalized quantile regression", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import CQR
    >>> from ontarget.models import Marginal
    >>> X, y = np.zeros((99, 1)), np.arange(99.0)
    >>> model = Marginal().fit(X, y)
    >>> cqr = CQR(model).calibrate(X, 2.0 * y)
    >>> lower, upper = cqr.interval([[0.0]], level=0.8)
    >>> print((upper - lower).round())
    [219.]
    """

    _asks: ClassVar[tuple[str, ...]] = ("quantile",)

    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        # The score depends on the level, so the rows are kept until a level is asked for.
        self._rows = rows
        self._excess: dict[tuple[float, float], Ranks] = {}

    def correction(
        self, level: Level, kind: Kind = "at_least", *, unbounded: bool = False
    ) -> float:
        """By how much every interval of the model at this level is widened at each of its ends."""
        k = score_rank(level, self.n_calibration, kind, unbounded=unbounded)
        tails = _tails(level)
        if tails not in self._excess:
            lower, upper = _central(self.model.quantile(self._rows.X, tails))
            self._excess[tails] = Ranks.of(np.maximum(lower - self._rows.y, self._rows.y - upper))
        return self._excess[tails].order(k)

    def interval(
        self, X: ArrayLike, level: Level, kind: Kind = "at_least", *, unbounded: bool = False
    ) -> Interval:
        """The model's interval of this level per row, widened by `correction` at both ends.

        These intervals cover the outcome with probability at least ``level``. ``kind="at_most"``
        gives open intervals with coverage at most ``level``. If there are too few calibration
        episodes for the level, that is an error; with ``unbounded=True``, intervals are the whole
        line instead.
        """
        correction = self.correction(level, kind, unbounded=unbounded)
        return _widened(_central(self.model.quantile(X, _tails(level))), correction)


def _tails(level: Level) -> tuple[float, float]:
    """The quantile levels of the ends of a central interval; for the level 0.8, (0.1, 0.9)."""
    tail = (1 - exact_level(level)) / 2
    return float(tail), float(1 - tail)


def _central(quantiles: FloatArray) -> Interval:
    return Interval(quantiles[:, 0], quantiles[:, 1])


def _widened(interval: Interval, distance: float) -> Interval:
    """The intervals, widened by the distance on both sides."""
    if math.isinf(distance):
        ends = np.full(interval.lower.shape, -distance), np.full(interval.upper.shape, distance)
        return Interval(*ends)
    return Interval(interval.lower - distance, interval.upper + distance)


class ConformalPredictiveSystem(Calibrator):
    """A calibrated distribution per row: the model's mean plus the residuals of past episodes.

    A residual is an episode's outcome minus the mean that the model predicted for it.

    Parameters
    ----------
    model
        A fitted model with ``predict``, such as any scikit-learn regressor.
    difficulty
        A function from rows to positive numbers, one per row. Residuals are divided by it, so that
        harder rows get wider distributions. Without it all rows are treated the same.
    grid
        Outcomes and the bounds of targets are rounded to multiples of this number before they are
        compared, so that 0.1 + 0.2 equals 0.3; None for no rounding.

    Notes
    -----
    Assume that the calibration episodes and a new one are exchangeable, and that the model has seen
    none of them. Then for every number β from 0 to 1, the upper calibrated CDF at the new outcome
    is at most β with probability at most β, and the lower calibrated CDF is at least β with
    probability at most 1 − β. Intervals cover the outcome with at least their level. Open and
    closed bounds of a target give the same answer; a residual that lies exactly on a bound makes
    ``low`` lower and ``high`` higher.

    References
    ----------
    Vovk, Petej, Nouretdinov, Manokhin and Gammerman, "Computationally efficient versions of
    conformal predictive distributions", 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import ConformalPredictiveSystem, Target
    >>> from ontarget.models import Marginal
    >>> y = np.arange(99.0)
    >>> X = np.zeros((99, 1))
    >>> system = ConformalPredictiveSystem(Marginal().fit(X, y)).calibrate(X, y)
    >>> round(float(system.probability(X[:1], Target.at_least(50.5)).p[0]), 3)
    0.485
    """

    _asks: ClassVar[tuple[str, ...]] = ("predict",)

    def __init__(
        self, model: Any, *, difficulty: Difficulty | None = None, grid: float | None = None
    ) -> None:
        super().__init__(model, grid=grid)
        self.difficulty = difficulty

    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        centre, unit = self._centre_and_unit(rows.X)
        self._residuals = Ranks.of((rows.y - centre) / unit)

    @property
    def residuals(self) -> Ranks:
        """The sorted calibration residuals: (outcome − predicted mean) / difficulty."""
        _ = self.n_calibration
        return self._residuals

    def counts(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> TargetCounts:
        """The probabilities of `probability` as whole numbers, for exact comparisons."""
        residuals = self.residuals
        ends = TargetEnds.of(target, self.grid)
        centre, unit = self._centre_and_unit(X)
        shifted = ends.shifted(checked_offset(offset, n_rows(X)))
        at = (shifted - centre[:, None]) / unit[:, None]
        return target_counts(residuals, *ends.spread(at, at), None if ends.single else ends.first)

    def probability(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> Probability:
        """The probability that each row's outcome lies in the target, from a calibrated CDF."""
        return self.counts(X, target, offset).probability()

    def cdf(self, X: ArrayLike, y: ArrayLike) -> CalibratedCDF:
        """The calibrated CDF at y, P(Y <= y).

        For n rows, y is one number, an array (n,), or an array (n, m) for m values per row. The
        result is a named tuple ``(low, mid, high)`` of arrays (n,), or (n, m) in the last case, as
        from `PCQR.cdf`.
        """
        residuals = self.residuals
        centre, unit = self._centre_and_unit(X)
        values = snap(y, self.grid)
        if np.any(np.isnan(values)):
            raise InputError(Argument("y"), " needs numbers, got NaN")
        if values.ndim == 2:
            centre, unit = centre[:, None], unit[:, None]
        return residuals.bounds((values - centre) / unit)

    def interval(
        self, X: ArrayLike, level: Level, kind: Kind = "at_least", *, unbounded: bool = False
    ) -> Interval:
        """One interval per row that covers the outcome with probability at least ``level``.

        An interval leaves out the same probability on both sides. ``kind="at_most"`` gives open
        intervals with coverage at most ``level``. If there are too few calibration episodes for the
        level, that is an error; with ``unbounded=True``, intervals are the whole line instead.
        """
        n = self.n_calibration
        # Each side may miss half of 1 − level. The ends are the k-th residuals from either side.
        one_sided = (1 + exact_level(level)) / 2
        if checked_kind(kind) == "at_least":
            if not unbounded:
                require_reachable(one_sided, n, asked=level)
            k = tail_rank(one_sided, n)
        else:
            k = n + 1 - floor_rank(one_sided, n)
        centre, unit = self._centre_and_unit(X)
        # n + 1 − k < k happens only for "at most" intervals that are empty: their ends cross.
        return Interval(
            centre + self._residuals.order(k) * unit,
            centre + self._residuals.order(n + 1 - k) * unit,
        )

    def _centre_and_unit(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        centre = np.asarray(self.model.predict(X), dtype=np.float64)
        if self.difficulty is None:
            return centre, np.ones_like(centre)
        unit = np.asarray(self.difficulty(X), dtype=np.float64)
        if unit.shape != centre.shape or not np.all((unit > 0.0) & np.isfinite(unit)):
            raise InputError(
                Argument("difficulty"),
                f" needs one positive number per row ({centre.size}), got shape "
                f"{unit.shape} with a minimum of {unit.min(initial=np.inf)}",
            )
        return centre, unit
