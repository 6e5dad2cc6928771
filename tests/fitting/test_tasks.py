"""Rows of one block: which of them models learn from, and what answers for them."""

from __future__ import annotations

import numpy as np

from ontarget.episodes import Episodes
from ontarget.fitting.tasks import BlockTask, fit_block, step_rows, thinned
from ontarget.models import QuantileForest


def ragged(n: int = 60) -> Episodes:
    """Runs of 1 to 6 steps."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, size=n)
    return Episodes.from_arrays(
        [rng.normal(size=(t, 1)) for t in lengths],
        [rng.normal(size=t) for t in lengths],
        behavior="sum",
    )


def test_runs_that_thinning_leaves_out_are_answered_by_every_tree() -> None:
    runs = ragged()
    asked = step_rows(runs, range(6), grid=runs.grid, reads_step=True)
    train = thinned(asked, 5, seed=0)
    learned = np.concatenate([rows.keys for rows in train])
    left_out = ~np.isin(asked[0].keys, learned)
    assert 0 < left_out.sum() < len(runs)  # short runs, whose turn never came
    model = QuantileForest(20, min_leaf=3)
    found = fit_block(BlockTask(0, model, (), train, {"learn": asked}, own="learn"))
    first, rows = found.limits["learn"][0], asked[0].take(np.flatnonzero(left_out))
    wanted = found.model.cdf_limits(rows.X, rows.y)
    assert np.array_equal([first.left[left_out], first.right[left_out]], wanted)
    others = asked[0].take(np.flatnonzero(~left_out))
    honest = found.model.out_of_bag_limits(others.X, others.y, others.keys)
    assert np.array_equal([first.left[~left_out], first.right[~left_out]], honest)
