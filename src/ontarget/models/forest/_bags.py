"""Bags: which episodes each tree of a forest draws, and so which trees never see an episode.

A bag depends only on the seed, the tree and the number of rows of each episode, so it can be drawn
again whenever it is needed. Only which tree drew which episode is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keys_of
from ontarget._typing import ArrayLike, BoolArray, IndexArray, IntArray, KeyArray
from ontarget.errors import InputError
from ontarget.models.base import TrainingRows, episodes_of
from ontarget.models.forest._draw_kernel import draw_with_replacement, draw_without_replacement


@dataclass(frozen=True, slots=True)
class Sampling:
    """How each tree of a forest draws the episodes that it learns from, as checked values."""

    n_trees: int
    bootstrap: bool
    share: float  # of the episodes, for each tree
    most_rows: int  # before which a tree stops drawing
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Bags:
    """The bags of a forest: which of the training episodes each tree draws."""

    sampling: Sampling
    n_rows: IntArray  # of each episode
    keys: KeyArray | None  # of the episodes, in their order; None without ids

    @classmethod
    def of(cls, rows: TrainingRows, sampling: Sampling) -> Self:
        """The bags of a forest on these rows; trees draw episodes or, without ids, single rows."""
        return cls(sampling, read_only(np.bincount(rows.units)), rows.keys)

    def draw(self, tree: int) -> tuple[IntArray, KeyArray]:
        """How often this tree draws each episode, and the random state for its further choices."""
        seed = self.sampling.seed
        state = keyed_hash(keys_of(np.array([tree])), seed[0], *seed[1:], "tree")
        counts = np.zeros(self.n_rows.size, dtype=np.int64)
        n_draws = max(1, round(self.sampling.share * counts.size))
        draw = draw_with_replacement if self.sampling.bootstrap else draw_without_replacement
        draw(state, (n_draws, self.sampling.most_rows), self.n_rows, counts)
        return counts, state

    def note(self, held: BoolArray) -> None:
        """Store which tree drew which episode, (trees, episodes), after all trees were grown."""
        self.__dict__["_drawn"] = held

    @cached_property
    def _drawn(self) -> BoolArray:
        return np.stack([self.draw(tree)[0] > 0 for tree in range(self.sampling.n_trees)])

    @cached_property
    def held(self) -> BoolArray:
        """Whether each tree drew each episode: (trees, episodes)."""
        held = self._drawn
        if held.shape[1] > 1 and held.all() and not self.sampling.bootstrap:
            raise InputError(
                "out-of-bag answers need trees that leave episodes out, but with bootstrap=False "
                f"and max_samples={self.sampling.share} every tree drew every episode; fit with "
                "bootstrap=True or a smaller max_samples"
            )
        return held

    def episodes_of(self, ids: ArrayLike, n_rows: int) -> IndexArray:
        """The episode number of each id; an `InputError` names an id that `fit` did not get."""
        return episodes_of(self.keys, ids, n_rows)
