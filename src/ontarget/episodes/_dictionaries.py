"""Dictionaries of text features: the list of a feature's categories, whose positions are its codes.

They are made from episodes. Other episodes can then be recoded with the same dictionaries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ontarget._typing import BoolArray, FloatArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes._store import Store
from ontarget.episodes.schema import (
    Feature,
    Schema,
    UnknownCategories,
    Unseen,
    joined_unknown,
)
from ontarget.errors import CategoryError


def same_dictionaries(one: Schema, other: Schema) -> bool:
    """Whether the same code stands for the same category in both schemas (lists of features)."""
    pairs = zip(one.features, other.features, strict=True)
    return all(_same(own, theirs) for own, theirs in pairs)


def _same(own: Feature, other: Feature) -> bool:
    """Whether each code of one feature has the same meaning in the other."""
    return own.categories == other.categories and other.known in (None, own.known)


def learned_schema(train: Recorded, unseen: Unseen) -> Schema:
    """The features of these episodes, each with exactly the categories that occur.

    ``unseen`` says what happens later with a category that does not occur in these episodes: it is
    an error, or it counts as a missing value.
    """
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


def recoded_store(store: Store, schema: Schema) -> Store:
    """The same episodes, with categories coded by the dictionaries of another schema.

    A dictionary lists the categories of a feature; a category's position is its code. A category
    that is not in the dictionary becomes a missing value and is counted, or it is an error:
    `Feature.unseen` says which.
    """
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
