"""Bins of the same rows: found once, brought into the order of any outcomes."""

from __future__ import annotations

import numpy as np

from ontarget.models.forest._binning import (
    bin_by_value,
    bin_features,
    choose_bins,
    distinct_values,
    reorder_categories,
)

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=300), RNG.integers(0, 9, size=300) * 10.0])
X[RNG.random(X.shape) < 0.1] = np.nan
Y = RNG.normal(size=300)


def test_categories_by_value_brought_into_order_are_those_chosen_for_the_outcomes() -> None:
    distinct = distinct_values(X, (1,))
    by_value = bin_by_value(X, (1,), max_bins=20, distinct=distinct)
    bins, codes, n_bins = reorder_categories(*by_value[:2], Y, np.ones(300, dtype=np.bool_))
    wanted = choose_bins(X, Y, (1,), max_bins=20)
    wanted_codes, wanted_n = bin_features(X, wanted)
    assert all(np.array_equal(one, other) for one, other in zip(bins, wanted, strict=True))
    assert np.array_equal(codes, wanted_codes)
    assert np.array_equal(n_bins, wanted_n)


def test_a_category_that_is_not_seen_is_missing() -> None:
    bins, codes, _ = bin_by_value(X, (1,), max_bins=20, distinct=distinct_values(X, (1,)))
    bins, codes, n_bins = reorder_categories(bins, codes, Y, X[:, 1] != 40.0)
    known = bins.edges[bins.start[1] :]
    assert 40.0 not in known
    assert n_bins[1] == known.size == 8
    assert (codes[1][(X[:, 1] == 40.0) | np.isnan(X[:, 1])] == 8).all()
    means = [Y[X[:, 1] == one].mean() for one in known]
    assert np.array_equal(np.argsort(np.argsort(means)), bins.order[bins.start[1] :])
