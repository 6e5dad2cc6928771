from __future__ import annotations

import numpy as np
import polars as pl

from ontarget import Episodes, Target
from ontarget.study._rows import rows_of


def log() -> Episodes:
    return Episodes.from_frame(
        pl.DataFrame(
            {
                "episode": ["a", "a", "b", "b", "b"],
                "step": [0, 1, 0, 1, 2],
                "reward": [0.1, 0.2, 0.1, 0.1, 0.1],
                "speed": [1.0, None, 3.0, 4.0, 5.0],
                "mode": ["on", "off", "on", "on", "on"],
                "group": ["x", "x", "y", "y", "y"],
            }
        )
    )


def test_rows_hold_what_is_known_before_acting_and_how_the_episode_ended() -> None:
    rows = rows_of(log(), Target(0.3, 0.3))  # decimals meet their bounds
    assert rows.t.tolist() == [0, 0, 1, 1, 2]
    assert rows.episode.tolist() == [0, 1, 0, 1, 1]
    assert np.allclose(rows.b, [0.0, 0.0, 0.1, 0.1, 0.2])
    assert rows.met.all()
    assert rows.categorical.tolist() == [False, True]
    assert np.array_equal(rows.X[:, 0], [1.0, 3.0, np.nan, 4.0, 5.0], equal_nan=True)
    assert (len(rows), rows.n_episodes) == (5, 2)
    assert not rows_of(log(), Target.at_least(0.4)).met.any()


def test_a_group_becomes_a_category_of_the_classifiers() -> None:
    rows = rows_of(
        log(), Target.at_least(0.0), groups=np.array(["x", "y", "z"], log().groups.dtype)
    )
    assert rows.categorical.tolist() == [False, True, True]
    assert rows.X[:, 2].tolist() == [0.0, 1.0, 0.0, 1.0, 1.0]


def test_taking_rows_keeps_what_belongs_together() -> None:
    rows = rows_of(log(), Target.at_least(0.0))
    some = rows.take(rows.t == 1)
    assert some.episode.tolist() == [0, 1]
    assert np.array_equal(some.X, rows.X[2:4], equal_nan=True)
    assert some.categorical is rows.categorical
