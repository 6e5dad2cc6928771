"""Recognizes episodes that a monitor has seen before, by a hash of their id and contents."""

from __future__ import annotations

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import AnyArray, IndexArray, KeyArray
from ontarget.episodes._recorded import Recorded

# The most fingerprints stored for one part of a split, to keep model files small.
MOST_FINGERPRINTS = 200_000


def fingerprints(episodes: Recorded) -> KeyArray:
    """A 64-bit hash of each episode: of its id, its outcome, and its states at all steps.

    The behavior so far (the number that a run is judged by) at each step is part of the hash too.
    """
    return _named(episodes, _contents(episodes))


def known_by(episodes: Recorded) -> KeyArray:
    """The fingerprints (64-bit hashes) by which a model file recognizes these episodes, sorted.

    If there are more than `MOST_FINGERPRINTS`, only the smallest are kept. Fingerprints are hashes,
    so the smallest belong to a random part of the episodes.
    """
    return np.sort(fingerprints(episodes))[:MOST_FINGERPRINTS]


def seen_before(episodes: Recorded, known: AnyArray) -> IndexArray:
    """The positions of the episodes whose fingerprint is in ``known``; empty if it may be chance.

    A fingerprint is a 64-bit hash of an episode's id and contents. If only a few different runs are
    possible, two logs with the same ids contain some equal runs by chance: about as often as two
    runs of one log are equal. So positions are returned only if clearly more episodes match.

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
    """A 64-bit hash of each episode's contents, without its id; see `fingerprints`."""
    # Values as recorded, not rounded, so that the same episode gets the same hash on every grid.
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
    """The bits of the numbers, for a hash. -0 gives the same bits as 0, and so do all NaNs."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    return np.ascontiguousarray(plain, dtype=np.float64).view(np.uint64)
