"""Whether an episode was seen before: eight bytes that stand for its id and all it holds."""

from __future__ import annotations

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import AnyArray, IndexArray, KeyArray
from ontarget.episodes._recorded import Recorded

__all__ = ["fingerprints", "seen_before"]


def fingerprints(episodes: Recorded) -> KeyArray:
    """One word per episode, of its id, its states, its behavior at every step and its outcome."""
    return _named(episodes, _contents(episodes))


def seen_before(episodes: Recorded, known: AnyArray) -> IndexArray:
    """The positions of the episodes whose fingerprints are known; none where that may be chance.

    Where only a few different runs are possible, two logs that number their runs alike agree in
    some of them by chance: as often as two runs of one log do. Only more than that tells anything.

    Examples
    --------
    >>> from ontarget import Episodes
    >>> rng = np.random.default_rng(0)
    >>> runs = Episodes.from_arrays(rng.normal(size=(5, 3, 1)), rng.normal(size=(5, 3)))
    >>> print(seen_before(runs, fingerprints(runs.take([1, 4]))))
    [1 4]
    """
    contents = _contents(episodes)
    found = np.flatnonzero(np.isin(_named(episodes, contents), known))
    _, counts = np.unique(contents, return_counts=True)
    pairs = len(episodes) * (len(episodes) - 1)
    alike = float((counts * (counts - 1.0)).sum()) / pairs if pairs else 0.0
    return found if found.size > 4.0 * alike * len(episodes) else found[:0]


def _named(episodes: Recorded, contents: KeyArray) -> KeyArray:
    return keyed_hash(contents ^ episodes.keys, 0, "episode")


def _contents(episodes: Recorded) -> KeyArray:
    """One word per episode, of everything but its id."""
    # As recorded: the same episode must be known again whatever the grid it is compared on.
    store, index = episodes._store, episodes._index
    words = keyed_hash(_bits(episodes._unsnapped_outcomes), 0, "outcome")
    for t in range(int(episodes.lengths.max())):
        rows, alive = store.rows(t, index)
        own = words[alive]
        for j, column in enumerate((store.before[rows], *store.states[:, rows])):
            own = keyed_hash(own ^ _bits(column), 0, t, j)
        words[alive] = own
    return words


def _bits(values: AnyArray) -> KeyArray:
    """The numbers as words; -0 is 0, and every NaN is one NaN."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    return np.ascontiguousarray(plain, dtype=np.float64).view(np.uint64)
