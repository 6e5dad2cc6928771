"""Growing a forest: what the processor does to the last bits changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget import QuantileForest
from ontarget.models.forest import _growing as growing


@pytest.mark.parametrize("split", ["distribution", "variance"])
def test_the_last_bits_of_the_scores_choose_no_split(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(6, size=(800, 2)).astype(float)
    X = np.hstack([x, -x])  # two ways to say every split, equally good but for rounding
    y = (x[:, 0] + rng.normal(size=800)).round(1)
    usual = QuantileForest(n_trees=20, split=split).fit(X, y).to_arrays()
    scores = growing.SPLIT_SCORES[split]

    def on_another_processor(values, mass):
        exact = scores(values, mass)
        return np.where(rng.random(exact.shape) < 0.5, exact, np.nextafter(exact, np.inf))

    monkeypatch.setitem(growing.SPLIT_SCORES, split, on_another_processor)
    other = QuantileForest(n_trees=20, split=split).fit(X, y).to_arrays()
    assert usual.keys() == other.keys()
    for name, array in usual.items():
        assert np.array_equal(array, other[name]), name
