"""Recognizes episodes that a monitor has seen before, by a hash of their id and contents."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes.episodes import Episodes
from ontarget.episodes.schema import Schema, Unseen

# The most fingerprints stored for one part of a split, to keep model files small.
MOST_FINGERPRINTS = 200_000
_PAIRS = 8  # how many pairs of neighboring steps are examined
_ENOUGH = 20  # the fewest changes that count as evidence


def fingerprints(episodes: Episodes) -> KeyArray:
    """A 64-bit hash of each episode: of its id, its outcome, and its states at all steps."""
    return _named(episodes, _contents(episodes))


def known_by(episodes: Episodes) -> KeyArray:
    """The fingerprints by which a model file recognizes these episodes, sorted."""
    return np.sort(fingerprints(episodes))[:MOST_FINGERPRINTS]


def seen_before(episodes: Episodes, known: AnyArray) -> IndexArray:
    """The positions of the episodes whose fingerprint is in ``known``; empty if it may be chance.

    If only a few different runs are possible, two logs with the same ids contain some equal runs by
    chance: about as often as two runs of one log are equal. So positions are returned only if
    clearly more episodes match.

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


def _named(episodes: Episodes, contents: KeyArray) -> KeyArray:
    return keyed_hash(contents ^ episodes.keys, 0, "episode")


def _contents(episodes: Episodes) -> KeyArray:
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


class Clocks(NamedTuple):
    """Which features only rise or only fall during a run, and whether the behavior so far does."""

    features: frozenset[str] = frozenset()
    so_far: bool = False


def clocks_of(episodes: Episodes | None, schema: Schema) -> Clocks:
    """Which features only rise or only fall during the runs of these episodes."""
    if episodes is None or episodes.horizon < 2:
        return Clocks()
    moves = []
    for t in np.unique(np.linspace(0, episodes.horizon - 2, _PAIRS).round().astype(np.intp)):
        now, then = (_rows(episodes, int(step)) for step in (t + 1, t))
        shared = np.intersect1d(now[0], then[0], return_indices=True)[1:]
        with np.errstate(invalid="ignore"):  # from one infinity to the same is no move
            moves.append(now[1][shared[0]] - then[1][shared[1]])
    one_way = _one_way(np.concatenate(moves))
    if one_way.size != len(schema.names) + 1:
        return Clocks()
    named = zip(schema.names, schema.features, one_way[:-1].tolist(), strict=True)
    numeric = (name for name, one, clock in named if clock and one.categories is None)
    return Clocks(frozenset(numeric), bool(one_way[-1]))


def _rows(episodes: Episodes, t: int) -> tuple[IndexArray, FloatArray]:
    """At step t: which episodes are still going, and their states with the behavior so far."""
    rows = episodes.at(t)
    return rows.index, np.column_stack([rows.states, rows.behavior])


def _one_way(moves: FloatArray) -> BoolArray:
    """Which columns of changes are above 0, or below 0, in all rows; False with too few rows."""
    up, down = (np.count_nonzero(one, axis=0) for one in (moves > 0.0, moves < 0.0))
    found: BoolArray = (np.maximum(up, down) == len(moves)) & (len(moves) >= _ENOUGH)
    return found


def learned_schema(train: Episodes, unseen: Unseen) -> Schema:
    """The features of these episodes, each with exactly the categories that occur."""
    columns = train.schema.categorical
    found: dict[int, set[float]] = {j: set() for j in columns}
    for t in range(int(train.lengths.max())) if columns else ():
        states = train.at(t).states
        for j in columns:
            found[j] |= set(np.unique(states[:, j]).tolist())
    features = list(train.schema.features)
    for j in columns:
        names = features[j].categories
        if names is None:
            known = tuple(sorted(code for code in found[j] if code == code))
            features[j] = replace(features[j], known=known, unseen=unseen)
        else:
            kept = tuple(name for code, name in enumerate(names) if float(code) in found[j])
            features[j] = replace(features[j], categories=kept, unseen=unseen)
    return Schema(tuple(features))
