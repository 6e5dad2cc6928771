"""The ranks of every step and group, in one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.conformal._ranks import Ranks
from ontarget.errors import ModelFileError
from ontarget.models._stored import flat_array

__all__ = ["RankTable"]


@dataclass(frozen=True, eq=False)
class RankTable:
    """Sorted ranks of each step and group, one set after the other.

    Attributes
    ----------
    values
        All ranks.
    spans
        (steps, groups, 2): where each set begins and ends.
    """

    values: FloatArray
    spans: IndexArray

    @classmethod
    def of(cls, sets: Sequence[FloatArray], n_groups: int) -> RankTable:
        """The table of these sets, step by step and in each step group by group."""
        return cls._spanned(np.concatenate(sets), np.cumsum([one.size for one in sets]), n_groups)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], horizon: int, n_groups: int) -> RankTable:
        """The table that `to_arrays` wrote, checked."""
        values = flat_array(arrays, "values", np.float64)
        ends = flat_array(arrays, "ends", np.int64)
        if ends.size != horizon * n_groups or not ends.size:
            raise ModelFileError(
                f"ranks need an end for each of {horizon} steps and {n_groups} groups"
            )
        if ends[0] < 0 or ends[-1] != values.size or not np.all(ends[1:] >= ends[:-1]):
            raise ModelFileError(f"ranks need ends that rise to their number, {values.size}")
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise ModelFileError("ranks need numbers from 0 to 1")
        descents = np.flatnonzero(values[1:] < values[:-1]) + 1
        if not np.all(np.isin(descents, ends)):
            raise ModelFileError("ranks of a step need ascending numbers")
        return cls._spanned(values, ends, n_groups)

    @classmethod
    def _spanned(cls, values: FloatArray, ends: AnyArray, n_groups: int) -> RankTable:
        starts = np.concatenate([[0], ends[:-1]])
        spans = np.stack([starts, ends], axis=1).reshape(-1, n_groups, 2).astype(np.intp)
        return cls(read_only(values), read_only(spans))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The table as flat arrays for the model file."""
        return {"values": self.values, "ends": self.spans[:, :, 1].ravel().astype(np.int64)}

    @property
    def counts(self) -> IndexArray:
        """(steps, groups): how many ranks there are."""
        return self.spans[:, :, 1] - self.spans[:, :, 0]

    def at(self, t: int, group: int) -> Ranks:
        """The ranks of one step and group; nothing is copied."""
        start, stop = self.spans[t, group].tolist()
        return Ranks(self.values[start:stop])
