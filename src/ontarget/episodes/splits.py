"""Divides whole episodes into parts at random, by a seed and the ids, whatever their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np

from ontarget._keyed import keyed_hash, keys_of
from ontarget._keyed import uniform_by_id as uniform_by_id
from ontarget._typing import AnyArray, ArrayLike, IndexArray, KeyArray
from ontarget.errors import Argument, EpisodesError, InputError

ByGroup: TypeAlias = Literal["stratify", "whole", "cluster"]
# The name of each part, and a fraction or a count of episodes. Models learn from the first part.
Parts: TypeAlias = Mapping[str, float]

_REST = "rest"


def asked_parts(
    learn: float | None, train: float | None, calibrate: float | None, assure: float | None
) -> dict[str, float]:
    """The names of the parts of a split and their sizes, with defaults for sizes not given."""
    if train is None and calibrate is None:
        if learn is None:
            learn = 1.0 if assure == 0 else 0.8
        return {"learn": learn, "assure": 0.2 if assure is None else assure}
    if learn is not None:
        raise EpisodesError(
            Argument("learn", learn),
            f" cannot be combined with the paper's parts, got train={train!r} and "
            f"calibrate={calibrate!r}; pass either learn, or train and calibrate",
        )
    return {
        "train": 0.4 if train is None else train,
        "calibrate": 0.4 if calibrate is None else calibrate,
        "assure": 0.2 if assure is None else assure,
    }


def capped_parts(n: int, assure: float, most: int) -> dict[str, float]:
    """Which share of n episodes to learn from, and which to hold out (``assure``).

    The share to learn from is 1 − ``assure``, but not more than ``most`` episodes; all others are
    held out. If ``assure`` is 0, all episodes are for learning.

    Examples
    --------
    >>> capped_parts(100_000, 0.2, 20_000)
    {'learn': 0.2, 'assure': 0.8}
    """
    learn = 1.0 - assure
    if assure and learn * n > most:
        learn, assure = most / n, 1.0 - most / n
    return {"learn": learn, "assure": assure}


def divide(
    ids: AnyArray,
    keys: KeyArray,
    groups: AnyArray | None,
    parts: Parts,
    *,
    seed: int,
    by_group: ByGroup | None,
) -> dict[str, IndexArray]:
    """A dictionary from the name of each part of a split to the positions of its episodes."""
    if by_group not in (None, "stratify", "whole", "cluster"):
        raise EpisodesError(
            Argument("by_group"), f" needs 'stratify', 'whole', 'cluster' or None, got {by_group!r}"
        )

    def cut(among: IndexArray) -> list[IndexArray]:
        """The positions in ``among``, divided into the parts; a hash of the ids decides which."""
        order = np.lexsort((ids[among], keyed_hash(keys[among], seed, "split")))
        return np.split(among[order], np.cumsum(_counts(parts, among.size)))

    if by_group is None:
        chosen = cut(np.arange(ids.size))
    elif groups is None:
        raise EpisodesError(
            Argument("by_group", by_group), " needs episodes with groups; these have none"
        )
    elif by_group == "stratify":
        chosen = _stratify(cut, groups, parts)
    elif by_group == "whole":
        chosen = _keep_whole(groups, parts, seed)
    else:
        chosen = _clusters(ids, keys, groups, parts, seed)
    for (name, asked), part in zip(parts.items(), chosen, strict=False):
        if not part.size and (asked or name != "assure"):
            raise EpisodesError(
                "the part ",
                Argument(name),
                f" would be empty: {asked} of {ids.size} episodes; ask for more",
            )
    return dict(zip([*parts, _REST], chosen, strict=True))


def _stratify(
    cut: Callable[[IndexArray], list[IndexArray]], groups: AnyArray, parts: Parts
) -> list[IndexArray]:
    if any(isinstance(part, int) and part > 1 for part in parts.values()):
        raise EpisodesError(
            Argument("by_group", "stratify"),
            f" needs fractions, got counts {tuple(parts.values())}",
        )
    _, which = np.unique(groups, return_inverse=True)
    divided = [cut(np.flatnonzero(which == g)) for g in range(which.max() + 1)]
    return [np.concatenate(same) for same in zip(*divided, strict=True)]


def _keep_whole(groups: AnyArray, parts: Parts, seed: int) -> list[IndexArray]:
    """The positions of each part's episodes, if each group of episodes stays in one part."""
    names, which = np.unique(groups, return_inverse=True)
    sizes = np.bincount(which)
    counts = _counts(parts, groups.size)
    wanted = np.array([*counts, groups.size - sum(counts)], dtype=np.float64)
    given: list[list[int]] = [[] for _ in wanted]
    lacking = wanted.copy()
    for group in np.argsort(keyed_hash(keys_of(names), seed, "split"), kind="stable"):
        part = int(np.argmax(np.where(wanted > 0, lacking / np.maximum(wanted, 1.0), -np.inf)))
        given[part].append(int(group))
        lacking[part] -= sizes[group]
    return [np.flatnonzero(np.isin(which, own)) for own in given]


def _clusters(
    ids: AnyArray, keys: KeyArray, groups: AnyArray, parts: Parts, seed: int
) -> list[IndexArray]:
    """The positions of each part's episodes, if a whole group goes to one part."""
    names, which = np.unique(groups, return_inverse=True)
    order = np.argsort(keyed_hash(keys_of(names), seed, "split"), kind="stable")
    own = np.split(order, np.cumsum(_counts(parts, names.size)))
    shuffled = np.lexsort((ids, keyed_hash(keys, seed, "one of each group")))
    one = shuffled[np.unique(which[shuffled], return_index=True)[1]]
    every = [np.flatnonzero(np.isin(which, part)) for part in own]
    return [every[0], *(one[part] for part in own[1:-1]), every[-1]]


def _counts(parts: Parts, n: int) -> list[int]:
    """How many of n episodes each part gets; a part is given as a fraction of n, or as a count."""
    counts = []
    for name, part in parts.items():
        is_count = isinstance(part, (int, np.integer)) and not isinstance(part, bool)
        if not (part >= 0 and (is_count or part <= 1)):
            raise EpisodesError(
                Argument(name),
                f" needs a fraction from 0.0 to 1.0 or a count of episodes, got {part!r}",
            )
        counts.append(int(part) if is_count else None)
    asked = list(zip(counts, parts.values(), strict=True))
    fractions = np.array([0.0 if count is not None else part for count, part in asked])
    # Running totals are rounded, so that fractions that sum to 1 use every episode.
    ends = np.rint(np.cumsum(fractions) * n).astype(int)
    shares = np.diff(ends, prepend=0)
    found = [int(s) if c is None else c for c, s in zip(counts, shares, strict=True)]
    if sum(found) > n:
        raise EpisodesError(
            f"the parts {' and '.join(parts)} ask for {sum(found)} of {n} episodes; ask for fewer"
        )
    return found


def positions_of(index: ArrayLike, n: int) -> IndexArray:
    """The chosen positions among n episodes, given by number (from -n) or by a mask; checked."""
    chosen, name = np.asarray(index), Argument("index")
    if chosen.dtype == np.bool_:
        if chosen.shape != (n,):
            raise InputError(name, f" as a mask needs shape ({n},), got shape {chosen.shape}")
        chosen = np.flatnonzero(chosen)
    chosen = chosen.astype(np.intp)
    if chosen.ndim != 1 or np.any(chosen < -n):
        raise InputError(name, f" needs a 1-D array of positions from -{n} to {n - 1}")
    if np.any(chosen >= n):
        raise InputError(name, f" needs positions below {n}, got {chosen.max()}")
    if chosen.size == 0:
        raise EpisodesError(name, " chooses no episode; choose at least one")
    chosen = chosen % n
    if np.unique(chosen).size != chosen.size:
        raise InputError(name, " needs different positions, got the same one twice")
    return chosen
