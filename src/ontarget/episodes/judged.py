"""What episodes are judged by: one behavior, or several with names.

A behavior is computed from a signal: the reward, or another column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ontarget.episodes.behavior import Behavior
from ontarget.episodes.builtin_behaviors import behavior_of
from ontarget.errors import Argument, EpisodesError

# Where a spec names its signal: after the behavior's name, or inside a condition.
_OF_SIGNAL: Final = re.compile(r"(sum|last|max|min|mean|discounted:[^:]+):(.+)")
_OF_CONDITION: Final = re.compile(r"(first|share):([^<>:]*[^<>:\s])\s*([<>].*)")
_NAME: Final = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Reading:
    """A behavior, and the signal that it is computed from.

    ``signal`` is the name of a column. It is None if the behavior is computed from the reward, or
    if its values themselves are read from a column.
    """

    behavior: Behavior
    signal: str | None = None

    @property
    def column(self) -> str | None:
        """The column that the behavior needs; None if that is the reward."""
        return self.behavior.column or self.signal

    @property
    def spec(self) -> str:
        """The behavior and its column as text, such as "min:distance" (the smallest distance)."""
        spec = self.behavior.spec
        if self.signal is None:
            return spec
        kind, _, rest = spec.partition(":")
        return (
            f"{kind}:{self.signal}{rest}" if kind in ("first", "share") else f"{spec}:{self.signal}"
        )


# What a user passes: "sum", "min:distance", a behavior, or a behavior and the signal it reads.
OneBehavior: TypeAlias = str | Behavior | Reading | tuple[Behavior, str]
JudgedBy: TypeAlias = OneBehavior | Mapping[str, OneBehavior]


@dataclass(frozen=True)
class Judged:
    """What the episodes of a table are judged by: one behavior without a name, or several."""

    readings: Mapping[str, Reading]

    @classmethod
    def of(cls, judged: JudgedBy, columns: tuple[str, ...]) -> Judged:
        """The behaviors that ``judged`` asks for."""
        if isinstance(judged, Mapping):
            return cls(readings_of(judged, columns=columns))
        return cls({"": reading_of(judged, columns=columns)})

    @property
    def first(self) -> Reading:
        """The only behavior, or the first of several."""
        return next(iter(self.readings.values()))

    @property
    def several(self) -> bool:
        """Whether there are several behaviors, with names."""
        return "" not in self.readings

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns other than the reward that the behaviors need, each once."""
        found = [one.column for one in self.readings.values() if one.column is not None]
        return tuple(dict.fromkeys(found))

    @property
    def reads_reward(self) -> bool:
        """Whether any behavior is computed from the reward."""
        return any(one.column is None for one in self.readings.values())

    @property
    def spec(self) -> str:
        """The behaviors as text for messages."""
        return ", ".join(one.spec for one in self.readings.values())


def reading_of(spec: OneBehavior, *, columns: tuple[str, ...] = ()) -> Reading:
    """The behavior that a text describes, and its column.

    Examples
    --------
    >>> reading_of("min:distance")
    Reading(behavior=Min(), signal='distance')
    >>> reading_of("first:distance<0.3:200").spec
    'first:distance<0.3:200'
    """
    if isinstance(spec, Reading):
        return spec
    if isinstance(spec, tuple):
        return Reading(*spec)
    if isinstance(spec, Behavior):
        return Reading(spec)
    if spec not in columns:
        condition = _OF_CONDITION.fullmatch(spec)
        if condition is not None:
            kind, signal, rest = condition.groups()
            return Reading(behavior_of(f"{kind}:{rest}"), signal)
        named = _OF_SIGNAL.fullmatch(spec)
        if named is not None:
            return Reading(behavior_of(named[1]), named[2])
    return Reading(behavior_of(spec, columns=columns))


def readings_of(
    judged: Mapping[str, OneBehavior], *, columns: tuple[str, ...] = ()
) -> dict[str, Reading]:
    """For each name, the behavior and its column."""
    _check_names(judged)
    return {name: reading_of(spec, columns=columns) for name, spec in judged.items()}


def _check_names(names: Iterable[str]) -> None:
    """Refuse names that can't be used in a goal, such as ``energy <= 12``."""
    found = list(names)
    if not found:
        raise EpisodesError(Argument("behavior"), " needs at least one name, got an empty mapping")
    for name in found:
        if _NAME.fullmatch(str(name)) is None:
            raise EpisodesError(
                Argument("behavior"),
                f" needs names of letters, digits and underscores, got {name!r}",
            )
