"""Episodes as a classifier reads them: one row per episode and step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.goal import Goal
from ontarget.target import Target


@dataclass(frozen=True, eq=False)
class Rows:
    """One row per episode and step: what is known at that step, and how the episode ended.

    Attributes
    ----------
    X
        (rows, columns): the features, NaN where a value is missing.
    categorical
        Which columns hold the codes of categories.
    t
        (rows,): the step.
    b
        (rows,): the behavior so far.
    met
        Whether the row's episode ended inside the target.
    episode
        The position of the row's episode, from 0.
    """

    X: FloatArray
    categorical: BoolArray
    t: IndexArray
    b: FloatArray
    met: BoolArray
    episode: IndexArray

    def __len__(self) -> int:
        return int(self.t.size)

    @property
    def n_episodes(self) -> int:
        """How many episodes the rows belong to."""
        return int(self.episode.max()) + 1

    @property
    def length(self) -> IndexArray:
        """(rows,): for each row, how many rows its episode has."""
        return np.bincount(self.episode)[self.episode]

    def take(self, chosen: BoolArray | IndexArray | slice) -> Rows:
        """Those of the rows that ``chosen`` selects: a mask, positions or a slice."""
        return Rows(
            self.X[chosen],
            self.categorical,
            self.t[chosen],
            self.b[chosen],
            self.met[chosen],
            self.episode[chosen],
        )


def rows_of(
    episodes: Episodes,
    target: Target | Goal,
    *,
    grid: float | Mapping[str, float] | None = None,
    groups: AnyArray | None = None,
) -> Rows:
    """All steps of the episodes as rows: first the rows of step 0, then of step 1, and so on.

    Parameters
    ----------
    episodes
        Recorded episodes.
    target
        The outcomes that count as success; for episodes with several behaviors, a goal. The value
        so far of each further behavior is then a column.
    grid
        Outcomes are rounded to multiples of this number before they are compared with the target;
        by default to the episodes' own grid. For several behaviors, a mapping by their names.
    groups
        The names of all groups. If given, an episode's group becomes a last, categorical column.
    """
    if isinstance(target, Goal):
        return _rows_of_goal(episodes, target, grid, groups)
    assert not isinstance(grid, Mapping)
    grid = episodes.grid if grid is None else grid
    steps = [episodes.at(t, grid=grid) for t in range(int(episodes.lengths.max()))]
    index = np.concatenate([step.index for step in steps])
    X = np.concatenate([step.states for step in steps])
    categorical = np.isin(np.arange(X.shape[1]), episodes.state_schema.categorical)
    if groups is not None and episodes.groups is not None:
        known = np.unique(groups).astype(episodes.groups.dtype)
        codes = np.searchsorted(known, episodes.groups)[index]
        X, categorical = np.column_stack([X, codes]), np.append(categorical, True)
    return Rows(
        X=X,
        categorical=categorical,
        t=np.repeat([step.t for step in steps], [len(step) for step in steps]),
        b=np.concatenate([step.behavior for step in steps]),
        met=np.concatenate([target.contains(step.outcomes, grid) for step in steps]),
        episode=index,
    )


def _rows_of_goal(episodes: Episodes, goal: Goal, grid: object, groups: AnyArray | None) -> Rows:
    """The rows of episodes with several behaviors, judged by a goal.

    They are the rows of the first behavior, with the other behaviors so far as further columns.
    """
    given = grid if isinstance(grid, Mapping) else {}
    each = {name: episodes.only(name) for name in goal.names}
    grids = {name: given.get(name, one.grid) for name, one in each.items()}
    rows = [rows_of(one, Target(), grid=grids[name], groups=groups) for name, one in each.items()]
    met = goal.contains({name: one.outcomes for name, one in each.items()}, grids)
    first, others = rows[0], [one.b for one in rows[1:]]
    return replace(
        first,
        X=np.column_stack([first.X, *others]),
        categorical=np.append(first.categorical, [False] * len(others)),
        b=np.nan_to_num(first.b),  # a least or greatest value has none before the first step
        met=met[first.episode],
    )
