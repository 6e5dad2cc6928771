"""The rows that a calibrator is given, and the limits of a CDF at the bounds of targets (M4).

A target is a union of intervals, its components. At a value y, a CDF has two limits: the left one,
P(Y < y), and the right one, P(Y <= y). They differ if y itself has a probability. A closed lower
bound uses the left limit, so that the probability of the bound itself counts; an open lower bound
uses the right limit. For upper bounds it is the other way round. An infinite bound gives -inf or
+inf instead of a CDF, which later counts as exactly 0 or 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._keyed import keys_of
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.conformal.levels import Level, ceil_rank, floor_rank, require_reachable
from ontarget.errors import Argument, CalibrationError, InputError, TargetError, UnfittedError
from ontarget.models.base import ConditionalDistribution
from ontarget.target import Component, Target

Kind: TypeAlias = Literal["at_least", "at_most"]


@dataclass(frozen=True, eq=False)
class TargetEnds:
    """The distinct finite bounds of one or several targets, and which bounds each component uses.

    Make it with `of`. ``values`` are the bounds in ascending order. ``single`` is True if one
    target was passed instead of a sequence. Outcomes and bounds are rounded to multiples of
    ``grid``, if it is not None.
    """

    targets: tuple[Target, ...]
    single: bool
    grid: float | None
    values: FloatArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float | None = None) -> TargetEnds:
        """The bounds of one target or of a sequence of targets, rounded to the grid."""
        single = isinstance(targets, Target)
        several = (targets,) if isinstance(targets, Target) else tuple(targets)
        for target in several:
            if not isinstance(target, Target):
                raise TargetError(
                    Argument("target"), f" needs a Target or a sequence of them, got {target!r}"
                )
        # Snapped before any shift, so that components which meet on the grid are one.
        snapped = tuple(target.shift(0.0, grid) for target in several)
        ends = {end for t in snapped for c in t for end in (c.lower, c.upper) if math.isfinite(end)}
        values = read_only(np.array(sorted(ends), dtype=np.float64))
        return cls(snapped, single, grid, values)

    @property
    def components(self) -> list[Component]:
        """The intervals (components) of all targets, one target after the other."""
        return [component for target in self.targets for component in target]

    @property
    def first(self) -> IndexArray:
        """The index of each target's first interval, then the number of all intervals."""
        sizes = [len(target.components) for target in self.targets]
        return np.concatenate(([0], np.cumsum(sizes, dtype=np.intp))).astype(np.intp)

    def shifted(self, offset: FloatArray) -> FloatArray:
        """Every finite bound minus each row's offset (behavior so far): (rows, bounds)."""
        moved = self.values[None, :] - snap(offset, self.grid)[:, None]
        return snap(moved, self.grid)

    def columns(self) -> tuple[IndexArray, IndexArray]:
        """For each component (interval), the columns of its lower and its upper limit."""
        m = self.values.size
        place = {value: i for i, value in enumerate(self.values.tolist())}
        lower = [
            2 * m if c.lower == -math.inf else place[c.lower] + (0 if c.lower_closed else m)
            for c in self.components
        ]
        upper = [
            2 * m + 1 if c.upper == math.inf else place[c.upper] + (m if c.upper_closed else 0)
            for c in self.components
        ]
        return np.array(lower, dtype=np.intp), np.array(upper, dtype=np.intp)

    def spread(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The CDF at the lower and upper ends of all components (intervals of the targets)."""
        rows = left.shape[0]
        infinite = np.broadcast_to([-math.inf, math.inf], (rows, 2))
        every = np.concatenate((left, right, infinite), axis=1)
        lower, upper = self.columns()
        return every[:, lower], every[:, upper]

    def limits(
        self, model: ConditionalDistribution, X: ArrayLike, offset: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The model's CDF at both ends of all components: a⁻ and a⁺, (rows, components)."""
        if self.values.size == 0:
            nothing = np.empty((offset.size, 0))
            return self.spread(nothing, nothing)
        left, right = model.cdf_limits(X, self.shifted(offset))
        return self.spread(left, right)

    def contains(self, outcomes: FloatArray, offset: FloatArray) -> BoolArray:
        """Whether each row's outcome plus its offset lies in each target: (rows, targets)."""
        points = snap(outcomes, self.grid)[:, None]
        ends = self.shifted(offset)
        # Treat each outcome as a distribution of one point: P(Y < end) and P(Y <= end) are 0 or 1.
        a_minus, a_plus = self.spread((points < ends).astype(float), (points <= ends).astype(float))
        inside = (np.maximum(a_minus, 0.0) == 0.0) & (np.minimum(a_plus, 1.0) == 1.0)
        hit: BoolArray = np.zeros((inside.shape[0], len(self.targets)), dtype=np.bool_)
        for j, (a, b) in enumerate(pairwise(self.first)):
            hit[:, j] = inside[:, a:b].any(axis=1)
        return hit


def raw_probability(a_minus: FloatArray, a_plus: FloatArray, first: IndexArray) -> FloatArray:
    """The uncalibrated probability of each target, (rows, targets)."""
    mass = np.minimum(a_plus, 1.0) - np.maximum(a_minus, 0.0)
    total: FloatArray = np.zeros((mass.shape[0], first.size - 1))
    for j, (a, b) in enumerate(pairwise(first)):
        total[:, j] = np.clip(mass[:, a:b].sum(axis=1), 0.0, 1.0)
    return total


def checked_offset(offset: ArrayLike, rows: int) -> FloatArray:
    """The offset (the behavior so far) of every row, (rows,); a single number is for all rows."""
    array = np.asarray(offset, dtype=np.float64)
    if array.shape not in ((), (rows,)):
        raise InputError(
            Argument("offset"),
            f" needs one number or one per row ({rows}), got shape {array.shape}",
        )
    if not np.all(np.isfinite(array)):
        bad = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
        raise InputError(
            Argument("offset"), f" needs finite numbers, got {array.flat[bad[0]]} at row {bad[0]}"
        )
    return np.broadcast_to(array, (rows,))


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Calibration episodes at one step: features, finite outcomes, and a hash of each id (its key).

    ``X`` has shape (episodes, features), ``y`` and ``keys`` have shape (episodes,).
    """

    X: ArrayLike
    y: FloatArray
    keys: KeyArray

    @classmethod
    def checked(
        cls,
        model: object,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ids: ArrayLike | None,
        grid: float | None,
    ) -> CalibrationRows:
        """The calibration rows after checks; an error names the first row that can't be used."""
        rows = n_rows(X)
        outcomes = np.asarray(y, dtype=np.float64)
        if outcomes.shape != (rows,):
            raise InputError(
                Argument("y"),
                f" needs one outcome per row of X ({rows}), got shape {outcomes.shape}",
            )
        if rows == 0:
            raise CalibrationError("calibrate() needs at least one row, got none")
        bad = np.flatnonzero(~np.isfinite(outcomes))
        if bad.size:
            raise InputError(
                Argument("y"),
                f" needs finite outcomes, got {outcomes[bad[0]]} at row {bad[0]} "
                f"({bad.size} of {rows} rows); leave out episodes without an outcome",
            )
        return cls(X, snap(outcomes, grid), checked_keys(model, ids, rows))


def checked_keys(model: object, ids: ArrayLike | None, rows: int) -> KeyArray:
    """One key (a hash of the episode's id) per row. Without ids the row number is the id."""
    if ids is None:
        return keys_of(np.arange(rows))
    named: AnyArray = np.asarray(ids)
    if named.shape != (rows,):
        raise InputError(
            Argument("ids"), f" needs one id per row of X ({rows}), got shape {named.shape}"
        )
    keys = keys_of(named)
    distinct, counts = np.unique(keys, return_counts=True)
    if distinct.size < rows:
        twice = named[np.flatnonzero(keys == distinct[counts > 1][0])[0]]
        raise CalibrationError(
            Argument("ids"),
            f" needs every episode at most once, got {twice!r} more than once; "
            "pass one row per episode",
        )
    trained = getattr(model, "training_keys_", None)
    if trained is not None:
        leaked = np.flatnonzero(np.isin(keys, trained))
        if leaked.size:
            raise CalibrationError(
                f"{leaked.size} of {rows} calibration episodes were used to train the model, "
                f"{named[leaked[0]]!r} among them; calibrate with episodes that the model has "
                "not seen"
            )
    return keys


class Calibrator(ABC):
    """The base class of calibrators: a fitted model, and what was learned about its errors.

    Parameters
    ----------
    model
        A fitted model; it is not changed.
    grid
        Outcomes and the bounds of targets are rounded to multiples of this number before they are
        compared, so that 0.1 + 0.2 equals 0.3; None for no rounding.
    """

    _asks: ClassVar[tuple[str, ...]]

    def __init__(self, model: Any, *, grid: float | None = None) -> None:
        missing = [name for name in self._asks if not callable(getattr(model, name, None))]
        if missing:
            raise InputError(
                f"{type(self).__name__} needs a model with {', '.join(self._asks)}; "
                f"{type(model).__name__} lacks {', '.join(missing)}{_remedy(missing, model)}"
            )
        self.model = model
        self.grid = grid
        self._n: int | None = None

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ids: ArrayLike | None = None,
        seed: int = 0,
        step: int = 0,
    ) -> Self:
        """The object itself, calibrated with episodes that the model has not seen.

        Parameters
        ----------
        X, y
            One row and one finite outcome per calibration episode.
        ids
            The episodes' ids; without them the row number is the id. If the model remembers the
            ids that it was trained on, these episodes are refused.
        seed, step
            Together with the ids, these determine the random numbers that break ties: if the model
            gives an outcome itself a probability above 0, the rank of the outcome (where it fell in
            its predicted distribution) is drawn at random (method M3 in docs/methods.md).
        """
        self._learn(CalibrationRows.checked(self.model, X, y, ids=ids, grid=self.grid), seed, step)
        self._n = n_rows(X)
        return self

    @abstractmethod
    def _learn(self, rows: CalibrationRows, seed: int, step: int) -> None:
        """Compute and store, from the checked calibration rows, what later answers need."""

    @property
    def n_calibration(self) -> int:
        """The number of episodes that were used to calibrate."""
        if self._n is None:
            raise UnfittedError(
                f"{type(self).__name__} is not calibrated; call calibrate(X, y) with episodes "
                "that the model has not seen"
            )
        return self._n

    def __repr__(self) -> str:
        state = "uncalibrated" if self._n is None else f"n_calibration={self._n}"
        return f"{type(self).__name__}({type(self.model).__name__}, {state})"


def _remedy(missing: list[str], model: object) -> str:
    """What to do with a model that lacks these methods; empty if nothing is known to help."""
    if "predict" in missing:
        return ""
    wrap = (
        ". A regressor that predicts quantiles gets them as "
        "ontarget.models.RegressorQuantiles(regressor)"
    )
    if not callable(getattr(model, "predict", None)):
        return wrap
    by_mean = "SplitConformal or ConformalPredictiveSystem"
    return f"{wrap}; with one that predicts the mean, use {by_mean}"


def n_rows(X: ArrayLike) -> int:
    """The number of rows of X; an X that is not two-dimensional is refused."""
    shape = np.shape(X)
    if len(shape) != 2:
        raise InputError(
            Argument("X"), f" needs two dimensions (rows, features), got shape {shape}"
        )
    return int(shape[0])


def checked_kind(kind: str) -> Kind:
    """The kind of interval, ``"at_least"`` or ``"at_most"``; any other value is refused."""
    if kind not in get_args(Kind):
        raise InputError(
            Argument("kind"), f" needs one of {', '.join(get_args(Kind))}, got {kind!r}"
        )
    return kind  # type: ignore[return-value]


def score_rank(
    level: Level, n: int, kind: str, *, unbounded: bool, confidence: Level | None = None
) -> int:
    """Which of n sorted calibration scores gives the width of an interval, from 0 to n + 1."""
    if checked_kind(kind) == "at_most":
        return floor_rank(level, n, confidence)
    if not unbounded:
        require_reachable(level, n, confidence)
    return ceil_rank(level, n, confidence)
