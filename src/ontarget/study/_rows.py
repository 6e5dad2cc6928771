"""Episodes as a classifier reads them: one row per episode and step."""

from __future__ import annotations

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
    t, b
        (rows,): the step, and the behavior so far.
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

    def take(self, chosen: BoolArray | IndexArray | slice) -> Rows:
        """Those of the rows that ``chosen`` selects: a mask, positions or a slice."""
        return replace(
            self,
            X=self.X[chosen],
            t=self.t[chosen],
            b=self.b[chosen],
            met=self.met[chosen],
            episode=self.episode[chosen],
        )


def rows_of(episodes: Episodes, target: Target | Goal, groups: AnyArray | None = None) -> Rows:
    """All steps of the episodes as rows: first the rows of step 0, then of step 1, and so on.

    If the names of all ``groups`` are given, an episode's group is a categorical column. For a goal
    over several behaviors, the value so far of each but the first is a last column.
    """
    first, *others = _judged(episodes, target)
    steps = [first.at(t) for t in range(int(first.lengths.max()))]
    index = np.concatenate([step.index for step in steps])
    columns = [np.concatenate([step.states for step in steps])]
    categorical = np.isin(np.arange(columns[0].shape[1]), first.state_schema.categorical)
    if groups is not None and episodes.groups is not None:
        columns.append(np.searchsorted(groups, episodes.groups)[index])
        categorical = np.append(categorical, True)
    b = np.concatenate([step.behavior for step in steps])
    if others:
        b = np.nan_to_num(b)  # a least or greatest value has none before the first step
    for other in others:
        columns.append(np.concatenate([other.at(step.t).behavior for step in steps]))
        categorical = np.append(categorical, False)
    return Rows(
        X=np.column_stack(columns),
        categorical=categorical,
        t=np.repeat([step.t for step in steps], [len(step) for step in steps]),
        b=b,
        met=met_by(episodes, target)[index],
        episode=index,
    )


def met_by(episodes: Episodes, target: Target | Goal) -> BoolArray:
    """(episodes,): whether each episode met the target or goal."""
    judged = _judged(episodes, target)
    if not isinstance(target, Goal):
        return target.contains(judged[0].outcomes, judged[0].grid)
    each = dict(zip(target.names, judged, strict=True))
    return target.contains(
        {name: one.outcomes for name, one in each.items()},
        {name: one.grid for name, one in each.items()},
    )


def _judged(episodes: Episodes, target: Target | Goal) -> list[Episodes]:
    """The episodes, judged by each behavior that the target or goal is about."""
    return (
        [episodes.only(name) for name in target.names] if isinstance(target, Goal) else [episodes]
    )
