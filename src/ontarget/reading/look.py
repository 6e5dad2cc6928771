"""`Look`: an overview of recorded episodes, and what to clear up before fitting a monitor."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ontarget import Episodes
from ontarget._text import percent, plain
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes.rounding import check_sides, outliers_in_words
from ontarget.episodes.schema import Feature, Schema, unknown_in_words
from ontarget.errors import Argument, TargetError
from ontarget.reading._cautions import (
    LEAST,
    Caution,
    FileOrder,
    find_leaks,
    find_order,
    find_since_last,
    find_waits,
    sampled,
)
from ontarget.target import Target

_MOST = 6  # names in one line
_NUMBERED = re.compile(r"(.*?)(\d+)")
_MANY = 20  # a column with fewer different values is never like an id
_VALUES = 12  # up to this many different values get a line each
_BARS = 10
_WIDTH = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, eq=False)
class Look:
    """An overview of recorded episodes, made by `Episodes.look`; print it.

    Attributes
    ----------
    episodes
        The episodes looked at.
    columns
        Facts about each feature: missing values, whether it is constant, categories that only one
        episode has.
    order
        The order of the episodes in their file: sorted by their outcomes, for example.
    cautions
        Problems to solve before a fit; empty if none was found.
    target
        The target, if one was given.
    outcomes
        The histogram of the outcomes.
    """

    episodes: Episodes
    columns: tuple[ColumnFacts, ...]
    order: FileOrder
    cautions: tuple[Caution, ...]
    target: Target | None
    outcomes: Histogram

    @property
    def met(self) -> int | None:
        """How many episodes met the target; None without a target."""
        if self.target is None:
            return None
        if any(one.kind == "rounding" for one in self.cautions):
            return int(np.count_nonzero(self.target.contains(self.episodes._unsnapped_outcomes)))
        inside = self.target.contains(self.episodes.outcomes, grid=self.episodes.grid)
        return int(np.count_nonzero(inside))

    def __str__(self) -> str:
        return self.told()

    def told(self, spell: Callable[[Argument], str] = str) -> str:
        """The whole overview as text."""
        lines = [describe(self.episodes), _beside("picture", str(self.outcomes))]
        if self.met is not None:
            n = len(self.episodes)
            lines.append(
                f"target     {self.target}: met by {self.met:,} of {n:,} episodes "
                f"({percent(self.met / n)}), missed by {n - self.met:,}"
            )
        if len(self.episodes) >= LEAST:
            lines.append(f"order      {self.order}")
        return "\n".join([*lines, *self._noted(), *self._cautioned(spell), *self._cleared()])

    def head(self, spell: Callable[[Argument], str] = str) -> str:
        """Only the cautions, as text to show at the beginning of a fit; empty if there are none."""
        return "\n".join([*self._noted(), *self._cautioned(spell)])

    def _cautioned(self, spell: Callable[[Argument], str]) -> Iterator[str]:
        """One line of text for each caution."""
        for caution in self.cautions:
            yield f"caution    {caution.told(spell)}"

    def _noted(self) -> Iterator[str]:
        gaps = [f"{_name(one)} {percent(one.missing)}" for one in self.columns if one.missing]
        constant = [_name(one) for one in self.columns if one.constant]
        once = [
            f"{_name(one)} ({_some([plain(name) for name in one.seen_once], 3)})"
            for one in self.columns
            if one.seen_once
        ]
        unique = [_name(one) for one in self.columns if one.like_an_id]
        if gaps:
            yield f"missing    {_some(gaps)}"
        if constant:
            never = "nothing can be learned from a value that never changes"
            yield f"constant   {_some(constant)}: {never}"
        if once:
            yield f"rare       categories that only one episode has: {_some(once)}"
        if unique:
            yield f"like ids   {_some(unique)}: the values hardly ever repeat from run to run"

    def _cleared(self) -> Iterator[str]:
        if len(self.episodes) < LEAST:
            yield f"leaks      not searched for: this needs at least {LEAST} episodes"
        elif all(one.kind in ("outliers", "rounding") for one in self.cautions):
            yield "leaks      none found: no feature reveals an outcome, a length or a reward early"

    def to_json(self) -> dict[str, Any]:
        """The overview of the episodes as plain JSON values."""
        lengths, outcomes = self.episodes.lengths, self.episodes.outcomes
        found: dict[str, Any] = {
            "episodes": len(self.episodes),
            "horizon": self.episodes.horizon,
            "lengths": _quantiles(lengths.astype(np.float64)),
            "outcomes": _quantiles(outcomes),
            "histogram": [
                {"outcomes": label, "episodes": count} for label, count in self.outcomes.bars()
            ],
            "columns": [asdict(one) | {"seen_once": list(one.seen_once)} for one in self.columns],
            "order": {"sorted_by": list(self.order.sorted_by), "share": self.order.share},
            "remarks": list(self.episodes.remarks),
            "cautions": [
                {"kind": one.kind, "columns": list(one.columns), "message": str(one)}
                for one in self.cautions
            ],
        }
        if self.met is not None:
            found |= {"target": str(self.target), "met": self.met}
        return found


def look_at(episodes: Episodes, target: Target | None = None) -> Look:
    """An overview of these episodes, and what to clear up before a fit; see `Episodes.look`."""
    sample = sampled(episodes)
    leaks = [] if sample is None else find_leaks(episodes.schema.names, sample, target)
    order, more = find_order(episodes)
    return Look(
        episodes=episodes,
        columns=column_facts(episodes),
        order=order,
        cautions=(
            *_outliers(episodes, target),
            *leaks,
            *find_waits(episodes),
            *find_since_last(episodes),
            *more,
        ),
        target=target,
        outcomes=histogram(episodes.outcomes),
    )


def _outliers(episodes: Episodes, target: Target | None) -> Iterator[Caution]:
    """Cautions: outcomes that dwarf the others, and a target that rounding would answer wrongly."""
    found = outliers_in_words(episodes._unrounded)
    if found:
        what, _, remedy = found.partition("; ")
        yield Caution("outliers", (), what, "One of them decides any average", (_sentence(remedy),))
    if target is not None:
        try:
            check_sides(episodes._unrounded, target, episodes.grid)
        except TargetError as error:
            what, _, remedy = str(error).partition("; ")
            refused = "A monitor will refuse this target"
            yield Caution("rounding", (), what, refused, (_sentence(remedy),))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _quantiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    names = ("least", "tenth", "median", "nine_tenths", "most")
    found = np.quantile(values, [0.0, 0.1, 0.5, 0.9, 1.0]).tolist()
    return dict(zip(names, found, strict=True))


def _beside(label: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"{label:<11}{first}", *(f"{'':<11}{line}" for line in rest)])


def _name(one: ColumnFacts) -> str:
    return plain(one.name)


def _some(names: list[str], most: int = _MOST) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def describe(episodes: Episodes) -> str:
    """A description of the episodes: number, length, features and outcomes."""
    lengths = episodes.lengths
    steps = f"{int(lengths.sum()):,} steps in all"
    if lengths.min() == lengths.max():
        length = f"each of {lengths.max()} steps"
    else:
        length = f"{lengths.min()} to {lengths.max()} steps long (median {int(np.median(lengths))})"
    lines = [
        f"episodes   {len(episodes):,}, {length}, {steps}; horizon {episodes.horizon}"
        f"{_counting(episodes)}",
        f"features   {listed(episodes.schema)}",
        *_judged(episodes),
        f"ends       {_ends(episodes)}",
    ]
    if episodes.unseen:
        lines.append(
            f"unseen     {episodes.unseen:,} readings of unknown categories, now missing: "
            f"{unknown_in_words(episodes.strangers)}"
        )
    if episodes.groups is not None:
        names, counts = np.unique(episodes.groups, return_counts=True)
        shown = ", ".join(f"{plain(g)} ({c:,})" for g, c in zip(names[:6], counts[:6], strict=True))
        lines.append(f"groups     {shown}{' …' if names.size > 6 else ''}")
    labels = ["columns", *[""] * len(episodes.remarks)]
    lines += [f"{labels[i]:<11}{remark}" for i, remark in enumerate(episodes.remarks)]
    return "\n".join(lines)


def judged_in_words(episodes: Episodes) -> str:
    """The behavior in a few words."""
    if not episodes.names:
        return f"behavior {episodes.behavior.spec}"
    each = (f"{name} ({reading.spec})" for name, reading in episodes.readings.items())
    return f"behaviors {', '.join(each)}"


def _judged(episodes: Episodes) -> list[str]:
    """Lines of text: what the episodes are judged by, and how they ended."""
    if not episodes.names:
        outcomes = _distribution(episodes.outcomes)
        return [f"behavior   {plain(episodes.behavior.spec)}", f"outcomes   {outcomes}"]
    found = [f"behaviors  {plain(judged_in_words(episodes).removeprefix('behaviors '))}"]
    for signal in episodes._store.several:
        outcomes = _distribution(episodes._own(signal.outcomes))
        found += [f"outcomes   {signal.name}: {outcomes}"]
    return found


def _distribution(outcomes: FloatArray) -> str:
    low, mid, high = np.quantile(outcomes, [0.1, 0.5, 0.9])
    if outcomes.min() == outcomes.max():
        return f"all {mid:.4g}"
    return (
        f"mean {outcomes.mean():.4g}, sd {outcomes.std():.4g}; "
        f"10 % below {low:.4g}, half below {mid:.4g}, 90 % below {high:.4g}"
    )


def listed(schema: Schema, most: int = 12) -> str:
    """The names of the features in one line; a series such as ``x0, x1, x2`` becomes ``x0 to x2``.

    Examples
    --------
    >>> from ontarget.episodes import Feature, Schema
    >>> listed(Schema((Feature("speed"), Feature("x0"), Feature("x1"), Feature("x2"))))
    'speed, x0 to x2'
    """
    runs: list[list[Feature]] = []
    for feature in schema.features:
        if runs and _follows(runs[-1][-1], feature):
            runs[-1].append(feature)
        else:
            runs.append([feature])
    shown = [name for run in runs for name in _shown(run)]
    more = len(shown) - most
    return (", ".join(shown[:most]) or "none") + (f" and {more:,} more" if more > 0 else "")


def _shown(run: list[Feature]) -> list[str]:
    """The names of a series of features: all of them, or only the first and the last."""
    kinds = [
        f" ({len(feature.categories)} categories)"
        if feature.categories is not None
        else " (categorical)" * feature.categorical
        for feature in run
    ]
    if len(run) < 3:
        return [f"{plain(feature.name)}{kind}" for feature, kind in zip(run, kinds, strict=True)]
    return [f"{plain(run[0].name)} to {plain(run[-1].name)}{kinds[0]}"]


def _follows(one: Feature, other: Feature) -> bool:
    """Whether ``other`` comes right after ``one`` in a series, as ``edge_1`` after ``edge_0``."""
    first, second = _NUMBERED.fullmatch(one.name), _NUMBERED.fullmatch(other.name)
    if first is None or second is None or first[1] != second[1]:
        return False
    alike = (one.categories, one.categorical) == (other.categories, other.categorical)
    return alike and int(second[2]) == int(first[2]) + 1


def _ends(episodes: Episodes) -> str:
    early = int(np.count_nonzero((episodes.lengths < episodes.horizon) & ~episodes.cut_off))
    if not early:
        text = "all reached the horizon"
    elif episodes.truncated is None and episodes.terminated is None:
        text = f"{early:,} ended early, all taken as terminations: no column flags a cut-off"
    else:
        text = f"{early:,} terminated early"
    n, how = episodes.dropped, episodes.censoring
    s = "s" * (n != 1)
    if how == "drop":
        text += f"; {n:,} cut-off episode{s} left out, outcome unknown"
    elif how == "weights":
        text += f"; {n:,} left out: those that were stopped, and others at random to make up for it"
    elif how == "horizon":
        text += f"; {n:,} with an earlier cut-off left out, and none is followed any further"
    elif how == "worst-case":
        cut = int(np.count_nonzero(episodes.cut_off))
        text += f"; {cut:,} cut off, and each counts as the worst case in what is promised"
    return text


def _counting(episodes: Episodes) -> str:
    first = episodes.roles.first_step
    return f"; steps count from {first} in the log, and from 0 in all answers" if first else ""


@dataclass(frozen=True)
class ColumnFacts:
    """What was noticed about the column of one feature.

    Attributes
    ----------
    name
        The feature.
    missing
        The share of rows without a reading.
    constant
        Whether all readings are the same, or there are none.
    seen_once
        The categories that only one episode has.
    like_an_id
        Whether the column looks like an id: it numbers the runs, or its categories hardly ever
        repeat.
    """

    name: str
    missing: float
    constant: bool
    seen_once: tuple[str, ...]
    like_an_id: bool


def column_facts(episodes: Episodes) -> tuple[ColumnFacts, ...]:
    """What was noticed about the column of each feature, in the order of the features."""
    rows, owner = episodes._store.rows_of(episodes._index)
    return tuple(
        _facts(feature, episodes._store.states[j, rows], owner)
        for j, feature in enumerate(episodes.schema.features)
    )


def _facts(feature: Feature, values: FloatArray, owner: IndexArray) -> ColumnFacts:
    gaps = np.isnan(values)
    known, owner_of = (values[~gaps], owner[~gaps]) if gaps.any() else (values, owner)
    constant = bool(known.size == 0 or np.all(known == known[0]))
    once: tuple[str, ...] = ()
    like_an_id = False
    if not constant and feature.categorical:
        alone = _seen_once(known, owner_of)
        like_an_id = alone.size > max(_MANY, (int(owner.max()) + 1) // 2)
        once = () if like_an_id else tuple(_category_name(feature, one) for one in alone)
    elif not constant:
        like_an_id = _numbers_runs(values, owner)
    return ColumnFacts(feature.name, float(gaps.mean()), constant, once, like_an_id)


def _seen_once(values: FloatArray, owner: IndexArray) -> FloatArray:
    """The values that occur in only one episode. ``owner`` is the episode of each value."""
    present, codes = np.unique(values, return_inverse=True)
    first, last = np.full(present.size, owner.size), np.full(present.size, -1)
    np.minimum.at(first, codes, owner)
    np.maximum.at(last, codes, owner)
    alone: FloatArray = present[first == last]
    return alone


def _numbers_runs(values: FloatArray, owner: IndexArray) -> bool:
    """Whether the column looks like a numbering of the episodes."""
    own = values[: int(owner.max()) + 1]  # the first rows are step 0 of every episode
    if not np.all(own == np.rint(own)) or np.unique(own).size <= max(_MANY, 0.9 * own.size):
        return False
    return bool(np.all(values == own[owner]))


def _category_name(feature: Feature, code: float) -> str:
    return f"{code:g}" if feature.categories is None else feature.categories[int(code)]


@dataclass(frozen=True, eq=False)
class Histogram:
    """A histogram made of text: one line with a bar for each value, or for each range of values."""

    labels: tuple[str, ...]
    counts: IndexArray

    def bars(self) -> Iterator[tuple[str, int]]:
        """What each bar counts, and how many values it counts."""
        return zip(self.labels, self.counts.tolist(), strict=True)

    def __str__(self) -> str:
        wide, most = max(map(len, self.labels)), int(self.counts.max())
        return "\n".join(
            f"{label:>{wide}}  {_bar(count / most):<{_WIDTH}} {count:>{len(f'{most:,}')},}"
            for label, count in self.bars()
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
