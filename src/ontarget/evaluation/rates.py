"""Shares with exact confidence intervals, prediction intervals, and checks of what is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import betaincinv
from scipy.stats import betabinom, binom

from ontarget._arguments import fraction, whole_number
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.conformal.levels import Level, ceil_rank
from ontarget.errors import Argument, InputError


def check_numbers(name: str, values: ArrayLike, *, ndim: int = 1) -> FloatArray:
    """The values as a float64 array with this many dimensions; refused if empty or with a NaN."""
    array = _floats(name, values)
    if array.ndim != ndim:
        raise InputError(
            Argument(name),
            f" needs {ndim} dimension{'s' if ndim > 1 else ''}, got shape {array.shape}",
        )
    if array.size == 0:
        raise InputError(Argument(name), " needs at least one value, got none")
    _refuse(name, "numbers", array, np.isnan(array))
    return array


def check_probabilities(name: str, values: ArrayLike) -> FloatArray:
    """The values as a one-dimensional array of numbers in [0, 1]; anything else is refused."""
    array = check_numbers(name, values)
    _refuse(name, "numbers in [0, 1]", array, (array < 0.0) | (array > 1.0))
    return array


def check_flags(name: str, values: ArrayLike) -> BoolArray:
    """The values as a one-dimensional array of booleans; 1 means true and 0 means false."""
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise InputError(Argument(name), f" needs 1 dimension, got shape {raw.shape}")
    if raw.dtype == np.bool_:
        return raw
    array = _floats(name, raw)
    _refuse(name, "true and false only, or 1 and 0", array, ~np.isin(array, (0.0, 1.0)))
    flags: BoolArray = array == 1.0
    return flags


def check_panel(name: str, values: ArrayLike, *, unit: bool = False) -> FloatArray:
    """The values as an array (steps, episodes); refused if all of them are NaN."""
    array = _floats(name, values)
    if array.ndim != 2:
        raise InputError(
            Argument(name),
            f" needs shape (steps, episodes), got shape {array.shape}",
        )
    if np.isnan(array).all():
        raise InputError(Argument(name), " needs at least one value that is not NaN, got none")
    _refuse(name, "finite numbers (NaN where there is none)", array, np.isinf(array))
    if unit:
        _refuse(name, "numbers in [0, 1]", array, (array < 0.0) | (array > 1.0))
    return array


def check_same_size(**arrays: AnyArray) -> None:
    """Refuse arrays whose last axes differ in length."""
    sizes = {name: array.shape[-1] for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        first, *others = map(Argument, sizes)
        named = [part for name in others for part in (" and ", name)]
        raise InputError(first, *named, f" need the same length, got {listed}")


def _floats(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(Argument(name), f" needs numbers, got {values!r}") from error


def _refuse(name: str, rule: str, array: FloatArray, wrong: BoolArray) -> None:
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = place[0] if len(place) == 1 else place
        more = int(np.count_nonzero(wrong)) - 1
        also = f" and {more} more" if more else ""
        raise InputError(
            Argument(name), f" needs {rule}, got {array[place]} at position {where}{also}"
        )


_VALUES = 12  # a column with more different numbers is divided into four ranges of equal size
_MOST = 100


def labelled(values: AnyArray, name: str) -> tuple[list[str], IndexArray]:
    """The labels of a column's values in order, and for each row the index of its label."""
    column = pl.Series(values=values.tolist(), strict=False)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    texts = column.cast(pl.String).fill_null("missing")
    if column.dtype.is_numeric() and column.n_unique() > _VALUES:
        ends = [float(column.quantile(q) or 0.0) for q in (0.25, 0.5, 0.75)]
        low, high = float(column.min() or 0.0), float(column.max() or 0.0)  # type: ignore[arg-type]
        edges = [low, *ends, high]
        texts = pl.Series(
            ["missing" if one is None else _quarter(float(one), edges) for one in column.to_list()]
        )
        column = column.fill_null(float("inf"))
    first = (
        pl.DataFrame({"text": texts, "value": column}).group_by("text").agg(pl.col("value").min())
    )
    order = first.sort("value", nulls_last=True)["text"].to_list()
    if len(order) > _MOST:
        raise InputError(
            Argument("by"),
            f" needs a column of numbers, or one with at most {_MOST} different texts; "
            f"{name!r} has {len(order):,} different texts",
        )
    place = {text: code for code, text in enumerate(order)}
    return order, np.array([place[text] for text in texts.to_list()], dtype=np.intp)


def _quarter(value: float, edges: list[float]) -> str:
    place = min(int(np.searchsorted(edges[1:-1], value, side="right")), len(edges) - 2)
    return f"{edges[place]:.4g} to {edges[place + 1]:.4g}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of independent trials, with its exact (Clopper–Pearson) confidence interval.

    With no trials, the share is NaN and the interval is all of [0, 1].
    """

    count: int
    n: int
    low: float
    high: float
    level: float

    @classmethod
    def of(cls, count: int, n: int, *, level: float = 0.95) -> Rate:
        """The share ``count / n``, with its confidence interval at this level."""
        whole, trials = whole_number("count", count, least=0), whole_number("n", n, least=0)
        if whole > trials:
            raise InputError(Argument("count"), f" needs to be at most n, got {whole} of {trials}")
        low, high = exact_interval(whole, trials, level=level)
        return cls(whole, trials, float(low), float(high), level)

    @property
    def value(self) -> float:
        """The share; NaN if there were no trials."""
        return self.count / self.n if self.n else math.nan

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.value:.3f} ({interval}, {self.count} of {self.n})"


def exact_interval(
    count: ArrayLike, n: ArrayLike, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """The exact (Clopper–Pearson) interval of each share ``count / n``, as arrays (low, high)."""
    tail = (1.0 - fraction("level", level)) / 2.0
    hits, trials = np.broadcast_arrays(
        np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    misses = trials - hits
    # At the ends one parameter is 0 and the quantile is known; the 1 put there only avoids NaN.
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1.0), misses + 1.0, tail), 0.0)
    high = np.where(
        misses > 0, betaincinv(hits + 1.0, np.where(misses > 0, misses, 1.0), 1.0 - tail), 1.0
    )
    return low, high


def binomial_band(n: int, share: float, *, band: float) -> tuple[int, int]:
    """A range (lowest, highest) that contains a Binomial(n, share) count with probability ``band``.

    Examples
    --------
    >>> binomial_band(100, 0.5, band=0.95)
    (40, 60)
    """
    return _central(binom.pmf(np.arange(n + 1), n, share), band)


def beta_binomial_band(n: int, a: float, b: float, *, band: float) -> tuple[int, int]:
    """A range (lowest, highest) for a BetaBinomial(n, a, b) count, as from `binomial_band`."""
    return _central(betabinom.pmf(np.arange(n + 1), n, a, b), band)


def _central(mass: FloatArray, band: float) -> tuple[int, int]:
    tail = (1.0 - fraction("band", band)) / 2.0
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])
    last = mass.size - 1
    low = int(np.searchsorted(below, tail, side="right"))
    high = last - int(np.searchsorted(above, tail, side="right"))
    return min(low, last), max(high, 0)


class Band(NamedTuple):
    """The range in which a calibrated method's coverage lies with a stated probability."""

    low: float
    high: float

    def __contains__(self, share: object) -> bool:
        return isinstance(share, int | float) and self.low <= share <= self.high


def covered(lower: ArrayLike, upper: ArrayLike, y: ArrayLike) -> BoolArray:
    """Whether each closed interval contains its outcome; never if lower > upper (it is empty)."""
    low, high = _ends(lower, upper)
    outcomes = check_numbers("y", y)
    check_same_size(lower=low, y=outcomes)
    held: BoolArray = (low <= outcomes) & (outcomes <= high)
    return held


def coverage(lower: ArrayLike, upper: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> Rate:
    """The share of closed intervals that contain their outcome, with its confidence interval."""
    held = covered(lower, upper, y)
    return Rate.of(int(held.sum()), held.size, level=level)


def coverage_band(n_calibration: int, n_test: int, level: Level, *, band: float = 0.99) -> Band:
    """The range in which the measured coverage of a valid conformal method lies."""
    n, tests = (
        whole_number("n_calibration", n_calibration, least=1),
        whole_number("n_test", n_test, least=1),
    )
    fraction("band", band)
    rank = ceil_rank(level, n)
    if rank == n + 1:  # the whole line
        return Band(1.0, 1.0)
    fewest, most = beta_binomial_band(tests, rank, n + 1 - rank, band=band)
    return Band(fewest / tests, most / tests)


def mean_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """The mean width of the finite intervals; NaN if there are none. Empty ones have width 0."""
    low, high = _ends(lower, upper)
    # The ends of an empty interval may both be the same infinity.
    empty = low >= high
    size = np.where(empty, 0.0, np.where(empty, 0.0, high) - np.where(empty, 0.0, low))
    finite = np.isfinite(size)
    return float(size[finite].mean()) if finite.any() else math.nan


def _ends(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    low, high = check_numbers("lower", lower), check_numbers("upper", upper)
    check_same_size(lower=low, upper=high)
    return low, high
