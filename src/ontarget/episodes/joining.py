"""Dictionaries of text features: the list of a feature's categories, whose positions are its codes.

They are made from episodes. Other episodes can then be recoded with the same dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray
from ontarget.episodes.schema import (
    Feature,
    Schema,
    UnknownCategories,
    joined_unknown,
)
from ontarget.episodes.store import Signal, Store
from ontarget.errors import CategoryError, EpisodesError

_LIKE = "read the later ones with like= the first"


def same_dictionaries(one: Schema, other: Schema) -> bool:
    """Whether the same code stands for the same category in both schemas."""
    pairs = zip(one.features, other.features, strict=True)
    return all(_same(own, theirs) for own, theirs in pairs)


def _same(own: Feature, other: Feature) -> bool:
    """Whether each code of one feature has the same meaning in the other."""
    return own.categories == other.categories and other.known in (None, own.known)


def recoded_store(store: Store, schema: Schema) -> Store:
    """The same episodes, with categories coded by the dictionaries of another schema."""
    recoded: Any = getattr(store, "recoded", None)
    if recoded is not None:  # prepared rows, which are coded as they are read
        found: Store = recoded(schema)
        return found
    states, strangers = store.states.copy(), list(store.strangers)
    for j, (own, other) in enumerate(zip(store.schema.features, schema.features, strict=True)):
        if not _same(own, other):
            states[j], strange = _recoded(store.states[j], own, other)
            if strange.any():
                codes, counts = np.unique(store.states[j][strange], return_counts=True)
                named = zip(_named(codes, own), counts.tolist(), strict=True)
                strangers.append(UnknownCategories.of(own.name, named))
    return replace(store, schema=schema, states=states, strangers=joined_unknown(strangers))


def _recoded(codes: FloatArray, own: Feature, other: Feature) -> tuple[FloatArray, BoolArray]:
    """The codes in the other dictionary, and where a category is not in it."""
    if own.categories is None:
        strange = other.strange(codes)
        found: FloatArray = np.where(strange, np.nan, codes)
    else:
        known = {name: code for code, name in enumerate(other.categories or ())}
        table = np.array([known.get(name, np.nan) for name in own.categories] + [np.nan])
        missing = np.isnan(codes)
        found = table[np.where(missing, -1, codes).astype(np.intp)]
        strange = np.isnan(found) & ~missing
    if strange.any() and other.unseen == "error":
        first = _named(codes[[int(np.argmax(strange))]], own)[0]
        raise CategoryError(
            f"feature {own.name!r} has {np.count_nonzero(strange):,} readings of categories that "
            f"no training episode has (first: {first!r}); record more such episodes, leave these "
            f"out, or fit with unseen='missing' and a model that takes missing values"
        )
    return found, strange


def _named(codes: FloatArray, feature: Feature) -> list[Any]:
    """The category that each code stands for, as in the log."""
    names = feature.categories
    return codes.tolist() if names is None else [names[int(code)] for code in codes.tolist()]


def joined_store(stores: Sequence[Store]) -> Store:
    """One store with the episodes of all these stores, in order."""
    # Stores that differ in something that all episodes must share, such as their features, are
    # refused.
    first, *others = stores
    for number, other in enumerate(others, start=2):
        _check_alike(first, other, number)
    _check_ids(stores)
    schema = _common_schema(stores)
    coded = [recoded_store(store, schema) for store in stores]
    horizon = max(store.horizon for store in stores)
    found = replace(
        first,
        schema=schema,
        horizon=horizon,
        ids=np.concatenate([store.ids for store in stores]),
        groups=None
        if first.groups is None
        else np.concatenate([store.groups for store in stores if store.groups is not None]),
        truncated=_flags(stores, "truncated"),
        terminated=_flags(stores, "terminated"),
        lengths=np.concatenate([store.lengths for store in stores]),
        offsets=np.sum([_padded(store.offsets, coded) for store in coded], axis=0),
        states=np.stack([_by_step(coded, [s.states[j] for s in coded]) for j in range(len(schema))])
        if len(schema)
        else np.empty((0, sum(store.before.size for store in stores))),
        rewards=_rows(coded, "rewards"),
        before=_by_step(coded, [store.before for store in coded]),
        ahead=_rows(coded, "ahead"),
        outcomes=np.concatenate([store.outcomes for store in stores]),
        dropped=sum(store.dropped for store in stores),
        censoring=next((store.censoring for store in stores if store.censoring), ""),
        remarks=tuple(dict.fromkeys(chain.from_iterable(store.remarks for store in stores))),
        strangers=joined_unknown(chain.from_iterable(one.unknown_categories for one in coded)),
        wanted=None
        if first.wanted is None
        else tuple(chain.from_iterable(store.wanted or () for store in stores)),
        several=tuple(
            _joined_signal(coded, parts)
            for parts in zip(*(store.several for store in coded), strict=True)
        ),
    )
    _check_complete(stores, found)
    return found


def _joined_signal(stores: Sequence[Store], parts: Sequence[Signal]) -> Signal:
    """One of several behaviors, with the rows of all stores."""
    ahead = [part.ahead for part in parts if part.ahead is not None]
    return replace(
        parts[0],
        values=_by_step(stores, [part.values for part in parts]),
        before=_by_step(stores, [part.before for part in parts]),
        outcomes=np.concatenate([part.outcomes for part in parts]),
        ahead=_by_step(stores, ahead) if ahead else None,
    )


def _check_alike(first: Store, other: Store, number: int) -> None:
    """Refuse a store that differs from the first in something all episodes must share."""
    pairs: dict[str, tuple[Any, Any, str]] = {
        "list of features": (first.schema.names, other.schema.names, _LIKE),
        "kind of features": (_kinds(first), _kinds(other), _LIKE),
        "behavior": (first.behavior.spec, other.behavior.spec, _LIKE),
        "list of behaviors": (_signals(first), _signals(other), _LIKE),
        "history": (
            first.history.to_json(),
            other.history.to_json(),
            "join them first, then call with_history",
        ),
        "use of own targets": (
            first.wanted is not None,
            other.wanted is not None,
            "give targets to all of them, after concat: aimed(…)",
        ),
        "column of groups": (_group(first), _group(other), "read all of them with the same group="),
        "use of rewards": (
            first.rewards is not None,
            other.rewards is not None,
            "record rewards for all of them, or for none",
        ),
    }
    if first.horizon_declared or other.horizon_declared:
        pairs["declared horizon"] = (
            first.horizon if first.horizon_declared else None,
            other.horizon if other.horizon_declared else None,
            "pass the same horizon= to all of them",
        )
    if first.censoring and other.censoring:
        pairs["treatment of cut-off episodes"] = (
            first.censoring,
            other.censoring,
            "read all of them with the same censored=",
        )
    for what, (one, another, remedy) in pairs.items():
        if one != another:
            raise EpisodesError(
                f"concat needs episodes with one {what}, got {one} first and {another} in part "
                f"{number}; {remedy}"
            )


def _signals(store: Store) -> list[str]:
    return [f"{one.name}={one.reading.spec}" for one in store.several]


def _check_ids(stores: Sequence[Store]) -> None:
    """Refuse recordings if an id occurs twice."""
    kinds = {"text" if store.ids.dtype.kind in "OUST" else "number" for store in stores}
    if len(kinds) > 1:
        raise EpisodesError(
            "concat needs ids of one kind, got numbers and texts; record all of them with "
            "numbers, or all with texts"
        )
    ids, counts = np.unique(np.concatenate([store.ids for store in stores]), return_counts=True)
    twice = ids[counts > 1]
    if twice.size:
        raise EpisodesError(
            f"concat needs different ids, got {twice.size:,} of the ids in several parts (first: "
            f"{twice[0]!s}); if these are the same episodes, pass them once; otherwise give each "
            "recording ids of its own, with ids=… or with several columns, "
            "episode=['season', 'run']"
        )


def _check_complete(stores: Sequence[Store], found: Store) -> None:
    """Refuse to join stores if the longer horizon makes complete episodes incomplete."""
    before = sum(int(np.count_nonzero(store.censored)) for store in stores)
    more = int(np.count_nonzero(found.censored)) - before
    if more:
        raise EpisodesError(
            f"concat needs recordings of one horizon: {more:,} episodes were cut off at the end of "
            f"their recording, which is shorter than the {found.horizon} steps of another "
            "recording; pass the same horizon= when you make each of them"
        )


def _common_schema(stores: Sequence[Store]) -> Schema:
    """The features of the first recording, with the categories of all recordings."""
    features = list(stores[0].schema.features)
    for j, feature in enumerate(features):
        if feature.categories is not None:
            listed = chain.from_iterable(s.schema.features[j].categories or () for s in stores)
            features[j] = replace(feature, categories=tuple(dict.fromkeys(listed)))
        elif feature.known is not None:
            numbers = {one for s in stores for one in s.schema.features[j].known or ()}
            limited = all(s.schema.features[j].known is not None for s in stores)
            features[j] = replace(feature, known=tuple(sorted(numbers)) if limited else None)
    return Schema(tuple(features))


def _by_step(stores: Sequence[Store], columns: Sequence[FloatArray]) -> FloatArray:
    """One column for several recordings: step by step, and within a step recording by recording."""
    offsets = [_padded(store.offsets, stores) for store in stores]
    parts = [
        column[own[t] : own[t + 1]]
        for t in range(offsets[0].size - 1)
        for column, own in zip(columns, offsets, strict=True)
    ]
    return np.concatenate(parts)


def _padded(offsets: AnyArray, stores: Sequence[Store]) -> AnyArray:
    """The index of each step's first row in a store, extended to the steps of the longest store."""
    more = max(store.offsets.size for store in stores) - offsets.size
    return np.concatenate([offsets, np.full(more, offsets[-1])]).astype(np.intp)


def _rows(stores: Sequence[Store], name: str) -> FloatArray | None:
    columns = [getattr(store, name) for store in stores]
    return None if columns[0] is None else _by_step(stores, columns)


def _flags(stores: Sequence[Store], name: str) -> BoolArray | None:
    """One flag per episode of all stores: terminated, or truncated (cut off)."""
    if all(getattr(store, name) is None for store in stores):
        return None
    found = []
    for store in stores:
        own, ended, cut = getattr(store, name), store.terminated, store.truncated
        if own is None:
            none = np.zeros(store.lengths.size, dtype=np.bool_)
            unfinished = ~ended if ended is not None else none if cut is None else cut
            own = unfinished if name == "truncated" else ~unfinished
        found.append(own)
    return np.concatenate(found)


def _kinds(store: Store) -> list[str]:
    return ["text" if one.categories is not None else "numbers" for one in store.schema.features]


def _group(store: Store) -> str | None:
    return None if store.groups is None else store.roles.group or "groups"
