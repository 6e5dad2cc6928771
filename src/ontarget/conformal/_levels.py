"""From a level to the order statistic that attains it, in whole numbers and fractions (M5).

The float expression ``ceil((1 - delta) * (n + 1))`` picks a wrong index at ordinary values, so a
level is taken as the decimal that the user typed and never leaves rational arithmetic.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from ontarget.errors import Argument, CalibrationError, InputError

__all__ = [
    "Level",
    "ceil_rank",
    "exact_level",
    "exact_rate",
    "floor_rank",
    "needed_size",
    "require_reachable",
    "tail_rank",
]

Level: TypeAlias = float | str | Fraction | Decimal

_HINT = "0.9 asks for nine in ten"


def exact_level(level: Level, *, name: str = "level", hint: str = _HINT) -> Fraction:
    """The level as the fraction that its decimal spelling denotes, strictly between 0 and 1.

    A message names the argument as ``name`` and ends in the hint.

    Examples
    --------
    >>> exact_level(0.9)
    Fraction(9, 10)
    """
    exact = _fraction(str(level))
    if not 0 < exact < 1:
        rule = f" needs a number strictly between 0 and 1, got {level!r}; {hint}"
        raise InputError(Argument(name), rule)
    return exact


def exact_rate(rate: Level) -> Fraction:
    """A false-alarm rate as an exact fraction, strictly between 0 and 1."""
    return exact_level(rate, name="false_alarm_rate", hint="0.05 allows one run in twenty")


@lru_cache(maxsize=256)
def _fraction(text: str) -> Fraction:
    """The number that the text spells; 0, which is no level, where it spells none."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def ceil_rank(level: Level, n: int) -> int:
    """k⁺ = ⌈level (n + 1)⌉, from 1 to n + 1: the order statistic covers at least the level."""
    return math.ceil(exact_level(level) * (n + 1))


def floor_rank(level: Level, n: int) -> int:
    """k⁻ = ⌊level (n + 1)⌋, from 0 to n: the order statistic covers at most the level."""
    return math.floor(exact_level(level) * (n + 1))


def tail_rank(level: Level, n: int) -> int:
    """⌊(1 − level)(n + 1)⌋, from 0 to n: what a one-sided promise may leave below itself."""
    return math.floor((1 - exact_level(level)) * (n + 1))


def needed_size(level: Level) -> int:
    """The fewest calibration episodes with which the level can be attained by a finite bound.

    Examples
    --------
    >>> needed_size(0.95)
    19
    """
    return math.ceil(1 / (1 - exact_level(level))) - 1


def require_reachable(level: Level, n: int, *, asked: Level | None = None) -> None:
    """Refuse a level that n calibration episodes can attain only by an infinite bound.

    ``asked`` is what the user typed, where the level to attain was derived from that.
    """
    needed = needed_size(level)
    if n < needed:
        raise CalibrationError(
            f"level {level if asked is None else asked} needs at least {needed} calibration "
            f"episodes for a finite bound, has {n}; calibrate with more, lower the level, or pass "
            "unbounded=True to get an infinite bound"
        )
