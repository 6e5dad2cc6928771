"""`Target`: the outcomes that the user wants, as an interval or a union of intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ontarget._grid import next_point, snap
from ontarget._typing import ArrayLike, BoolArray
from ontarget.errors import Argument, TargetError

Closed: TypeAlias = Literal["both", "left", "right", "neither"]

_ENDS_CLOSED: Final[dict[str, tuple[bool, bool]]] = {
    "both": (True, True),
    "left": (True, False),
    "right": (False, True),
    "neither": (False, False),
}
CLOSED_NAME: Final[dict[tuple[bool, bool], Closed]] = {
    (True, True): "both",
    (True, False): "left",
    (False, True): "right",
    (False, False): "neither",
}


class Component(NamedTuple):
    """One interval of a target, and which bounds belong to it; an infinite bound never does."""

    lower: float
    upper: float
    lower_closed: bool
    upper_closed: bool

    def __str__(self) -> str:
        left, right = "[" if self.lower_closed else "(", "]" if self.upper_closed else ")"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


_LINE: Final = (Component(-math.inf, math.inf, lower_closed=False, upper_closed=False),)


class Target:
    """The outcomes that count as success: an interval, or a union of intervals.

    A target is a value: immutable and hashable. Its intervals (``components``) are disjoint, sorted
    and as few as possible, so two targets are equal exactly if they contain the same numbers.

    Parameters
    ----------
    lower, upper
        The bounds, ``lower <= upper``; either may be infinite.
    closed
        Which bounds belong to the target: ``"both"``, ``"left"``, ``"right"`` or ``"neither"``.

    Examples
    --------
    >>> target = Target(0, 5) | Target.at_least(10)
    >>> target
    Target('[0, 5] | [10, inf)')
    >>> target.contains([5.0, 7.0, 12.0]).tolist()
    [True, False, True]
    >>> target & Target.between(3, 12)
    Target('[3, 5] | [10, 12]')
    >>> Target.parse("-40:").contains(-40.0)
    np.True_
    """

    __slots__ = ("components",)

    components: tuple[Component, ...]

    def __init__(
        self, lower: float = -math.inf, upper: float = math.inf, closed: Closed = "both"
    ) -> None:
        if closed not in _ENDS_CLOSED:
            raise TargetError(
                Argument("closed"), f" needs one of {', '.join(_ENDS_CLOSED)}, got {closed!r}"
            )
        low, high = _number("lower", lower), _number("upper", upper)
        if low > high or low == math.inf or high == -math.inf:
            raise TargetError(f"target needs lower <= upper, got [{low:g}, {high:g}]")
        if low == high and closed != "both":
            raise TargetError(
                f"target at the single point {low:g} is empty unless ",
                Argument("closed", "both"),
                f", got {closed!r}",
            )
        lower_closed, upper_closed = _ENDS_CLOSED[closed]
        component = Component(
            low, high, lower_closed and low != -math.inf, upper_closed and high != math.inf
        )
        object.__setattr__(self, "components", (component,))

    @classmethod
    def at_least(cls, value: float) -> Target:
        """The target of outcomes ``>= value``."""
        return cls(lower=value)

    @classmethod
    def at_most(cls, value: float) -> Target:
        """The target of outcomes ``<= value``."""
        return cls(upper=value)

    @classmethod
    def between(cls, lower: float, upper: float) -> Target:
        """The target of outcomes from ``lower`` to ``upper``, both of them included."""
        return cls(lower, upper)

    @classmethod
    def empty(cls) -> Target:
        """The target that no outcome meets."""
        return cls._of(())

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target written as ``LO:HI``, ``LO:`` or ``:HI``; several are joined by a comma.

        Examples
        --------
        >>> Target.parse(":3,5:8")
        Target('(-inf, 3] | [5, 8]')
        """
        parts = [part.strip() for part in text.split(",")]
        joined = cls.empty()
        for part in parts:
            ends = [end.strip() for end in part.split(":")]
            if len(ends) != 2 or not any(ends):
                raise TargetError(
                    f"target needs LO:HI, LO: or :HI with a number for LO and HI, got {text!r}"
                    f"{_meant(text) or _meant(part)}"
                )
            low = _parsed_number(ends[0], text) if ends[0] else -math.inf
            high = _parsed_number(ends[1], text) if ends[1] else math.inf
            joined = joined | cls(low, high)
        return joined

    @classmethod
    def _of(cls, components: Iterable[Component]) -> Target:
        target = object.__new__(cls)
        object.__setattr__(target, "components", _merged(components))
        return target

    @property
    def lower(self) -> float:
        """The lowest bound; NaN for the empty target."""
        return self.components[0].lower if self.components else math.nan

    @property
    def upper(self) -> float:
        """The highest bound; NaN for the empty target."""
        return self.components[-1].upper if self.components else math.nan

    @property
    def closed(self) -> Closed:
        """Which of the outermost bounds belong to the target; an infinite bound never does."""
        if not self.components:
            return "neither"
        return CLOSED_NAME[self.components[0].lower_closed, self.components[-1].upper_closed]

    @property
    def is_everything(self) -> bool:
        """Whether every outcome meets the target."""
        return self.components == _LINE

    def contains(self, values: ArrayLike, grid: float | None = None) -> BoolArray:
        """Whether each value lies in the target, as a boolean array of the same shape.

        If ``grid`` is given, values and bounds are first rounded to multiples of it, values as
        outcomes are and bounds as in `snap` (method M1 in docs/methods.md). NaN lies in no target.
        """
        points = snap(values, grid)
        inside: BoolArray = np.zeros(points.shape, dtype=np.bool_)
        for component in self.snap(grid):
            lower, upper = component.lower, component.upper
            above = points >= lower if component.lower_closed else points > lower
            below = points <= upper if component.upper_closed else points < upper
            inside = inside | (above & below)
        # An infinite outcome is beyond any bound, so it belongs to a half-line that is open there.
        for infinity, end in ((-math.inf, self.lower), (math.inf, self.upper)):
            if end == infinity:
                inside = inside | (points == infinity)
        return inside

    def snap(self, grid: float | None) -> Target:
        """The target with its bounds rounded inwards to multiples of ``grid``.

        Examples
        --------
        >>> Target(3.05, 4.1).snap(0.1), Target(1.0, 3.05).snap(0.1)
        (Target('[3.1, 4.1]'), Target('[1, 3.1)'))
        """
        if grid is None:
            return self
        rounded = []
        for c in self.components:
            lower, moved = next_point(c.lower, grid)
            upper, passed = next_point(c.upper, grid)
            closed = c.upper_closed and not passed
            rounded.append(Component(lower, upper, c.lower_closed or moved, closed))
        return Target._of(rounded)

    def shift(self, amount: float, grid: float | None = None) -> Target:
        """The target moved by an amount."""
        moved = float(snap(_number("amount", amount), grid))
        if not math.isfinite(moved):
            raise TargetError(Argument("amount"), f" needs a finite number, got {moved}")
        ends = [
            (c, *snap([c.lower + moved, c.upper + moved], grid).tolist()) for c in self.snap(grid)
        ]
        return Target._of(c._replace(lower=low, upper=high) for c, low, high in ends)

    def complement(self) -> Target:
        """The outcomes that miss the target."""
        gaps: list[Component] = []
        start, start_closed = -math.inf, False
        for c in self.components:
            gaps.append(Component(start, c.lower, start_closed, not c.lower_closed))
            start, start_closed = c.upper, not c.upper_closed
        gaps.append(Component(start, math.inf, start_closed, False))
        return Target._of(gaps)

    def __or__(self, other: Target) -> Target:
        if not isinstance(other, Target):
            return NotImplemented
        return Target._of(self.components + other.components)

    def __and__(self, other: Target) -> Target:
        if not isinstance(other, Target):
            return NotImplemented
        return Target._of(_overlap(mine, theirs) for mine in self for theirs in other)

    def __invert__(self) -> Target:
        return self.complement()

    def __iter__(self) -> Iterator[Component]:
        return iter(self.components)

    def __bool__(self) -> bool:
        return bool(self.components)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.components == other.components

    def __hash__(self) -> int:
        return hash((Target, self.components))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.components,))

    def __str__(self) -> str:
        return " | ".join(str(component) for component in self.components) or "empty"

    def __repr__(self) -> str:
        return f"Target('{self}')"


def _rebuild(components: tuple[Component, ...]) -> Target:
    return Target._of(components)


def _merged(components: Iterable[Component]) -> tuple[Component, ...]:
    """The fewest disjoint intervals that contain the same numbers, in ascending order."""
    inhabited = filter(_is_inhabited, components)
    ordered = sorted(inhabited, key=lambda c: (c.lower, not c.lower_closed))
    merged: list[Component] = []
    for c in ordered:
        if not merged:
            merged.append(c)
            continue
        last = merged[-1]
        touches = c.lower < last.upper or (
            c.lower == last.upper and (c.lower_closed or last.upper_closed)
        )
        if not touches:
            merged.append(c)
            continue
        # At equal ends a closed one reaches further; tuples compare the end first, then that.
        upper, upper_closed = max((last.upper, last.upper_closed), (c.upper, c.upper_closed))
        merged[-1] = Component(last.lower, upper, last.lower_closed, upper_closed)
    return tuple(merged)


def _overlap(one: Component, other: Component) -> Component:
    """The interval that two intervals have in common; an empty one if they share nothing."""
    # At equal ends an open one cuts off more.
    lower, lower_open = max((c.lower, not c.lower_closed) for c in (one, other))
    upper, upper_closed = min((c.upper, c.upper_closed) for c in (one, other))
    return Component(lower, upper, not lower_open, upper_closed)


def _is_inhabited(component: Component) -> bool:
    if component.lower == component.upper:
        return component.lower_closed and component.upper_closed
    return component.lower < component.upper


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TargetError(Argument(name), f" needs a number, got {value!r}") from error
    if math.isnan(number):
        raise TargetError(Argument(name), " needs a number, got NaN")
    return number + 0.0


_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
# Other ways in which people write a target, and the advice that they get.
_MEANT = (
    (rf"(?:<=?|=<|≤|at most|up to|max(?:imum)?)\s*{_NUMBER}", "write :{0} for at most {0}"),
    (rf"(?:>=?|=>|≥|at least|from|min(?:imum)?)\s*{_NUMBER}", "write {0}: for at least {0}"),
    (
        rf"[\[(]?\s*{_NUMBER}\s*(?:-|–|,|;|\.\.+|to|and)\s*{_NUMBER}\s*[\])]?",
        "write {0}:{1} for {0} to {1}",
    ),
    (_NUMBER, "write {0}: for at least {0}, or :{0} for at most {0}"),
)


def _meant(text: str) -> str:
    """Advice on how to write the target that the text probably means; empty if that is unclear."""
    for pattern, advice in _MEANT:
        match = re.fullmatch(pattern, text.strip(), flags=re.IGNORECASE)
        if match:
            return f"; {advice.format(*match.groups())}"
    return ""


def _parsed_number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise TargetError(f"target needs numbers in LO:HI, got {text!r} in {whole!r}") from error
    if math.isnan(number):
        raise TargetError(f"target needs numbers in LO:HI, got NaN in {whole!r}")
    return number
