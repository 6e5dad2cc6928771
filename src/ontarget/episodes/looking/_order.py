"""Finds out whether the order of a file, or the ids of its episodes, reveal the outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ontarget._numerals import percent
from ontarget._typing import AnyArray, FloatArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.looking._caution import Caution
from ontarget.episodes.looking._sample import LEAST
from ontarget.episodes.looking._strength import determined, separated

_SORTED = 0.9
_NOTICEABLE = 0.1  # a share of the outcomes that the order of a file explains
_PARTS = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")


@dataclass(frozen=True)
class FileOrder:
    """How the episodes are ordered in their file.

    Attributes
    ----------
    sorted_by
        The features by which the file is sorted: their first readings never fall, or never rise,
        from one episode to the next.
    share
        The share of the differences between outcomes that an episode's place in the file explains,
        from 0 to 1.
    """

    sorted_by: tuple[str, ...]
    share: float

    def __str__(self) -> str:
        by = ", ".join(map(repr, self.sorted_by[:5])) or "no feature"
        share = "nothing" if self.share < 0.01 else percent(self.share, 0)
        text = f"the file is sorted by {by}; its order explains {share} of the outcomes"
        if self.share < _NOTICEABLE:
            return text
        return (
            f"{text}, so the runs are in no random order; for a drift check, name the column that "
            "says when they started (order)"
        )


def find_order(episodes: Recorded) -> tuple[FileOrder, list[Caution]]:
    """How the file is ordered, and cautions if its order or the ids are related to the outcomes."""
    outcomes = episodes.outcomes
    if len(episodes) < LEAST:
        return FileOrder((), 0.0), []
    share = max(determined(np.arange(len(episodes), dtype=np.float64), outcomes), 0.0)
    states = episodes.at(0).states.T
    names = episodes.schema.names
    sorted_by = tuple(name for name, x in zip(names, states, strict=True) if _is_sorted(x))
    cautions = []
    if share >= _SORTED:
        what = "The file is sorted by result: an episode's place in it predicts its outcome"
        why = (
            "This does not affect the split of a fit, but everything that takes runs in order: a "
            "test on the last rows, a drift guard, a replay"
        )
        remedy = "Sort the runs by the time at which they happened"
        cautions.append(Caution("order", (), what, why, (remedy,)))
    for part in _parts_of(episodes.ids):
        if max(determined(part, outcomes), separated(part, outcomes)) >= 0.95:
            role = episodes.roles.episode
            what = f"The ids of the episodes ({role!r}) reveal their outcomes"
            why = (
                "They were given after the runs were over. An id is not a feature, so p does not "
                "read it, but sorting or sampling by id selects runs by their result"
            )
            remedy = "Name the runs before they begin, and make no feature from the id"
            cautions.append(Caution("id", (role,), what, why, (remedy,)))
            break
    return FileOrder(sorted_by, share), cautions


def _is_sorted(x: FloatArray) -> bool:
    steps = np.diff(x)
    return bool(np.any(steps != 0) and (np.all(steps >= 0) or np.all(steps <= 0)))


def _parts_of(ids: AnyArray) -> Iterator[FloatArray]:
    """The numbers and words in ids such as ``run-17``, each as a column of numbers."""
    if ids.dtype.kind in "iu":
        yield ids.astype(np.float64)
        return
    split = [_PARTS.findall(str(one)) for one in ids.tolist()]
    width = min(map(len, split))
    for place in range(width):
        words = [parts[place] for parts in split]
        try:
            yield np.array(words, dtype=np.float64)
        except ValueError:
            yield np.unique(words, return_inverse=True)[1].astype(np.float64)
