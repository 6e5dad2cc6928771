"""`Look`: an overview of recorded episodes, and what to clear up before fitting a monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.episodes._description import describe
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.looking._caution import Caution
from ontarget.episodes.looking._columns import ColumnFacts, column_facts
from ontarget.episodes.looking._leaks import find_leaks
from ontarget.episodes.looking._order import FileOrder, find_order
from ontarget.episodes.looking._picture import Histogram, histogram
from ontarget.episodes.looking._sample import LEAST, sampled
from ontarget.episodes.looking._sides import check_sides, outliers_in_words
from ontarget.episodes.looking._since_last import find_since_last
from ontarget.episodes.looking._waiting import find_waits
from ontarget.errors import Argument, TargetError
from ontarget.target import Target

_MOST = 6  # names in one line


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

    episodes: Recorded
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
        """The whole overview as text.

        ``spell`` returns the text for an option, such as ``drop=[...]`` or ``--drop``.
        """
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
        """Only the cautions, as text to show at the beginning of a fit; empty if there are none.

        ``spell`` returns the text for an option, such as ``drop=[...]`` or ``--drop``.
        """
        return "\n".join([*self._noted(), *self._cautioned(spell)])

    def _cautioned(self, spell: Callable[[Argument], str]) -> Iterator[str]:
        """One line of text for each caution (something to clear up before a fit)."""
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
                {"outcomes": label, "episodes": count}
                for label, count in zip(
                    self.outcomes.labels, self.outcomes.counts.tolist(), strict=True
                )
            ],
            "columns": [
                {
                    "name": one.name,
                    "missing": one.missing,
                    "constant": one.constant,
                    "seen_once": list(one.seen_once),
                    "like_an_id": one.like_an_id,
                }
                for one in self.columns
            ],
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


def look_at(episodes: Recorded, target: Target | None = None) -> Look:
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


def _outliers(episodes: Recorded, target: Target | None) -> Iterator[Caution]:
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
