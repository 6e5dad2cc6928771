"""The features of a state: their names, types and categories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ontarget._scalars import NUMBER_KINDS, number_of, numbers_of, shown
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import CategoryError, EpisodesError

__all__ = ["MOST_NAMED", "Feature", "Schema", "Unseen"]

MOST_NAMED: Final = 4  # unknown categories of a feature that are kept by name

Unseen: TypeAlias = Literal["error", "missing"]

_LONGEST_NAME = 60
_UNNAMED = frozenset(
    {list, tuple, np.ndarray}
)  # exactly these types: a named tuple or another subclass is handled separately


@dataclass(frozen=True)
class Feature:
    """One named feature of a state.

    Parameters
    ----------
    name
        The column's name.
    dtype
        The type of the column in the user's data, which is restored when episodes are written: a
        NumPy name, or ``"text"``.
    categories
        The categories of a text feature (its dictionary); a category's position is its code.
    categorical
        Whether the column's numbers stand for categories.
    unseen
        How to treat a category that is not in the dictionary: as an ``"error"``, or as
        ``"missing"``.
    """

    name: str
    dtype: str = "float64"
    categories: tuple[str, ...] | None = None
    categorical: bool = False
    unseen: Unseen = "error"
    _codes: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if (self.dtype == "text") != (self.categories is not None):
            raise EpisodesError(
                f"feature {self.name!r}: a text feature needs categories, and a feature of "
                f"numbers has none"
            )
        if self.categories is not None:
            object.__setattr__(self, "categorical", True)
            self._codes.update({name: code for code, name in enumerate(self.categories)})

    def code(self, value: object) -> float:
        """The number that models use for a value of this feature; NaN if the value is missing."""
        if self.categories is None:
            try:
                return number_of(value)
            except Exception as error:  # a foreign object's conversion may raise anything
                raise EpisodesError(
                    f"feature {self.name!r} needs a number, got {shown(value)}"
                ) from error
        if value is None or value is np.ma.masked or (isinstance(value, float) and value != value):
            return math.nan
        try:
            found = self._codes.get(str(value))
        except Exception as error:
            raise EpisodesError(f"feature {self.name!r} needs text, got {shown(value)}") from error
        if found is None and self.unseen == "missing":
            return math.nan
        if found is None:
            raise CategoryError(
                f"feature {self.name!r} has no category {shown(value)}; "
                f"its categories are {_listed(self.categories)}"
            )
        return float(found)

    def to_json(self) -> dict[str, Any]:
        """The feature as plain JSON values."""
        found: dict[str, Any] = {"name": self.name, "dtype": self.dtype}
        if self.categories is not None:
            found["categories"] = list(self.categories)
            if self.unseen != "error":
                found["unseen"] = self.unseen
        elif self.categorical:
            found["categorical"] = True
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Feature:
        """The feature that `to_json` wrote."""
        categories = found.get("categories")
        return cls(
            name=str(found["name"]),
            dtype=str(found["dtype"]),
            categories=None if categories is None else tuple(str(c) for c in categories),
            categorical=bool(found.get("categorical", False)),
            unseen="missing" if found.get("unseen") == "missing" else "error",
        )


@dataclass(frozen=True)
class Schema:
    """The features of a state, in order.

    Examples
    --------
    >>> schema = Schema((Feature("speed"), Feature("mode", "text", ("off", "on"))))
    >>> print(schema.encode({"mode": "on", "speed": 2.5}))
    [2.5 1. ]
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        counts = Counter(feature.name for feature in self.features)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise EpisodesError(f"`features` need different names, got {twice[0]!r} twice")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the features whose values are categories."""
        return tuple(i for i, feature in enumerate(self.features) if feature.categorical)

    def __len__(self) -> int:
        return len(self.features)

    def encode(self, state: Mapping[str, object] | ArrayLike) -> FloatArray:
        """One state as the numbers that models use; an `EpisodesError` says what is wrong with it.

        A mapping, or anything else with names (a pandas Series, a named tuple, a structured array),
        is read by name; other states are read in the order of the features. A masked entry counts
        as missing. If there is only one feature, a single value is enough.
        """
        try:
            named = _by_name(state, self.names)
            if named is not None:
                self._check_named(named)
                return self._coded(named[name] for name in self.names)
            row = state if isinstance(state, np.ma.MaskedArray) else np.asarray(state)
            if row.shape == () and len(self) == 1:
                row = row.reshape(1)
            if row.shape == (len(self),):
                if row.dtype.kind in NUMBER_KINDS:
                    return numbers_of(row)
                ones = row if isinstance(state, np.ndarray) else np.asarray(state, dtype=object)
                return self._coded(ones.reshape(-1))
        except EpisodesError:
            raise
        except Exception as error:  # a foreign object may raise anything
            raise EpisodesError(f"{self._wanted}, got {shown(state)}") from error
        if row.dtype.kind not in NUMBER_KINDS:
            raise EpisodesError(f"{self._wanted}, got {shown(state)}")
        raise EpisodesError(
            f"state needs {len(self)} features ({_listed(self.names)}), "
            f"got an array of shape {row.shape}"
        )

    def unseen_in(self, state: Any) -> dict[str, str]:
        """The categories in this state that are not known and so count as missing, by feature.

        Examples
        --------
        >>> mode = Feature("mode", "text", ("off", "on"), unseen="missing")
        >>> Schema((Feature("speed"), mode)).unseen_in({"speed": 2.5, "mode": "wild"})
        {'mode': 'wild'}
        """
        if not self._lenient:
            return {}
        try:
            named = _by_name(state, self.names)
            values = list(state) if named is None else [named.get(name) for name in self.names]
            found = {self.names[j]: values[j] for j in self._lenient}
        except Exception:  # a foreign object may raise anything; `encode` says what is wrong
            return {}
        return {
            name: value[:_LONGEST_NAME]
            for (name, value), j in zip(found.items(), self._lenient, strict=True)
            if isinstance(value, str) and value not in self.features[j]._codes
        }

    @cached_property
    def _lenient(self) -> tuple[int, ...]:
        """The positions of the text features in which an unknown category counts as missing."""
        features = enumerate(self.features)
        return tuple(j for j, one in features if one.categories and one.unseen == "missing")

    def encode_many(self, states: Any) -> tuple[FloatArray, dict[int, str]]:
        """States as rows of numbers, and a dictionary of errors: row number to reason.

        A state that cannot be read becomes a row of NaN and an entry in the dictionary. Pass a
        matrix, a dataframe (whose columns are found by name), or a sequence of states that `encode`
        can read.
        """
        try:
            columns = getattr(states, "columns", None)
            if columns is not None:
                self._check_named(columns)
                states = list(zip(*(np.asarray(states[name]) for name in self.names), strict=True))
            ones = states if isinstance(states, np.ndarray) else list(states)
            whole = _matrix_of(ones)
        except EpisodesError:
            raise
        except Exception as error:  # a foreign object may raise anything
            raise EpisodesError(f"states need one row per run, got {shown(states)}") from error
        if whole is not None and whole.shape[1:] == (len(self),):
            return whole, {}
        rows, unread = np.full((len(ones), len(self)), np.nan), {}
        for i, one in enumerate(ones):
            try:
                rows[i] = self.encode(one)
            except EpisodesError as error:
                unread[i] = str(error)
        return rows, unread

    def _coded(self, values: Iterable[object]) -> FloatArray:
        return np.array([f.code(one) for f, one in zip(self.features, values, strict=True)])

    def _check_named(self, named: Any) -> None:
        missing = next((name for name in self.names if name not in named), None)
        if missing is not None:
            raise EpisodesError(
                f"state lacks the feature {missing!r}; it needs {_listed(self.names)}"
            )

    @property
    def _wanted(self) -> str:
        return f"state needs numbers in the order {_listed(self.names)}, or a mapping by name"

    def to_json(self) -> list[dict[str, Any]]:
        """The list of features as plain JSON values."""
        return [feature.to_json() for feature in self.features]

    @classmethod
    def from_json(cls, found: Sequence[Mapping[str, Any]]) -> Schema:
        """The list of features that `to_json` wrote."""
        return cls(tuple(Feature.from_json(feature) for feature in found))


def _by_name(state: Any, names: Sequence[str]) -> Mapping[str, object] | None:
    """The state's values by their names; None if they have no names, only an order."""
    if isinstance(state, Mapping):
        return state
    if isinstance(state, np.ndarray | np.void):
        fields = state.dtype.names
        return None if fields is None else {name: state[name] for name in fields}
    if isinstance(state, tuple):
        fields = getattr(state, "_fields", ())
        alike = any(name in fields for name in names)
        return dict(zip(fields, state, strict=True)) if alike else None
    if callable(getattr(state, "keys", None)):  # a pandas Series, a row of a database
        labels = set(state.keys())
        if any(isinstance(label, str) for label in labels):
            return {name: state[name] for name in names if name in labels}
    return None


def _matrix_of(ones: Any) -> FloatArray | None:
    """The states as a matrix, if they are rows of numbers without names; else None."""
    if not (isinstance(ones, np.ndarray) or _UNNAMED.issuperset(map(type, ones))):
        return None
    try:
        whole = ones if isinstance(ones, np.ndarray) else np.array(ones)
    except Exception:  # uneven rows, or foreign objects in them
        return None
    return numbers_of(whole) if whole.dtype.kind in NUMBER_KINDS else None


def _listed(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
