"""A small histogram made of text."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ontarget._typing import FloatArray, IndexArray

_VALUES = 12  # up to this many different values get a line each
_BARS = 10
_WIDTH = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Histogram:
    """A histogram made of text: one line with a bar for each value, or for each range of values.

    Attributes
    ----------
    labels
        What each bar counts.
    counts
        How many values each bar counts.
    """

    def __init__(self, labels: tuple[str, ...], counts: IndexArray) -> None:
        self.labels = labels
        self.counts = counts

    def __str__(self) -> str:
        wide = max(map(len, self.labels))
        most = int(self.counts.max())
        return "\n".join(
            f"{label:>{wide}}  {_bar(count / most):<{_WIDTH}} {count:>{len(f'{most:,}')},}"
            for label, count in zip(self.labels, self.counts.tolist(), strict=True)
        )


def histogram(values: FloatArray) -> Histogram:
    """The histogram of these values.

    If the values are grouped into ranges, the first and the last bar also count the values below
    and above all ranges.

    Examples
    --------
    >>> print(histogram(np.array([0.0, 1.0, 1.0, 1.0])))
    0  ██████████                     1
    1  ██████████████████████████████ 3
    """
    present, counts = np.unique(values, return_counts=True)
    if present.size <= _VALUES:
        return Histogram(tuple(f"{one:.6g}" for one in present), counts)
    low, high = np.quantile(values, [0.01, 0.99])
    if low == high:
        low, high = present[0], present[-1]
    with np.errstate(over="ignore"):
        rough = float((high - low) / _BARS)
    if not math.isfinite(rough):
        return Histogram((f"{present[0]:.6g} to {present[-1]:.6g}",), np.array([values.size]))
    width = _round_width(rough)
    inner = np.arange(math.floor(low / width) + 1, math.ceil(high / width)) * width
    counts = np.bincount(np.searchsorted(inner, values, side="right"), minlength=inner.size + 1)
    ends = [f"{one:.6g}" for one in inner]
    labels = [f"{a} to {b}" for a, b in pairwise(ends)]
    return Histogram((f"below {ends[0]}", *labels, f"{ends[-1]} and up"), counts)


def _round_width(rough: float) -> float:
    """The smallest round number (1, 2 or 5 times a power of ten) that is not below ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= rough * (1.0 - 1e-9))


def _bar(share: float) -> str:
    eighths = max(round(8 * _WIDTH * share), int(share > 0))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
