"""A conformal predictive system: a calibrated CDF from residuals, outcome minus predicted mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal._calibration import CalibrationRows, Calibrator, Kind, checked_kind, n_rows
from ontarget.conformal._levels import Level, exact_level, floor_rank, require_reachable, tail_rank
from ontarget.conformal._limits import TargetEnds, checked_offset
from ontarget.conformal._ranks import Ranks, TargetCounts, target_counts
from ontarget.conformal.results import CalibratedCDF, Interval, Probability
from ontarget.errors import Argument, InputError
from ontarget.target import Target

Difficulty: TypeAlias = Callable[[Any], ArrayLike]


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
        """The probabilities of `probability` as whole numbers, for exact comparisons.

        The result is a named tuple ``(low, mid, high, n)``, as from `PCQR.counts`.
        """
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
