"""The protocols of conditional distributions (M2), and the checks that models share."""

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
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.errors import InputError

__all__ = [
    "ConditionalDistribution",
    "LiveModel",
    "Side",
    "StoredDistribution",
    "TrainingRows",
    "check_categorical",
    "check_features",
    "check_labels",
    "check_levels",
    "check_side",
    "check_values",
    "episodes_of",
]

Side: TypeAlias = Literal["left", "right"]


@runtime_checkable
class ConditionalDistribution(Protocol):
    """A model of the outcome's distribution given a row of features.

    A model gives both limits of the CDF, because single outcomes may have positive probability
    (*atoms*): the left limit is ``P(Y < y | x)`` and the right one ``P(Y <= y | x)``. Likewise the
    CDF has two inverses, ``side="left"`` for ``inf{y : F(y) >= q}`` and ``side="right"`` for
    ``inf{y : F(y) > q}``; ``q <= 0`` on the left gives -inf and ``q >= 1`` on the right gives +inf,
    never an end of the support.

    Notes
    -----
    Any object with these three methods can be calibrated and used in a monitor. All else is
    optional:

    - ``fit`` gets those of the keywords ids, steps and categorical that its signature names: the
      episode and the step of each row, and the columns of X that hold category numbers.
    - ``get_params``: the model is copied by scikit-learn's ``clone``, otherwise by a deep copy.
    - ``seed`` or ``random_state``, an attribute or a parameter: set for every model of a monitor.
    - ``pooled_over(n_steps)``: an unfitted copy for rows that pool this many steps, on average.
    - ``whole_run``, an attribute that is True: one such model serves all steps of a run, unless the
      monitor gets ``steps_per_model``.
    - ``out_of_bag_limits(X, y, ids)``: `cdf_limits` for rows of training episodes, from parts of
      the model that have not seen the row's episode.
    - ``fits_side_by_side``: True if several copies may be fitted in threads at the same time.
    - ``predict(X)``: the conditional mean of each row, for conformal methods that need it.
    - ``live()``: a `LiveModel`, which answers at every step of a run without checks.
    - ``kind``, ``to_arrays`` and ``from_arrays``: needed to save the model (`StoredDistribution`).
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        """Learn from rows, and return the model."""
        ...

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Left and right limits of the CDF: y scalar or (n,) gives (n,), (n, m) gives (n, m)."""
        ...

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Quantiles of each row: q scalar gives (n,), 1-D gives (n, m)."""
        ...


@runtime_checkable
class StoredDistribution(ConditionalDistribution, Protocol):
    """A conditional distribution that a model file can store; see `register`."""

    kind: ClassVar[str]

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model whose `to_arrays` returned these arrays."""
        ...


class LiveModel(Protocol):
    """A fitted model that writes its answers for live rows into arrays of the caller.

    Its rows are not checked.
    """

    @property
    def takes_threads(self) -> bool:
        """Whether several threads may ask at once."""
        ...

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write both limits of the CDF: X is (rows, features), the others (rows, values)."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Checked rows to learn from, without rows of weight 0.

    ``weight`` is None if all weights are equal. ``episodes`` and ``steps`` are numbers from 0 up
    without gaps, in the order of the sorted ids and steps. Without ids every row is its own
    episode; without steps all rows are of one step.
    """

    X: FloatArray
    y: FloatArray
    weight: FloatArray | None
    episodes: IndexArray
    steps: IndexArray
    step_labels: AnyArray  # the sorted steps themselves
    has_ids: bool
    keys: KeyArray | None  # of the episodes, in their order; None without ids

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
        """The rows, or an `InputError` that says what is wrong with them."""
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
        """The episode of each row, as trees and folds divide them.

        Without ids each row is an episode, identified by its position.
        """
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
    """Raise an `InputError` if a feature is infinite, which says where."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"features need finite numbers or NaN for missing, got {X[row, column]} "
            f"in row {row}, column {column}"
        )


def check_labels(name: str, labels: ArrayLike, n_rows: int) -> AnyArray:
    """The episode or the step of each row, or an `InputError` that says what is wrong with it."""
    array = np.asarray(labels)
    if array.shape != (n_rows,):
        raise InputError(
            f"{name} needs one value per row of X ({n_rows} rows), got shape {array.shape}"
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"{name} needs a value in every row, got NaN in row {_first_nan(array)}")
    return array


def episodes_of(keys: KeyArray | None, ids: ArrayLike, n_rows: int) -> IndexArray:
    """The training episode of each row, or an `InputError` that names an id that was not in fit.

    ``keys`` are the keys of the training episodes in order; None for a fit without ids.
    """
    if keys is None:
        raise InputError(
            "out-of-bag answers need a model that knows its episodes, got one fitted without "
            "ids; pass ids= to fit"
        )
    labels, place = np.unique(check_labels("ids", ids, n_rows), return_inverse=True)
    asked, order = keys_of(labels), np.argsort(keys)
    found = order[np.minimum(np.searchsorted(keys, asked, sorter=order), keys.size - 1)]
    unknown = np.flatnonzero(keys[found] != asked)
    if unknown.size:
        row = int(np.argmax(place == unknown[0]))
        raise InputError(
            f"ids needs episodes that were in fit, got {labels.tolist()[unknown[0]]!r} in row "
            f"{row}; ask cdf_limits about other episodes"
        )
    return np.asarray(found[place], dtype=np.intp)


def check_values(y: ArrayLike, n_rows: int) -> tuple[FloatArray, bool]:
    """The values to ask at, as (n_rows, k), and whether the answer should be flat."""
    values = np.asarray(y, dtype=np.float64)
    if values.ndim == 0:
        values, flat = np.full((n_rows, 1), values), True
    elif values.ndim == 1 and values.shape[0] == n_rows:
        values, flat = values.reshape(n_rows, 1), True
    elif values.ndim == 2 and values.shape[0] == n_rows:
        flat = False
    else:
        raise InputError(
            f"y needs a number, one number per row or one line per row of X ({n_rows} rows), "
            f"got shape {values.shape}"
        )
    if np.isnan(values).any():
        raise InputError(f"y needs numbers, got NaN in row {_first_nan(values)}")
    return np.ascontiguousarray(values), flat


def check_levels(q: ArrayLike) -> tuple[FloatArray, bool]:
    """The levels of a quantile as a flat array, and whether the answer should be flat."""
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1:
        raise InputError(f"q needs a number or a flat list of them, got shape {levels.shape}")
    if np.isnan(levels).any():
        raise InputError("q needs numbers, got NaN")
    return np.atleast_1d(levels), levels.ndim == 0


def check_categorical(categorical: Sequence[int] | None, n_features: int) -> tuple[int, ...]:
    """The indices of the categorical columns, each once and in order."""
    columns = sorted({int(column) for column in categorical or ()})
    for column in columns:
        if not 0 <= column < n_features:
            raise InputError(f"categorical needs columns from 0 to {n_features - 1}, got {column}")
    return tuple(columns)


def check_side(side: str) -> Side:
    """The side; an unknown one is refused."""
    if side not in get_args(Side):
        raise InputError(f"side needs one of {', '.join(get_args(Side))}, got {side!r}")
    return "left" if side == "left" else "right"


def _check_outcomes(y: FloatArray, n_rows: int) -> None:
    if y.shape != (n_rows,):
        raise InputError(f"y needs one outcome per row of X ({n_rows} rows), got shape {y.shape}")
    if n_rows == 0:
        raise InputError("a fit needs at least one row, got none")
    # NaN fails every comparison, so this catches it too.
    bad = ~(np.abs(y) <= LARGEST_OUTCOME)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"y needs finite outcomes up to 1e300 in size, got {y[row]} in row {row}")


def _check_weight(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise InputError(
            f"sample_weight needs one number per row of X ({n_rows} rows), got shape {weight.shape}"
        )
    bad = ~((weight >= 0.0) & (weight < np.inf))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"sample_weight needs finite numbers from 0 up, got {weight[row]} in row {row}"
        )
    if not (weight > 0.0).any():
        raise InputError("sample_weight needs at least one number above 0, got zero everywhere")
    return weight


def _first_nan(values: FloatArray) -> int:
    return int(np.argwhere(np.isnan(values))[0, 0])
