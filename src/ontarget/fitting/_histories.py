"""Proposes what the models may read about the run so far; a trial decides whether they do."""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.episodes.history import NO_HISTORY, History, measured, state_schema
from ontarget.errors import EpisodesError

# A feature that changes in a smaller share of the runs says little by its history.
_OFTEN: Final = 0.1
# Many columns would hide the few that matter, and a category of few runs cannot be learned from.
_MOST_NUMBERS: Final = 12
_MOST_CATEGORIES: Final = 32
_LEAST_RUNS: Final = 20
_MOST_VALUES: Final = 100_000_000  # of all added columns


def proposed_history(learn: Episodes) -> History:
    """Running counts of categories, and changes and running means of numbers; for event logs.

    Only features that change in many runs are proposed, those that change in most runs first. It
    is empty if no category does: a state of numbers alone usually says where a run stands,
    and whoever knows better passes ``history=``. It is empty too for prepared episodes, which are
    read one step at a time.
    """
    is_number = measured(learn.schema)
    if learn.is_prepared or learn.horizon < 2 or is_number.all():
        return NO_HISTORY
    share = _changing(learn)
    often = [int(j) for j in np.argsort(-share, kind="stable") if share[j] >= _OFTEN]
    numbers = tuple(sorted([j for j in often if is_number[j]][:_MOST_NUMBERS]))
    counts = _frequent(learn, [j for j in often if not is_number[j]])
    if not counts:
        return NO_HISTORY
    if int(learn.lengths.sum()) * (2 * len(numbers) + len(counts)) > _MOST_VALUES:
        return NO_HISTORY
    history = History(changes=numbers, means=numbers, counts=counts)
    try:
        state_schema(learn.schema, history)
    except EpisodesError:  # a feature already has one of these names
        return NO_HISTORY
    return history


def _changing(learn: Episodes) -> FloatArray:
    """For each feature, the share of runs in which its value changes."""
    changed = np.zeros((len(learn), len(learn.schema)), dtype=np.bool_)
    before = learn.at(0)
    for t in range(1, learn.horizon):
        step = learn.at(t)
        if not len(step):
            break
        last = before.states[np.searchsorted(before.index, step.index)]
        known = ~(np.isnan(last) | np.isnan(step.states))
        changed[step.index] |= known & (last != step.states)
        before = step
    share: FloatArray = changed.mean(axis=0)
    return share


def _frequent(learn: Episodes, features: list[int]) -> tuple[tuple[int, int], ...]:
    """The categories of these features that occur in most runs, as (feature, code) pairs."""
    pairs, runs = [], []
    for j in sorted(features):
        found = []
        for t in range(learn.horizon):
            step = learn.at(t)
            codes = step.states[:, j]
            known = np.flatnonzero((codes >= 0.0) & (codes == np.floor(codes)))
            found.append(codes[known].astype(np.int64) * len(learn) + step.index[known])
        occurring = np.unique(np.concatenate(found)) // len(learn)  # once a run
        codes, counts = np.unique(occurring, return_counts=True)
        pairs += [(j, code) for code in codes.tolist()]
        runs += counts.tolist()
    order = np.argsort(-np.array(runs, dtype=np.int64), kind="stable")[:_MOST_CATEGORIES]
    return tuple(sorted(pairs[k] for k in order if runs[k] >= _LEAST_RUNS))
