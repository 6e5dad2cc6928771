"""Splits whole episodes into parts, by seed and id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from ontarget._keyed import keyed_hash, keys_of
from ontarget._typing import AnyArray, IndexArray, KeyArray
from ontarget.errors import EpisodesError

__all__ = ["ByGroup", "divide"]

ByGroup: TypeAlias = Literal["stratify", "whole", "cluster"]
Parts: TypeAlias = tuple[float, float, float]

_PARTS = ("train", "calibrate", "assure")


def divide(
    ids: AnyArray,
    keys: KeyArray,
    groups: AnyArray | None,
    parts: Parts,
    *,
    seed: int,
    by_group: ByGroup | None,
) -> list[IndexArray]:
    """The positions of the train, calibrate and assure episodes and the rest; see `split`."""
    if by_group not in (None, "stratify", "whole", "cluster"):
        raise EpisodesError(
            f"by_group needs 'stratify', 'whole', 'cluster' or None, got {by_group!r}"
        )

    def cut(among: IndexArray) -> list[IndexArray]:
        """These episodes, divided in the order of a hash of their ids."""
        order = np.lexsort((ids[among], keyed_hash(keys[among], seed, "split")))
        return np.split(among[order], np.cumsum(_counts(parts, among.size)))

    if by_group is None:
        chosen = cut(np.arange(ids.size))
    elif groups is None:
        raise EpisodesError(f"by_group={by_group!r} needs episodes with groups; these have none")
    elif by_group == "stratify":
        chosen = _stratify(cut, groups, parts)
    elif by_group == "whole":
        chosen = _keep_whole(groups, parts, seed)
    else:
        chosen = _clusters(ids, keys, groups, parts, seed)
    for name, part, asked in zip(_PARTS, chosen, parts, strict=False):
        if not part.size and (asked or name != "assure"):
            raise EpisodesError(
                f"{name} would be empty: {asked} of {ids.size} episodes; ask for more of them"
            )
    return chosen


def _stratify(
    cut: Callable[[IndexArray], list[IndexArray]], groups: AnyArray, parts: Parts
) -> list[IndexArray]:
    if any(isinstance(part, int) and part > 1 for part in parts):
        raise EpisodesError(f"by_group='stratify' needs fractions, got counts {parts}")
    _, which = np.unique(groups, return_inverse=True)
    divided = [cut(np.flatnonzero(which == g)) for g in range(which.max() + 1)]
    return [np.concatenate(same) for same in zip(*divided, strict=True)]


def _keep_whole(groups: AnyArray, parts: Parts, seed: int) -> list[IndexArray]:
    """Whole groups to parts: in random order, each to the part that lacks most episodes."""
    names, which = np.unique(groups, return_inverse=True)
    sizes = np.bincount(which)
    counts = _counts(parts, groups.size)
    wanted = np.array([*counts, groups.size - sum(counts)], dtype=np.float64)
    given: list[list[int]] = [[], [], [], []]
    lacking = wanted.copy()
    for group in np.argsort(keyed_hash(keys_of(names), seed, "split"), kind="stable"):
        part = int(np.argmax(np.where(wanted > 0, lacking / np.maximum(wanted, 1.0), -np.inf)))
        given[part].append(int(group))
        lacking[part] -= sizes[group]
    return [np.flatnonzero(np.isin(which, own)) for own in given]


def _clusters(
    ids: AnyArray, keys: KeyArray, groups: AnyArray, parts: Parts, seed: int
) -> list[IndexArray]:
    """Whole groups to parts; calibrate and assure keep one run of each group (M11).

    Runs of one group are not exchangeable with other runs, but whole groups are exchangeable. So
    one run drawn from each group is exchangeable with a run from a new group.
    """
    names, which = np.unique(groups, return_inverse=True)
    order = np.argsort(keyed_hash(keys_of(names), seed, "split"), kind="stable")
    own = np.split(order, np.cumsum(_counts(parts, names.size)))
    shuffled = np.lexsort((ids, keyed_hash(keys, seed, "one of each group")))
    one = shuffled[np.unique(which[shuffled], return_index=True)[1]]
    every = [np.flatnonzero(np.isin(which, part)) for part in own]
    return [every[0], one[own[1]], one[own[2]], every[3]]


def _counts(parts: Parts, n: int) -> list[int]:
    """The number of episodes of each part, given as a fraction of n or as a count."""
    counts = []
    for name, part in zip(_PARTS, parts, strict=True):
        is_count = isinstance(part, (int, np.integer)) and not isinstance(part, bool)
        if not (part >= 0 and (is_count or part <= 1)):
            raise EpisodesError(
                f"{name} needs a fraction from 0.0 to 1.0 or a count of episodes, got {part!r}"
            )
        counts.append(int(part) if is_count else None)
    fractions = np.array([0.0 if c is not None else p for c, p in zip(counts, parts, strict=True)])
    # Rounded up to the running total, so that fractions that sum to 1 use every episode.
    ends = np.rint(np.cumsum(fractions) * n).astype(int)
    shares = np.diff(ends, prepend=0)
    found = [int(s) if c is None else c for c, s in zip(counts, shares, strict=True)]
    if sum(found) > n:
        raise EpisodesError(
            f"train, calibrate and assure ask for {sum(found)} of {n} episodes; ask for fewer"
        )
    return found
