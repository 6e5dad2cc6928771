"""Each tree orders categories by the episodes that it drew (method M29)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget.models import QuantileForest
from ontarget.models.forest._growing import in_own_codes, owners_of
from ontarget.models.forest._presorted_kernel import TrainingTable


def table(codes: np.ndarray, n_codes: int, scores: np.ndarray) -> TrainingTable:
    return TrainingTable(
        codes=codes[None].astype(np.uint16),
        n_bins=np.array([n_codes]),
        scores=scores[:, None],
        weight=np.empty(0),
        ranks=np.arange(codes.size, dtype=np.uint32),
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 300))
def test_codes_are_the_order_of_the_drawn_means_with_rare_ones_together(seed, n_codes, n) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_codes + 1, n)  # the last code is missing
    episodes, scores = rng.integers(0, max(1, n // 2), n), rng.normal(size=n)
    rows = table(codes, n_codes, scores)
    drawn = rng.integers(0, 3, episodes.max() + 1)
    if not drawn[episodes].any():
        drawn[episodes[0]] = 1
    found, recodes = in_own_codes(rows, owners_of(rows, [0], episodes), drawn, episodes)

    count = drawn[episodes]
    names = {}
    for c in range(n_codes):
        own = {e for e in episodes[codes == c].tolist() if drawn[e] > 0}
        names[c] = c if len(own) >= 10 else "rare"
    means = {}
    for name in set(names.values()):
        mine = np.array([c < n_codes and names[c] == name for c in codes.tolist()])
        weight = count[mine].sum()
        means[name] = (
            (count * scores)[mine].sum() / weight
            if weight
            else (count * scores).sum() / count.sum()
        )
    for a in range(n_codes):
        for b in range(n_codes):
            if names[a] == names[b]:
                assert recodes[a] == recodes[b]
            elif means[names[a]] < means[names[b]] - 1e-9:
                assert recodes[a] < recodes[b]
    missing = codes == n_codes
    assert found.n_bins[0] == len(set(names.values()))
    assert np.all(found.codes[0][missing] == found.n_bins[0])
    assert np.array_equal(found.codes[0][~missing], recodes[codes[~missing]])


@pytest.mark.parametrize(("order", "low", "high"), [("bag", 0.24, 0.29), ("all", 0.0, 0.23)])
def test_answers_out_of_bag_know_nothing_where_there_is_nothing_to_know(order, low, high) -> None:
    """Outcomes are coin flips. One order of categories for all trees is the planted bug."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 150, 500)[:, None].astype(float), rng.integers(0, 2, 500).astype(float)
    forest = QuantileForest(60, min_leaf=5, max_features=1.0, category_order=order)
    forest.fit(X, y, ids=np.arange(500), categorical=[0])
    said = 1.0 - forest.out_of_bag_limits(X, np.full(500, 0.5), np.arange(500))[1]
    assert low < np.mean((said - y) ** 2) < high
