"""A conformal predictive system: a calibrated CDF from residuals (M6)."""

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
from ontarget.errors import InputError
from ontarget.target import Target

__all__ = ["ConformalPredictiveSystem", "Difficulty"]

Difficulty: TypeAlias = Callable[[Any], ArrayLike]


class ConformalPredictiveSystem(Calibrator):
    """A calibrated distribution per row: past residuals around the model's mean.

    Parameters
    ----------
    model
        A fitted model with ``predict``, such as any scikit-learn regressor.
    difficulty
        A function from rows to positive numbers, one per row. Residuals are divided by it, so that
        harder rows get wider distributions. Without it all rows are treated the same.
    grid
        The grid to which outcomes and the bounds of targets are rounded before they are compared
        (M1); None for no grid.

    Notes
    -----
    If the calibration episodes and a new one are exchangeable and the model has seen none of them,
    the upper calibrated CDF at the new outcome is at most β with probability at most β, and the
    lower one at least β with probability at most 1 − β, for every β. Intervals cover with at least
    their level. Open and closed bounds count the same, and a residual that equals the query widens
    the bounds.

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
        """The calibration residuals divided by the difficulty, sorted."""
        _ = self.n_calibration
        return self._residuals

    def counts(
        self, X: ArrayLike, target: Target | Sequence[Target], offset: ArrayLike = 0.0
    ) -> TargetCounts:
        """The numerators of `probability`: whole numbers, for exact comparisons.

        The result is a named tuple ``(low, mid, high, n)``, as of `PCQR.counts`.
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
        """The calibrated probability that each row's outcome lies in the target."""
        return self.counts(X, target, offset).probability()

    def cdf(self, X: ArrayLike, y: ArrayLike) -> CalibratedCDF:
        """The calibrated CDF at y: scalar or (n,) gives (n,), (n, m) gives (n, m).

        The result is a named tuple ``(low, mid, high)`` of such arrays, as of `PCQR.cdf`.
        """
        residuals = self.residuals
        centre, unit = self._centre_and_unit(X)
        values = snap(y, self.grid)
        if np.any(np.isnan(values)):
            raise InputError("y needs numbers, got NaN")
        if values.ndim == 2:
            centre, unit = centre[:, None], unit[:, None]
        return residuals.bounds((values - centre) / unit)

    def interval(
        self, X: ArrayLike, level: Level, kind: Kind = "at_least", *, unbounded: bool = False
    ) -> Interval:
        """One interval per row with equal tails; ``"at_most"`` gives open ones."""
        n = self.n_calibration
        # Each tail may miss half of δ; the two ends are order statistics mirrored in rank.
        one_sided = (1 + exact_level(level)) / 2
        if checked_kind(kind) == "at_least":
            if not unbounded:
                require_reachable(one_sided, n, asked=level)
            k = tail_rank(one_sided, n)
        else:
            k = n + 1 - floor_rank(one_sided, n)
        centre, unit = self._centre_and_unit(X)
        # n + 1 − k < k only for "at most" intervals that hold nothing: their ends cross.
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
                f"difficulty needs one positive number per row ({centre.size}), got shape "
                f"{unit.shape} with a minimum of {unit.min(initial=np.inf)}"
            )
        return centre, unit
