"""Writes numbers for the live view; numbers that belong together get equally many decimals."""

from __future__ import annotations

import math

from ontarget._numerals import number

_COUNT = 3  # digits that count in the range of the numbers
_HUGE = 1e9  # beyond, a number is written with its power of ten


def alike(*values: float) -> tuple[str, ...]:
    """The numbers as texts, all with the same number of decimals.

    The decimals are chosen so that the distance between the smallest and the largest number, or a
    single number, has three digits. Even if the numbers are close together, none gets more than
    four significant digits.

    Examples
    --------
    >>> alike(0.0672, -7.8324, -15.732), alike(1_400_000.0, 0.0), alike(-2.85952)
    (('0.1', '−7.8', '−15.7'), ('1,400,000', '0'), ('−2.86',))
    """
    finite = [value for value in values if math.isfinite(value)]
    reach = max(finite) - min(finite) if finite else 0.0
    largest = max(map(abs, finite), default=0.0)
    scale = max(reach, largest / 10.0) if reach else largest or 1.0
    digits = min(9, max(0, _COUNT - 1 - math.floor(math.log10(scale))))
    return tuple(_written(value, digits) for value in values)


def _written(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "?" if math.isnan(value) else number(value)
    text = f"{value:.4g}" if abs(value) >= _HUGE else f"{round(value, digits) + 0.0:,.{digits}f}"
    return text.replace("-", "−")
