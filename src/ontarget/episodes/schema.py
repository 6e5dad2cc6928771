"""What one state looks like: named features, their types and dictionaries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import CategoryError, EpisodesError

__all__ = ["Feature", "Schema"]


@dataclass(frozen=True)
class Feature:
    """One named feature of a state.

    Parameters
    ----------
    name
        The column's name.
    dtype
        The type it had in the user's data, given back on the way out: a NumPy name, or ``"text"``.
    categories
        The dictionary of a text feature, in order: its codes are the positions.
    categorical
        Whether the codes are names rather than amounts.
    """

    name: str
    dtype: str = "float64"
    categories: tuple[str, ...] | None = None
    categorical: bool = False
    _codes: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if (self.dtype == "text") != (self.categories is not None):
            raise EpisodesError(
                f"feature {self.name!r}: text needs a dictionary, numbers have none"
            )
        if self.categories is not None:
            object.__setattr__(self, "categorical", True)
            self._codes.update({name: code for code, name in enumerate(self.categories)})

    def code(self, value: object) -> float:
        """The number that stands for a value; NaN where it is missing."""
        if self.categories is None:
            try:
                return float(value)  # type: ignore[arg-type]  # whatever float() takes
            except (TypeError, ValueError) as error:
                raise EpisodesError(
                    f"feature {self.name!r} needs a number, got {value!r}"
                ) from error
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return math.nan
        found = self._codes.get(str(value))
        if found is None:
            raise CategoryError(
                f"feature {self.name!r} has no category {value!r}; "
                f"its dictionary holds {_listed(self.categories)}"
            )
        return float(found)

    def to_json(self) -> dict[str, Any]:
        """The feature as plain JSON values."""
        found: dict[str, Any] = {"name": self.name, "dtype": self.dtype}
        if self.categories is not None:
            found["categories"] = list(self.categories)
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
        names = [feature.name for feature in self.features]
        if len(set(names)) < len(names):
            twice = next(name for name, times in Counter(sorted(names)).items() if times > 1)
            raise EpisodesError(f"features need different names, got {twice!r} twice")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the categorical features."""
        return tuple(i for i, feature in enumerate(self.features) if feature.categorical)

    def __len__(self) -> int:
        return len(self.features)

    def encode(self, state: Mapping[str, object] | ArrayLike) -> FloatArray:
        """One state, by name or in feature order, as the numbers that models read."""
        if isinstance(state, Mapping):
            missing = [name for name in self.names if name not in state]
            if missing:
                raise EpisodesError(
                    f"state lacks the feature {missing[0]!r}; it needs {', '.join(self.names)}"
                )
            return np.array([f.code(state[f.name]) for f in self.features], dtype=np.float64)
        try:
            row = np.asarray(state, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EpisodesError(
                f"state needs numbers in the order {', '.join(self.names)}, or a mapping by name, "
                f"got {state!r}"
            ) from error
        if row.shape != (len(self),):
            raise EpisodesError(
                f"state needs {len(self)} features ({', '.join(self.names)}), "
                f"got an array of shape {row.shape}"
            )
        return row

    def to_json(self) -> list[dict[str, Any]]:
        """The schema as plain JSON values."""
        return [feature.to_json() for feature in self.features]

    @classmethod
    def from_json(cls, found: Sequence[Mapping[str, Any]]) -> Schema:
        """The schema that `to_json` wrote."""
        return cls(tuple(Feature.from_json(feature) for feature in found))


def _listed(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
