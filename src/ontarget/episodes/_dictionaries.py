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
from ontarget.episodes.schema import MOST_NAMED, Feature, Schema, Unseen
from ontarget.errors import CategoryError

__all__ = ["learned_schema", "recoded_store", "same_dictionaries"]


def same_dictionaries(one: Schema, other: Schema) -> bool:
    """Whether the same code stands for the same category in both schemas (lists of features)."""
    pairs = zip(one.features, other.features, strict=True)
    return all(own.categories == theirs.categories for own, theirs in pairs)


def learned_schema(train: Recorded, unseen: Unseen) -> Schema:
    """The features of these episodes, each text feature with exactly the categories that occur.

    ``unseen`` says what happens later with a category that does not occur in these episodes: it is
    an error, or it counts as a missing value.
    """
    columns = [j for j, one in enumerate(train.schema.features) if one.categories is not None]
    found: dict[int, set[float]] = {j: set() for j in columns}
    for t in range(int(train.lengths.max())) if columns else ():
        states = train.at(t).states
        for j in columns:
            found[j] |= set(np.unique(states[:, j]).tolist())
    features = list(train.schema.features)
    for j in columns:
        names = features[j].categories or ()
        kept = tuple(name for code, name in enumerate(names) if float(code) in found[j])
        features[j] = replace(features[j], categories=kept, unseen=unseen)
    return Schema(tuple(features))


def recoded_store(store: Store, schema: Schema) -> Store:
    """The same episodes, with text features coded by the dictionaries of another schema.

    A dictionary lists the categories of a feature; a category's position is its code. A category
    that is not in the dictionary becomes a missing value and is counted, or it is an error:
    `Feature.unseen` says which.
    """
    recoded: Any = getattr(store, "recoded", None)
    if recoded is not None:  # prepared rows, which are coded as they are read
        found: Store = recoded(schema)
        return found
    states, unseen, named = store.states.copy(), store.unseen, list(store.strangers)
    for j, (own, other) in enumerate(zip(store.schema.features, schema.features, strict=True)):
        if own.categories is not None and own.categories != other.categories:
            codes, strange = _recoded(store.states[j], own, other)
            states[j], unseen = codes, unseen + int(np.count_nonzero(strange))
            found_here = np.unique(store.states[j][strange]).astype(np.intp)[:MOST_NAMED]
            named += [(own.name, own.categories[code]) for code in found_here.tolist()]
    strangers = tuple(dict.fromkeys(named))
    return replace(store, schema=schema, states=states, unseen=unseen, strangers=strangers)


def _recoded(codes: FloatArray, own: Feature, other: Feature) -> tuple[FloatArray, BoolArray]:
    """The codes in the other dictionary, and where a category is not in it."""
    known = {name: code for code, name in enumerate(other.categories or ())}
    table = np.array([known.get(name, np.nan) for name in own.categories or ()] + [np.nan])
    missing = np.isnan(codes)
    found: FloatArray = table[np.where(missing, -1, codes).astype(np.intp)]
    strange = np.isnan(found) & ~missing
    if strange.any() and other.unseen == "error":
        first = (own.categories or ())[int(codes[np.argmax(strange)])]
        raise CategoryError(
            f"feature {own.name!r} has {np.count_nonzero(strange):,} readings of categories that "
            f"no training episode has (first: {first!r}); record more such episodes, leave these "
            f"out, or fit with unseen='missing' and a model that takes missing values"
        )
    return found, strange
