"""A description of episodes in a few lines of text."""

from __future__ import annotations

import re

import numpy as np

from ontarget._plain import plain
from ontarget._typing import FloatArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.schema import Feature, Schema, unknown_in_words

_NUMBERED = re.compile(r"(.*?)(\d+)")


def describe(episodes: Recorded) -> str:
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


def judged_in_words(episodes: Recorded) -> str:
    """The behavior (the number that episodes are judged by) in a few words."""
    if not episodes.names:
        return f"behavior {episodes.behavior.spec}"
    each = (f"{name} ({reading.spec})" for name, reading in episodes.readings.items())
    return f"behaviors {', '.join(each)}"


def _judged(episodes: Recorded) -> list[str]:
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


def _ends(episodes: Recorded) -> str:
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


def _counting(episodes: Recorded) -> str:
    first = episodes.roles.first_step
    return f"; steps count from {first} in the log, and from 0 in all answers" if first else ""
