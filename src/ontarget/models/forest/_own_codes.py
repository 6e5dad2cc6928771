"""Each tree orders the categories of a feature by the outcomes of the episodes that it drew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import IndexArray, IntArray
from ontarget.models.forest._split_kernel import TrainingTable

# Categories with fewer drawn episodes are coded together: their own means would be noise.
_FEWEST = 10


class Owners(NamedTuple):
    """Which episodes have which category of one feature, each pair once."""

    feature: int
    episodes: IndexArray
    codes: IntArray


def owners_of(table: TrainingTable, categorical: list[int], episodes: IndexArray) -> list[Owners]:
    """For each categorical feature, the episodes that have each category in at least one row."""
    found = []
    for f in categorical:
        n_codes = int(table.n_bins[f]) + 1
        pairs = np.unique(episodes * n_codes + table.codes[f])
        pairs = pairs[pairs % n_codes < table.n_bins[f]]  # the last code is missing
        found.append(Owners(f, pairs // n_codes, pairs % n_codes))
    return found


def in_own_codes(
    table: TrainingTable, owners: list[Owners], drawn: IntArray, episodes: IndexArray
) -> tuple[TrainingTable, IntArray]:
    """The training rows with one tree's own codes of categories, and these codes."""
    if not owners:
        return table, np.empty(0, dtype=np.uint16)
    mass = drawn[episodes].astype(np.float64)
    if table.weight.size:
        mass *= table.weight
    score = mass * table.scores[:, 0]
    codes, n_bins, recodes = table.codes.copy(), table.n_bins.copy(), []
    for feature, of_pair, code in owners:
        n = int(n_bins[feature])
        n_drawn = np.bincount(code[drawn[of_pair] > 0], minlength=n)
        group = np.where(n_drawn < _FEWEST, n, np.arange(n))
        of_row = np.append(group, n + 1)[codes[feature]]
        sums = np.bincount(of_row, weights=score, minlength=n + 2)
        masses = np.bincount(of_row, weights=mass, minlength=n + 2)
        seen = masses > 0.0
        means = np.where(seen, sums / np.where(seen, masses, 1.0), score.sum() / mass.sum())
        used, place = np.unique(group, return_inverse=True)
        own = np.empty(used.size + 1, dtype=np.uint16)
        own[np.argsort(means[used], kind="stable")] = np.arange(used.size)
        own[used.size] = used.size  # missing
        recode = own[np.append(place, used.size)]
        codes[feature], n_bins[feature] = recode[codes[feature]], used.size
        recodes.append(recode[:n])
    return table._replace(codes=codes, n_bins=n_bins), np.concatenate(recodes)
