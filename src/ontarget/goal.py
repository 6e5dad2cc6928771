"""`Goal`: what the user wants of several named behaviors at once.

The mathematics is method M21 in docs/methods.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._typing import ArrayLike, BoolArray
from ontarget.errors import TargetError
from ontarget.target import Target

# One target per behavior, by name in order; a behavior that is not in it may end anywhere.
Box: TypeAlias = tuple[tuple[str, Target], ...]


class Goal:
    """What counts as success for several behaviors together: a target for each, or alternatives.

    A goal is a value: immutable and hashable. A run meets ``a & b`` if it meets both goals,
    ``a | b`` if it meets either of them, and ``~a`` if it does not meet a.

    Parameters
    ----------
    targets
        A target for each behavior by its name, all of which must be met.
    **named
        The same by keyword. If a name is a Python keyword, add an underscore:
        ``Goal(return_=Target.at_least(200))``.

    Examples
    --------
    >>> goal = Goal(return_=Target.at_least(200), energy=Target.at_most(50))
    >>> goal
    Goal('energy <= 50 & return >= 200')
    >>> goal == Goal.parse("return>=200 & energy<=50")
    True
    >>> goal.contains({"return": [210.0, 210.0], "energy": [40.0, 60.0]}).tolist()
    [True, False]
    >>> ~goal
    Goal('energy > 50 | return < 200')
    """

    __slots__ = ("boxes",)

    boxes: tuple[Box, ...]

    def __init__(self, targets: Mapping[str, Target] | None = None, /, **named: Target) -> None:
        both = {**(targets or {}), **{name.removesuffix("_"): one for name, one in named.items()}}
        for name, target in both.items():
            if not isinstance(target, Target):
                raise TargetError(
                    f"goal needs a Target for {name!r}, got {target!r}; pass for example "
                    "Target.at_least(60)"
                )
            if not target:
                raise TargetError(
                    f"goal needs targets that can be met, got an empty target for {name!r}"
                )
        box = tuple(both.items())
        object.__setattr__(self, "boxes", _checked([box], _in_words(box)))

    @classmethod
    def parse(cls, text: str) -> Goal:
        """The goal written as conditions such as ``return>=200``, joined by ``&``, ``|``, ``~``.

        A condition may have two bounds, as in ``10 <= energy <= 50``, or a range, as in
        ``energy in 10:50``. ``&`` binds more strongly than ``|``. Use parentheses to group
        conditions.

        Examples
        --------
        >>> Goal.parse("return >= 200 & (energy <= 50 | speed < 3)")
        Goal('energy <= 50 & return >= 200 | return >= 200 & speed < 3')
        """
        return _Parser(text).parse()

    @classmethod
    def where(cls, function: Callable[..., Any]) -> Goal:
        """A goal that is given by a function of the outcomes.

        Parameters
        ----------
        function
            A function whose parameters are names of behaviors (with an underscore after a Python
            keyword). It gets one array of outcomes per behavior, with one value per run, and
            returns whether each run meets the goal.

        Notes
        -----
        Probabilities (p) and alarms work as for any other goal. For such a goal, however,
        plausibility is always 1, assurance always 0, and ``low`` and ``high`` are 0 and 1.

        Examples
        --------
        >>> goal = Goal.where(lambda return_, energy: return_ >= 10 * energy)
        >>> goal
        Goal('function(energy, return)')
        >>> goal.contains({"return": [210.0, 210.0], "energy": [20.0, 60.0]}).tolist()
        [True, False]
        """
        return _Function("where", (function,), _parameters(function))

    @property
    def is_function(self) -> bool:
        """Whether the goal, or a part of it, is given by a function; see `where`."""
        return False

    @classmethod
    def is_one(cls, text: str) -> bool:
        """Whether a text names behaviors, so that it is a goal and not a plain target."""
        return re.search(r"[^\W\d]\w*\s*(?:[<>=]|in\b)|[<>=]\s*[^\W\d]", text) is not None

    @classmethod
    def _of(cls, boxes: Iterable[Box], shown: str) -> Goal:
        goal = object.__new__(cls)
        object.__setattr__(goal, "boxes", _checked(boxes, shown))
        return goal

    @property
    def names(self) -> tuple[str, ...]:
        """The behaviors that the goal names, in alphabetical order."""
        return tuple(sorted({name for box in self.boxes for name, _ in box}))

    @property
    def only(self) -> tuple[str, Target] | None:
        """The behavior and its target, if the goal names a single behavior; otherwise None."""
        return self.boxes[0][0] if len(self.names) == 1 else None

    def projection(self, name: str) -> Target:
        """The values of one behavior with which the goal can be met."""
        found = Target.empty()
        for box in self.boxes:
            found = found | dict(box).get(name, Target())
        return found

    def disjoint(self) -> tuple[Box, ...]:
        """The goal as boxes that do not overlap; a box is one target for each of some behaviors."""
        found: list[Box] = []
        for box in self.boxes:
            pieces = [box]
            for taken in found:
                pieces = [cut for piece in pieces for cut in _without(piece, taken)]
            found += pieces
        return tuple(found)

    def contains(
        self, outcomes: Mapping[str, ArrayLike], grids: Mapping[str, float] | None = None
    ) -> BoolArray:
        """Whether each run meets the goal, as one boolean per run.

        ``outcomes`` holds one array per behavior, by name, with one value per run. ``grids`` holds,
        for each behavior by name, the unit to which outcomes and targets are rounded first.
        """
        self._check(outcomes)
        grid = grids or {}
        inside = [
            [target.contains(outcomes[name], grid.get(name)) for name, target in box]
            for box in self.boxes
        ]
        found: BoolArray = np.any([np.all(one, axis=0) for one in inside], axis=0)
        return found

    def _check(self, outcomes: Mapping[str, ArrayLike]) -> None:
        missing = [name for name in self.names if name not in outcomes]
        if missing:
            raise TargetError(
                f"goal needs the outcomes of {missing[0]!r}, got {', '.join(outcomes)}"
            )

    def __and__(self, other: Goal) -> Goal:
        if not isinstance(other, Goal):
            return NotImplemented
        if self.is_function or other.is_function:
            return _joined("&", self, other)
        pairs = product(self.boxes, other.boxes)
        return Goal._of((_both(one, two) for one, two in pairs), f"{self} & {other}")

    def __or__(self, other: Goal) -> Goal:
        if not isinstance(other, Goal):
            return NotImplemented
        if self.is_function or other.is_function:
            return _joined("|", self, other)
        return Goal._of(self.boxes + other.boxes, f"{self} | {other}")

    def __invert__(self) -> Goal:
        outside = [[((name, ~target),) for name, target in box] for box in self.boxes]
        found: list[Box] = [()]
        for either in outside:
            found = [_both(one, two) for one in found for two in either]
        return Goal._of(found, f"~({self})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Goal) and self.boxes == other.boxes

    def __hash__(self) -> int:
        return hash((Goal, self.boxes))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Goal is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.boxes,))

    def __str__(self) -> str:
        return " | ".join(map(_in_words, self.boxes))

    def __repr__(self) -> str:
        return f"Goal('{self}')"


class _Function(Goal):
    """A goal given by a function of the outcomes, or made of such goals by ``&, |, ~``."""

    __slots__ = ("_kind", "_names", "_parts")

    _kind: str
    _names: tuple[str, ...]
    _parts: tuple[Any, ...]

    def __init__(self, kind: str, parts: tuple[Any, ...], names: tuple[str, ...]) -> None:
        object.__setattr__(self, "boxes", ())
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_parts", parts)
        object.__setattr__(self, "_names", names)

    @property
    def is_function(self) -> bool:
        return True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    @property
    def only(self) -> None:
        return None

    def projection(self, name: str) -> Target:
        return Target()

    def contains(
        self, outcomes: Mapping[str, ArrayLike], grids: Mapping[str, float] | None = None
    ) -> BoolArray:
        self._check(outcomes)
        if self._kind != "where":
            each: list[BoolArray] = [one.contains(outcomes, grids) for one in self._parts]
            if self._kind == "~":
                return ~each[0]
            return each[0] & each[1] if self._kind == "&" else each[0] | each[1]
        grid = grids or {}
        values = [np.asarray(outcomes[name], dtype=np.float64) for name in self._names]
        on_grid = [
            snap(one, grid[name]) if name in grid else one
            for name, one in zip(self._names, values, strict=True)
        ]
        try:
            said = np.asarray(self._parts[0](*on_grid))
        except Exception as error:  # it is the user's own, and may raise anything
            raise TargetError(
                f"the goal's {self} failed: {type(error).__name__}: {error}; it gets one array for "
                "each behavior, so write it with array operations, such as & instead of and"
            ) from error
        if said.shape != values[0].shape or said.dtype.kind != "b":
            raise TargetError(
                f"the goal's {self} needs to answer True or False for each of {values[0].size} "
                f"runs, got {said.dtype} of shape {said.shape}; write it with array operations, "
                "such as & instead of and"
            )
        return said

    def __invert__(self) -> Goal:
        return _Function("~", (self,), self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and (self._kind, self._parts) == (
            other._kind,
            other._parts,
        )

    def __hash__(self) -> int:
        return hash((_Function, self._kind, self._parts))

    def __reduce__(self) -> tuple[object, ...]:
        return (_Function, (self._kind, self._parts, self._names))

    def __str__(self) -> str:
        if self._kind == "~":
            return f"~({self._parts[0]})"
        if self._kind != "where":
            return f" {self._kind} ".join(f"({one})" for one in self._parts)
        name = self._parts[0].__name__
        return f"{name if name.isidentifier() else 'function'}({', '.join(self.names)})"


def _joined(kind: str, one: Goal, other: Goal) -> Goal:
    return _Function(kind, (one, other), tuple({*one.names, *other.names}))


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, which are the behaviors that it reads."""
    named = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    try:
        found = signature(function).parameters.values()
    except (TypeError, ValueError):
        found = {}.values()
    if not found or any(one.kind not in named for one in found):
        raise TargetError(
            "Goal.where needs a function whose parameters are names of behaviors, such as "
            f"lambda return_, energy: return_ >= 10 * energy; got {function!r}"
        )
    return tuple(one.name.removesuffix("_") for one in found)


def _rebuild(boxes: tuple[Box, ...]) -> Goal:
    return Goal._of(boxes, "")


def _both(one: Box, other: Box) -> Box:
    """The outcomes that lie in both boxes, as a box; a target in it may be empty."""
    found = dict(one)
    for name, target in other:
        found[name] = found[name] & target if name in found else target
    return tuple(found.items())


def _without(box: Box, other: Box) -> list[Box]:
    """The part of a box that lies outside another box, as boxes that do not overlap."""
    found: list[Box] = []
    inside = box
    for name, target in other:
        outside = _tidy(_both(inside, ((name, ~target),)))
        if outside is not None:
            found.append(outside)
        inside = _both(inside, ((name, target),))
    return found


def _tidy(box: Box) -> Box | None:
    """The box with its behaviors in alphabetical order; None if no outcome lies in it."""
    if not all(target for _, target in box):
        return None
    return tuple(sorted((one for one in box if not one[1].is_everything), key=lambda one: one[0]))


def _holds(one: Box, other: Box) -> bool:
    """Whether every outcome in box ``other`` also lies in box ``one``."""
    inner = dict(other)
    return all(name in inner and inner[name] & ~target == Target.empty() for name, target in one)


def _checked(boxes: Iterable[Box], shown: str) -> tuple[Box, ...]:
    """The boxes of a goal in a standard form, so that equal goals compare as equal."""
    # A *box* asks each of some behaviors to meet one target. In the result, no box is empty or lies
    # inside another, and boxes about a single behavior are merged. A goal that every outcome meets,
    # or none, is refused, because there is nothing to watch. ``shown`` is the goal as error
    # messages show it.
    found = [tidy for tidy in map(_tidy, boxes) if tidy is not None]
    if not found:
        raise TargetError(f"the goal is contradictory, no outcome meets it: {shown}")
    alone: dict[str, Target] = {}
    for box in found:
        if len(box) == 1:
            name, target = box[0]
            alone[name] = alone.get(name, Target.empty()) | target
    merged = [box for box in found if len(box) > 1]
    merged += [((name, target),) for name, target in alone.items()]
    if any(not box for box in found) or any(target.is_everything for target in alone.values()):
        raise TargetError(f"the goal asks for nothing, every outcome meets it: {shown}")
    kept: list[Box] = []
    for box in sorted(set(merged), key=str):
        if not any(_holds(one, box) for one in kept):
            kept = [one for one in kept if not _holds(box, one)] + [box]
    return tuple(sorted(kept, key=_in_words))


def _in_words(box: Box) -> str:
    return " & ".join(_condition(name, target) for name, target in box) or "anything"


def _condition(name: str, target: Target) -> str:
    """A target as a condition: ``energy <= 50``, ``energy in [1, 2] | [5, 8]``."""
    if len(target.components) != 1:
        return f"{name} in {target}"
    low, high, low_closed, high_closed = target.components[0]
    if low == -np.inf and high < np.inf:
        return f"{name} {'<=' if high_closed else '<'} {high:g}"
    if high == np.inf and low > -np.inf:
        return f"{name} {'>=' if low_closed else '>'} {low:g}"
    return f"{name} in {target}"


_TOKEN: Final = re.compile(
    r"\s*(?:(?P<target>in\s+[-+.,:\d\seE]*\d[-+.,:\d\seE]*?(?=\s*(?:[&|~)]|$|and\b|or\b)))"
    r"|(?P<sign><=|>=|==|<|>|=)|(?P<join>[&|~()]|&&|\|\|)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf\b)|(?P<name>[^\W\d]\w*))"
)
_WORDS: Final = {"and": "&", "or": "|", "not": "~"}
# What an error message calls each kind of token.
_EXPECTED: Final = {
    "number": "a number",
    "sign": "a comparison such as >=",
    "name": "the name of a behavior",
    "target": "a range such as 10:50",
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Parser:
    """Reads a goal from text by recursive descent, in the order: or, and, not, condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        place, text = 0, text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._error(f"cannot read {text[place:].strip()!r}")
            kind, word = str(match.lastgroup), str(match[str(match.lastgroup)])
            joined = word.lower() in _WORDS
            self._tokens.append(("join", _WORDS[word.lower()]) if joined else (kind, word))
            place = match.end()

    def parse(self) -> Goal:
        found = self._either()
        if self._tokens:
            raise self._error(f"unexpected {self._tokens[0][1]!r}")
        return found

    def _either(self) -> Goal:
        found = self._every()
        while self._take("|"):
            found = found | self._every()
        return found

    def _every(self) -> Goal:
        found = self._one()
        while self._take("&"):
            found = found & self._one()
        return found

    def _one(self) -> Goal:
        if self._take("~"):
            return ~self._one()
        if self._take("("):
            found = self._either()
            if not self._take(")"):
                raise self._error("a closing parenthesis is missing")
            return found
        return self._condition()

    def _condition(self) -> Goal:
        """The goal of one condition: NAME SIGN NUMBER, NUMBER SIGN NAME, both, or NAME in LO:HI."""
        target = Target()
        if self._next("number"):
            bound, sign = float(self._pop("number")), self._pop("sign")
            target = self._bounded(_MIRRORED.get(sign, sign), bound)
            name = self._pop("name")
            if not self._next("sign"):
                return Goal({name: target})
        else:
            name = self._pop("name")
            if self._next("target"):
                return Goal({name: Target.parse(self._pop("target")[2:].strip())})
        sign = self._pop("sign")
        found = target & self._bounded(sign, float(self._pop("number")))
        return Goal({name: found})

    def _bounded(self, sign: str, bound: float) -> Target:
        if sign in ("=", "=="):
            return Target(bound, bound)
        least = sign[0] == ">"
        ends = (bound, np.inf) if least else (-np.inf, bound)
        return Target(*ends, closed="both" if sign.endswith("=") else "neither")

    def _next(self, kind: str) -> bool:
        return bool(self._tokens) and self._tokens[0][0] == kind

    def _take(self, join: str) -> bool:
        found = bool(self._tokens) and self._tokens[0] == ("join", join)
        if found:
            self._tokens.pop(0)
        return found

    def _pop(self, kind: str) -> str:
        if not self._next(kind):
            got = self._tokens[0][1] if self._tokens else "the end"
            raise self._error(f"{_EXPECTED[kind]} was expected, got {got!r}")
        return self._tokens.pop(0)[1]

    def _error(self, what: str) -> TargetError:
        return TargetError(
            f"goal needs conditions such as return>=200 & energy<=50, got {self._text!r}: {what}"
        )
