"""`Check`, one thing that was checked on new runs; `Unanswered`; and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from ontarget import _text
from ontarget._text import plain
from ontarget._typing import BoolArray
from ontarget.episodes import Episodes
from ontarget.fitted.fitted import Fitted
from ontarget.live.answers import Answers


class Mark(StrEnum):
    """What a check says at a glance."""

    GOOD = "good"
    ACT = "act"
    NEITHER = "neither"


class Check(NamedTuple):
    """One thing that was checked on new runs.

    ``said`` and ``next`` are clauses: what was found, and what to do now (empty for nothing).
    ``details`` are more clauses about what was found.
    """

    name: str
    mark: Mark
    said: str
    figure: float | None = None
    interval: tuple[float, float] | None = None
    next: str = ""
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        ends = None if self.interval is None else [_known(end) for end in self.interval]
        return {
            "name": self.name,
            "mark": str(self.mark),
            "said": self.said,
            "figure": None if self.figure is None else _known(self.figure),
            "interval": ends,
            "next": self.next,
            "details": list(self.details),
        }


def percent(share: float, digits: int = 1) -> str:
    """A percentage with an ordinary space, so that a text search finds it in terminals and logs."""
    return _text.percent(share, digits).replace("\u00a0", " ")


def between(low: float, high: float) -> str:
    """A range of shares as text, such as "3 % to 7 %"."""
    return f"{percent(low)} to {percent(high)}"


def in_points(share: float) -> str:
    """A share as text in percentage points."""
    return f"{100 * share:.1f} percentage points"


def _known(value: float) -> float | None:
    """The number, or None if it is not finite (JSON has no NaN)."""
    return value if math.isfinite(value) else None


MANY_UNANSWERED = 0.01  # a larger share of steps without an answer qualifies a verdict
_MOST_NAMED = 3  # features
_WORDS = {
    "bad_reading": "a reading is missing or unusable",
    "out_of_bounds": "an earlier reward was outside the declared bounds",
    "few_runs": "fewer than {least} recorded runs got so far",
    "no_model": "no model was fitted for the step",
    "past_horizon": "the run is longer than every recorded one",
    "no_behavior": "the behavior so far is unknown",
}
_LONGER = "record more runs that get as far"
_ADVICE = {
    "bad_reading": "find out why readings are missing",
    "out_of_bounds": "fit again with wider reward bounds",
    "few_runs": _LONGER,
    "no_model": _LONGER,
    "past_horizon": _LONGER,
    "no_behavior": "find out why rewards are missing",
}


class Unanswered(NamedTuple):
    """At how many steps the monitor had no answer (p is NaN, the status UNKNOWN), and why.

    Attributes
    ----------
    steps, of
        How many steps have no answer, and how many there are in all episodes.
    reasons
        The number of steps without an answer by reason, the most frequent first: ``bad_reading``
        (a feature is missing that never was, or is infinite), ``out_of_bounds`` (an earlier reward
        was outside the declared bounds), ``few_runs`` (too few recorded runs reach the step),
        ``no_model``, ``past_horizon`` (the run is longer than every recorded one) and
        ``no_behavior`` (the behavior so far is unknown).
    features
        How often each feature was the bad reading, the most frequent first.
    episodes
        How many episodes have no answer at any step.
    least
        How many recorded runs it takes for an answer; fewer are ``few_runs``.

    Examples
    --------
    >>> found = Unanswered(30, 100, {"bad_reading": 30}, {"speed": 30}, 0, 20)
    >>> print(found)
    30 of 100 steps (30 %): a reading is missing or unusable ('speed')
    """

    steps: int
    of: int
    reasons: Mapping[str, int]
    features: Mapping[str, int]
    episodes: int
    least: int

    @property
    def share(self) -> float:
        """The share of steps without an answer, from 0 to 1."""
        return self.steps / self.of if self.of else 0.0

    @property
    def why(self) -> str:
        """The reasons in words, with the share of each if there are several."""
        several = len(self.reasons) > 1
        return ", ".join(
            self._named(name) + f" ({percent(n / self.of)})" * several
            for name, n in self.reasons.items()
        )

    @property
    def advice(self) -> str:
        """What to do about the most frequent reason; empty if every step has an answer."""
        return next((_ADVICE[name] for name in self.reasons), "")

    def __str__(self) -> str:
        if not self.steps:
            return f"none of {self.of:,} steps"
        return f"{self.steps:,} of {self.of:,} steps ({percent(self.share)}): {self.why}"

    def _named(self, reason: str) -> str:
        words = _WORDS[reason].format(least=self.least)
        if reason != "bad_reading" or not self.features:
            return words
        some = ", ".join(repr(plain(name)) for name in list(self.features)[:_MOST_NAMED])
        return f"{words} ({some}{', …' * (len(self.features) > _MOST_NAMED)})"

    def to_json(self) -> dict[str, Any]:
        """The numbers as plain JSON values."""
        return {
            "share": self.share,
            "steps": self.steps,
            "of": self.of,
            "reasons": dict(self.reasons),
            "features": dict(self.features),
            "episodes": self.episodes,
        }


def unanswered_of(
    parts: Sequence[Fitted], episodes: Sequence[Episodes], answers: Answers, answered: BoolArray
) -> Unanswered:
    """At how many steps of these episodes the monitor had no answer, and why."""
    first, lengths, at = parts[0], answers.lengths, np.arange(answers.steps)[:, None]
    silent = np.isnan(answers.p) & (at < lengths)
    each = zip(parts, episodes, strict=True)
    lost = np.min([part.lost_since(one) for part, one in each], axis=0)
    trained = np.logical_and.reduce([one.trained_steps for one in parts])[:, None]
    counts = {"past_horizon": int(np.maximum(lengths - answers.steps, 0).sum())}
    for name, where in (
        ("out_of_bounds", at >= lost),
        ("bad_reading", answers.broken),
        ("no_model", ~trained),
        ("few_runs", ~answered),
        ("no_behavior", silent),
    ):
        counts[name] = int(np.count_nonzero(silent & where))
        silent = silent & ~where
    reasons = {name: n for name, n in sorted(counts.items(), key=lambda one: -one[1]) if n}
    return Unanswered(
        steps=sum(reasons.values()),
        of=int(lengths.sum()),
        reasons=reasons,
        features=_features(first, episodes[0]) if "bad_reading" in reasons else {},
        episodes=int(np.count_nonzero(np.isnan(answers.p).all(axis=0))),
        least=first.min_calibration,
    )


def _features(fitted: Fitted, episodes: Episodes) -> dict[str, int]:
    """How often each feature had no usable value, the most frequent first."""
    alike = fitted.alike(episodes)
    n = len(fitted.schema)  # columns of earlier steps repeat what was said there
    counts = np.zeros(n, dtype=np.intp)
    for t in range(min(fitted.horizon, int(episodes.lengths.max()))):
        states = alike.at(t).states[:, :n]
        bad = np.isinf(states) | (np.isnan(states) & ~fitted.may_miss[:n])
        counts += np.count_nonzero(bad, axis=0)
    order = np.argsort(-counts, kind="stable").tolist()
    return {fitted.schema.names[j]: int(counts[j]) for j in order if counts[j]}
