"""The features of a state: their names, types and categories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ontarget._arrays import NUMBER_KINDS, number_of, numbers_of, shown
from ontarget._text import plain
from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.errors import Argument, CategoryError, EpisodesError

Unseen: TypeAlias = Literal["error", "missing"]

_MOST_NAMED: Final = 4  # unknown categories of a feature that are kept by name
_MOST_SHOWN: Final = 3
_LONGEST_NAME: Final = 60
_UNNAMED = frozenset(
    {list, tuple, np.ndarray}
)  # exactly these types: a named tuple or another subclass is handled separately


class UnknownCategories(NamedTuple):
    """The readings of one feature that are of unknown categories, and so count as missing.

    Attributes
    ----------
    feature
        The feature's name.
    readings
        How many readings these are.
    values
        A few of these categories, each with its number of readings, the most frequent first. Long
        names are cut.
    """

    feature: str
    readings: int
    values: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, feature: str, counts: Iterable[tuple[object, int]]) -> UnknownCategories:
        """The readings of a feature, from the number of readings of each unknown category."""
        merged: Counter[str] = Counter()
        for value, n in counts:
            merged[_category(value)[:_LONGEST_NAME]] += n
        first = sorted(merged.items(), key=lambda one: (-one[1], one[0]))[:_MOST_NAMED]
        return cls(feature, merged.total(), tuple(first))

    @property
    def in_words(self) -> str:
        """For example ``activity: 'Wait', 'Escalate' (312 readings)``."""
        first = self.values[:_MOST_SHOWN]
        named = ", ".join(f"'{plain(value)}'" for value, _ in first)
        more = " and others" * (sum(n for _, n in first) < self.readings)
        readings = f"({self.readings:,} reading{'s' * (self.readings > 1)})"
        return f"{plain(self.feature)}: {named}{more} {readings}" if first else readings

    def to_json(self) -> dict[str, Any]:
        """The feature, its number of readings and its categories as plain JSON values."""
        return self._asdict() | {"values": dict(self.values)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> UnknownCategories:
        """The readings that `to_json` wrote."""
        counts = [(str(value), int(n)) for value, n in dict(found["values"]).items()]
        readings = max(0, int(found["readings"]))
        return cls.of(str(found["feature"]), counts)._replace(readings=readings)


def joined_unknown(parts: Iterable[UnknownCategories]) -> tuple[UnknownCategories, ...]:
    """The unknown categories of several recordings together, one entry per feature."""
    found: dict[str, list[UnknownCategories]] = {}
    for one in parts:
        found.setdefault(one.feature, []).append(one)
    return tuple(
        UnknownCategories.of(name, (pair for one in own for pair in one.values))._replace(
            readings=sum(one.readings for one in own)
        )
        for name, own in found.items()
    )


def unknown_in_words(found: Iterable[UnknownCategories], most: int = 5) -> str:
    """The unknown categories of the first few features, as text; empty if there are none."""
    listed = sorted(found, key=lambda one: -one.readings)
    more = f"; and {len(listed) - most} more columns" if len(listed) > most else ""
    return "; ".join(one.in_words for one in listed[:most]) + more


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
        How to treat a category that is not known: as an ``"error"``, or as ``"missing"``.
    known
        If the column's numbers stand for categories: the numbers that are known, ascending. None
        if every number is.
    """

    name: str
    dtype: str = "float64"
    categories: tuple[str, ...] | None = None
    categorical: bool = False
    unseen: Unseen = "error"
    known: tuple[float, ...] | None = None
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
        if self.known is not None and not self._may_know(self.known):
            raise EpisodesError(
                f"feature {self.name!r}: known numbers need to be finite and ascending, and the "
                f"feature categorical and not text"
            )

    def _may_know(self, known: tuple[float, ...]) -> bool:
        values = np.array(known, dtype=np.float64)
        ascending = bool(np.isfinite(values).all() and (values[1:] > values[:-1]).all())
        return ascending and self.categorical and self.categories is None

    @cached_property
    def codes(self) -> frozenset[float] | None:
        """The numbers that stand for a known category; None if any number may come."""
        if self.categories is not None:
            return frozenset(range(len(self.categories)))
        return None if self.known is None else frozenset(self.known)

    def strange(self, values: FloatArray) -> BoolArray:
        """Where numbers stand for no known category of this feature; missing ones are not strange.

        Examples
        --------
        >>> mode = Feature("mode", "text", ("off", "on"))
        >>> print(mode.strange(np.array([0.0, 1.0, -1.0, 1.5, np.inf, np.nan])))
        [False False  True  True  True False]
        """
        if self.categories is not None:
            with np.errstate(invalid="ignore"):
                known = (values >= 0.0) & (values < len(self.categories))
                known &= values == np.floor(values)
        elif self.known is not None:
            known = np.isin(values, np.array(self.known, dtype=np.float64))
        else:
            return np.zeros(values.shape, dtype=np.bool_)
        found: BoolArray = ~known & ~np.isnan(values)
        return found

    def refusal(self, value: object) -> CategoryError:
        """The error that says that this value is no known category."""
        listed = self.categories
        if listed is None:
            listed = tuple(map(_category, self.known or ()))
        return CategoryError(
            f"feature {self.name!r} has no category {shown(value)}; "
            f"its categories are {_listed(listed)}"
        )

    def code(self, value: object) -> float:
        """The number that models use for a value of this feature; NaN if the value is missing."""
        if self.categories is None:
            try:
                number = number_of(value)
            except Exception as error:  # a foreign object's conversion may raise anything
                raise EpisodesError(
                    f"feature {self.name!r} needs a number, got {shown(value)}"
                ) from error
            return self._checked(number)
        if value is None or value is np.ma.masked or (isinstance(value, float) and value != value):
            return math.nan
        try:
            found = self._codes.get(_category(value))
        except Exception as error:
            raise EpisodesError(f"feature {self.name!r} needs text, got {shown(value)}") from error
        if found is None and self.unseen == "missing":
            return math.nan
        if found is None:
            raise self.refusal(value)
        return float(found)

    def _checked(self, code: float) -> float:
        """The code; NaN if it stands for no known category, or an error if that is one."""
        if self.codes is None or code in self.codes or code != code:
            return code
        if self.unseen == "missing":
            return math.nan
        raise self.refusal(code)

    def to_json(self) -> dict[str, Any]:
        """The feature as plain JSON values."""
        found: dict[str, Any] = {"name": self.name, "dtype": self.dtype}
        if self.categories is not None:
            found["categories"] = list(self.categories)
        elif self.categorical:
            found["categorical"] = True
        if self.known is not None:
            found["known"] = [int(one) if one.is_integer() else one for one in self.known]
        if self.unseen != "error":
            found["unseen"] = self.unseen
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Feature:
        """The feature that `to_json` wrote."""
        categories, known = found.get("categories"), found.get("known")
        return cls(
            name=str(found["name"]),
            dtype=str(found["dtype"]),
            categories=None if categories is None else tuple(str(c) for c in categories),
            categorical=bool(found.get("categorical", False)),
            unseen="missing" if found.get("unseen") == "missing" else "error",
            known=None if known is None else tuple(float(one) for one in known),
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
            raise EpisodesError(
                Argument("features"), f" need different names, got {twice[0]!r} twice"
            )

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
                    return self.settled_row(numbers_of(row))
                ones = row if isinstance(state, np.ndarray) else np.asarray(state, dtype=object)
                return self._coded(ones.reshape(-1), in_codes=_has_no_text(ones))
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

        Long names are cut. A state that cannot be read has none.

        Examples
        --------
        >>> mode = Feature("mode", "text", ("off", "on"), unseen="missing")
        >>> schema = Schema((Feature("speed"), mode))
        >>> schema.unseen_in({"speed": 2.5, "mode": "wild"}), schema.unseen_in([2.5, -1])
        ({'mode': 'wild'}, {'mode': '-1'})
        """
        try:
            found = {
                self.names[j]: _category(value)[:_LONGEST_NAME]
                for j, value in self._strangers(state)
            }
        except Exception:  # a foreign object may raise anything; `encode` says what is wrong
            return {}
        return found

    def lacks_category(self, row: FloatArray) -> bool:
        """Whether a category of a state, as numbers, is missing or unknown; for the hot path."""
        for j, codes in self.codes:  # noqa: SIM110  # a generator takes twice the time
            if row.item(j) not in codes:
                return True
        return False

    def _strangers(self, state: Any) -> Iterable[tuple[int, object]]:
        """The unknown categories of a state that count as missing, each with its position."""
        if not self._lenient:
            return
        named: Any = _by_name(state, self.names)
        masked = isinstance(state, np.ma.MaskedArray)
        values = named or (state if masked else np.asarray(state, dtype=object)).reshape(-1)
        in_codes = named is None and _has_no_text(values)
        for j in self._lenient:
            feature, value = self.features[j], values[j if named is None else self.names[j]]
            if value is None or value is np.ma.masked or value != value:
                continue
            codes = feature.codes or ()
            text = feature.categories is not None and not in_codes
            if (
                (_category(value) not in feature._codes)
                if text
                else (number_of(value) not in codes)
            ):
                yield j, value

    @cached_property
    def _lenient(self) -> tuple[int, ...]:
        """The positions of the features in which an unknown category counts as missing."""
        return tuple(j for j, _ in self.codes if self.features[j].unseen == "missing")

    @cached_property
    def codes(self) -> tuple[tuple[int, frozenset[float]], ...]:
        """The position of each feature with known categories, and their numbers."""
        features = enumerate(self.features)
        return tuple((j, one.codes) for j, one in features if one.codes is not None)

    def settled(self, rows: FloatArray) -> FloatArray:
        """(rows, features): the rows, in which unknown categories count as missing.

        This is the one rule for numbers that stand for no known category, such as -1 or 1.5
        (method M18 in docs/methods.md): NaN, or infinite where such a number is an error.
        """
        found = rows
        for j, _ in self.codes:
            strange = self.features[j].strange(rows[:, j])
            if strange.any():
                found = rows.copy() if found is rows else found
                found[strange, j] = math.nan if self.features[j].unseen == "missing" else math.inf
        return found

    def settled_row(self, row: FloatArray) -> FloatArray:
        """One state, in which unknown categories count as missing; raises where they are errors."""
        if not self.lacks_category(row):
            return row
        pairs = zip(self.features, row.tolist(), strict=True)
        return np.array([feature._checked(one) for feature, one in pairs])

    def encode_many(self, states: Any) -> tuple[FloatArray, dict[int, str]]:
        """States as rows of numbers, and a dictionary of errors: row number to reason."""
        # A state that cannot be read becomes a row of NaN and an entry in the dictionary. Pass a
        # matrix, a dataframe (whose columns are found by name), or a sequence of states that
        # `encode` can read.
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
            return self.settled(whole), {}
        rows, unread = np.full((len(ones), len(self)), np.nan), {}
        for i, one in enumerate(ones):
            try:
                rows[i] = self.encode(one)
            except EpisodesError as error:
                unread[i] = str(error)
        return rows, unread

    def _coded(self, values: Iterable[object], *, in_codes: bool = False) -> FloatArray:
        """The values of a state as numbers; with ``in_codes``, numbers are codes, not names."""
        if in_codes:
            values = [
                one if f.categories is None or one is None else number_of(one)
                for f, one in zip(self.features, values, strict=True)
            ]
        return np.array(
            [
                f._checked(one) if in_codes and isinstance(one, float) else f.code(one)
                for f, one in zip(self.features, values, strict=True)
            ]
        )

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


def _has_no_text(values: Iterable[object]) -> bool:
    """Whether a state without names has no text: then its numbers are codes of categories."""
    return not any(isinstance(one, str) for one in values)


def _category(value: object) -> str:
    """The name of a category: text as it is, and a whole number without decimals."""
    if isinstance(value, float | np.floating) and value.is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value)


def _listed(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
