"""The base class of all calibrators: it checks rows, and that `calibrate` was called first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from ontarget._grid import snap
from ontarget._keyed import keys_of
from ontarget._typing import AnyArray, ArrayLike, FloatArray, KeyArray
from ontarget.conformal._levels import Level, ceil_rank, floor_rank, require_reachable
from ontarget.errors import Argument, CalibrationError, InputError, UnfittedError

Kind: TypeAlias = Literal["at_least", "at_most"]


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
    """One key (a hash of the episode's id) per row. Without ids the row number is the id.

    Raises an error if an id appears twice, or if the model was trained on one of the episodes.
    """
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
    """Which of n sorted calibration scores gives the width of an interval, from 0 to n + 1.

    A result k from 1 to n is the k-th smallest score (method M5 in docs/methods.md). 0 means that
    the interval is empty. n + 1 means that it is the whole line; unless ``unbounded`` is True,
    this case is an error instead.
    """
    if checked_kind(kind) == "at_most":
        return floor_rank(level, n, confidence)
    if not unbounded:
        require_reachable(level, n, confidence)
    return ceil_rank(level, n, confidence)
