"""The protocols of models of a conditional distribution, and the checks that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    get_args,
    runtime_checkable,
)

import numpy as np

from ontarget._grid import LARGEST_OUTCOME
from ontarget._keyed import keys_of
from ontarget._threads import n_threads as n_threads
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.errors import Argument, InputError

Side: TypeAlias = Literal["left", "right"]


@runtime_checkable
class ConditionalDistribution(Protocol):
    """A model of the outcome's distribution given a row of features.

    A model gives two limits of the CDF at y, because single outcomes may have positive probability
    (*atoms*): the left limit is ``P(Y < y | x)`` and the right limit is ``P(Y <= y | x)``. Likewise
    the CDF F has two inverses: ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is
    ``inf{y : F(y) > q}``. On the left, ``q <= 0`` gives -inf; on the right, ``q >= 1`` gives +inf.
    The result is infinite there, and not the smallest or largest outcome.

    Notes
    -----
    Any object with the methods ``fit``, ``cdf_limits`` and ``quantile`` can be calibrated and used
    in a monitor. Everything else is optional:

    - If ``fit`` has a parameter ``ids``, ``steps`` or ``categorical``, a monitor passes it: the
      episode of each row, the step of each row, and the columns of X that hold category numbers.
    - ``get_params``: with it, the model is copied by scikit-learn's ``clone``; without it, by a
      deep copy.
    - ``seed`` or ``random_state``, an attribute or a parameter: a monitor sets it for every copy.
    - ``pooled_over(n_steps)``: returns an unfitted copy for training rows that come from
      ``n_steps`` steps of each episode, on average.
    - ``whole_run``, an attribute that is True: a monitor fits one model for all steps of a run,
      unless it gets ``steps_per_model``.
    - ``out_of_bag_limits(X, y, ids)``: as ``cdf_limits``, for rows of training episodes. The answer
      for a row comes from parts of the model that have not learned from the row's episode.
    - ``fits_side_by_side``: True if several copies may be fitted in threads at the same time.
    - ``predict(X)``: the conditional mean of each row, for conformal methods that need it.
    - ``live()``: returns a `LiveModel`, which a monitor asks at every step of a run.
    - ``kind``, ``to_arrays`` and ``from_arrays``: needed to save the model (`StoredDistribution`).
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        """Learn from rows of features X and their outcomes y; return the fitted model."""
        ...

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        ...

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        """
        ...


@runtime_checkable
class StoredDistribution(ConditionalDistribution, Protocol):
    """The interface of a model of the outcome's distribution that a model file can store.

    See `register`.
    """

    kind: ClassVar[str]

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that its `to_arrays` returned."""
        ...


class LiveModel(Protocol):
    """A fitted model, prepared to be asked at every step of a run.

    It does not check the rows that it gets, and it writes its answers into arrays of the caller.
    """

    @property
    def takes_threads(self) -> bool:
        """Whether several threads may ask the model at the same time."""
        ...

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``.

        X has the shape (rows, features). ``y``, ``left`` and ``right`` have the shape (rows,
        values).
        """
        ...


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Training rows that have been checked; rows of weight 0 are left out.

    ``weight`` is None if all weights are equal. ``episodes`` and ``steps`` hold, for each row, the
    place of its episode among the sorted ids, and of its step among the sorted steps. If no ids
    were given, every row is its own episode. If no steps were given, all rows are at one step.
    """

    X: FloatArray
    y: FloatArray
    weight: FloatArray | None
    episodes: IndexArray
    steps: IndexArray
    step_labels: AnyArray  # the sorted steps themselves
    has_ids: bool
    keys: KeyArray | None  # one hash per episode, in the order of the sorted ids; None without ids

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        sample_weight: ArrayLike | None,
        *,
        ids: ArrayLike | None,
        steps: ArrayLike | None,
    ) -> Self:
        """The training rows, after checks; an `InputError` says what is wrong with them."""
        n_rows = X.shape[0]
        check_features(X)
        _check_outcomes(y, n_rows)
        weight = _check_weight(sample_weight, n_rows)
        keep = slice(None) if weight is None else np.flatnonzero(weight > 0.0)
        of_row = check_labels("ids", np.arange(n_rows) if ids is None else ids, n_rows)[keep]
        labels, episodes = np.unique(of_row, return_inverse=True)
        at_step = check_labels("steps", np.zeros(n_rows, int) if steps is None else steps, n_rows)
        step_labels, of_step = np.unique(at_step[keep], return_inverse=True)
        if weight is not None:
            weight = weight[keep]
            weight = None if weight.min() == weight.max() else weight
        return cls(
            X=X[keep],
            y=y[keep] + 0.0,  # so that -0.0 and 0.0 are one outcome
            weight=weight,
            episodes=episodes,
            steps=of_step,
            step_labels=step_labels,
            has_ids=ids is not None,
            keys=None if ids is None else keys_of(labels),
        )

    @property
    def units(self) -> IndexArray:
        """The number of each row's episode; rows with the same number always stay together."""
        return self.episodes if self.has_ids else np.arange(self.y.size)

    def take(self, order: IndexArray) -> Self:
        """The same rows in this order."""
        return replace(
            self,
            X=self.X[order],
            y=self.y[order],
            weight=None if self.weight is None else self.weight[order],
            episodes=self.episodes[order],
            steps=self.steps[order],
        )


def check_features(X: FloatArray) -> None:
    """Raise an `InputError` that says where, if a feature is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"features need finite numbers or NaN for missing, got {X[row, column]} "
            f"in row {row}, column {column}"
        )


def check_labels(name: str, labels: ArrayLike, n_rows: int) -> AnyArray:
    """The labels as an array; an `InputError` if there is not one label for each row."""
    array = np.asarray(labels)
    if array.shape != (n_rows,):
        raise InputError(
            Argument(name),
            f" needs one value per row of X ({n_rows} rows), got shape {array.shape}",
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(
            Argument(name), f" needs a value in every row, got NaN in row {_first_nan(array)}"
        )
    return array


def episodes_of(keys: KeyArray | None, ids: ArrayLike, n_rows: int) -> IndexArray:
    """The number of each row's training episode; an `InputError` if an id was not in `fit`."""
    if keys is None:
        raise InputError(
            "out-of-bag answers need to know which rows belong to one episode, but the model was "
            "fitted without ids; pass ids= to fit"
        )
    labels, place = np.unique(check_labels("ids", ids, n_rows), return_inverse=True)
    asked, order = keys_of(labels), np.argsort(keys)
    found = order[np.minimum(np.searchsorted(keys, asked, sorter=order), keys.size - 1)]
    unknown = np.flatnonzero(keys[found] != asked)
    if unknown.size:
        row = int(np.argmax(place == unknown[0]))
        raise InputError(
            Argument("ids"),
            f" needs episodes that were in fit, got {labels.tolist()[unknown[0]]!r} in row "
            f"{row}; use cdf_limits for episodes that were not in fit",
        )
    return np.asarray(found[place], dtype=np.intp)


def check_values(y: ArrayLike, n_rows: int) -> tuple[FloatArray, bool]:
    """The values as an array of shape (n_rows, k), and whether the answer should be flat."""
    values = np.asarray(y, dtype=np.float64)
    if values.ndim == 0:
        values, flat = np.full((n_rows, 1), values), True
    elif values.ndim == 1 and values.shape[0] == n_rows:
        values, flat = values.reshape(n_rows, 1), True
    elif values.ndim == 2 and values.shape[0] == n_rows:
        flat = False
    else:
        raise InputError(
            Argument("y"),
            f" needs one number, or {n_rows} numbers or {n_rows} lines (one per row of X), "
            f"got shape {values.shape}",
        )
    if np.isnan(values).any():
        raise InputError(Argument("y"), f" needs numbers, got NaN in row {_first_nan(values)}")
    return np.ascontiguousarray(values), flat


def check_levels(q: ArrayLike) -> tuple[FloatArray, bool]:
    """The levels of quantiles as a flat array, and whether ``q`` was a single number."""
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1:
        raise InputError(
            Argument("q"), f" needs a number or a flat list of them, got shape {levels.shape}"
        )
    if np.isnan(levels).any():
        raise InputError(Argument("q"), " needs numbers, got NaN")
    return np.atleast_1d(levels), levels.ndim == 0


def check_categorical(categorical: Sequence[int] | None, n_features: int) -> tuple[int, ...]:
    """The indices of the categorical columns, each once and in ascending order."""
    columns = sorted({int(column) for column in categorical or ()})
    for column in columns:
        if not 0 <= column < n_features:
            raise InputError(
                Argument("categorical"), f" needs columns from 0 to {n_features - 1}, got {column}"
            )
    return tuple(columns)


def check_side(side: str) -> Side:
    """The argument ``side``; an `InputError` unless it is ``left`` or ``right``."""
    if side not in get_args(Side):
        raise InputError(
            Argument("side"), f" needs one of {', '.join(get_args(Side))}, got {side!r}"
        )
    return "left" if side == "left" else "right"


def _check_outcomes(y: FloatArray, n_rows: int) -> None:
    if y.shape != (n_rows,):
        raise InputError(
            Argument("y"), f" needs one outcome per row of X ({n_rows} rows), got shape {y.shape}"
        )
    if n_rows == 0:
        raise InputError("a fit needs at least one row, got none")
    # NaN fails every comparison, so this catches it too.
    bad = ~(np.abs(y) <= LARGEST_OUTCOME)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            Argument("y"), f" needs finite outcomes up to 1e300 in size, got {y[row]} in row {row}"
        )


def _check_weight(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise InputError(
            Argument("sample_weight"),
            f" needs one number per row of X ({n_rows} rows), got shape {weight.shape}",
        )
    bad = ~((weight >= 0.0) & (weight < np.inf))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            Argument("sample_weight"),
            f" needs finite numbers from 0 up, got {weight[row]} in row {row}",
        )
    if not (weight > 0.0).any():
        raise InputError(
            Argument("sample_weight"), " needs at least one number above 0, got zero everywhere"
        )
    return weight


def _first_nan(values: FloatArray) -> int:
    return int(np.argwhere(np.isnan(values))[0, 0])
