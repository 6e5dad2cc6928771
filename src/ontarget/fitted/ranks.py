"""The ranks of every step and group, in one array.

A rank is where an episode's outcome fell in the distribution that was predicted for it: 0.3 if the
predicted probability of a lower outcome was 30 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.conformal.ranks import Ranks
from ontarget.errors import ModelFileError
from ontarget.models._stored import flat_array


@dataclass(frozen=True, eq=False)
class RankTable:
    """The sorted ranks of each step and group, one set after the other in one flat array.

    A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.

    Attributes
    ----------
    values
        All ranks, numbers from 0 to 1; ascending within each set.
    spans
        (steps, groups, 2): where each set begins and ends in ``values``.
    """

    values: FloatArray
    spans: IndexArray

    @classmethod
    def of(cls, sets: Sequence[FloatArray], n_groups: int) -> RankTable:
        """The table of these sets of ranks, ordered by step and, within a step, by group.

        A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.
        """
        ends = np.cumsum([one.size for one in sets])
        return cls._spanned(np.concatenate(sets), ends, n_groups)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], horizon: int, n_groups: int) -> RankTable:
        """The table that `to_arrays` wrote; a `ModelFileError` if the arrays are damaged."""
        values = flat_array(arrays, "values", np.float64)
        ends = flat_array(arrays, "ends", np.int64)
        if ends.size != horizon * n_groups or not ends.size:
            raise ModelFileError(
                f"ranks need one end for each of {horizon} steps and {n_groups} groups, "
                f"got {ends.size}"
            )
        if ends[0] < 0 or ends[-1] != values.size or not np.all(ends[1:] >= ends[:-1]):
            raise ModelFileError(
                f"'ends' of the ranks need to rise from 0 to the number of ranks, {values.size}"
            )
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise ModelFileError("ranks need to be numbers from 0 to 1")
        descents = np.flatnonzero(values[1:] < values[:-1]) + 1
        if not np.all(np.isin(descents, ends)):
            raise ModelFileError("the ranks of a step need to be in ascending order")
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
        """(steps, groups): how many episodes have a rank at each step, in each group.

        A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.
        """
        return self.spans[:, :, 1] - self.spans[:, :, 0]

    def at(self, t: int, group: int) -> Ranks:
        """The sorted ranks of one step and group, without copying them.

        A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.
        """
        start, stop = self.spans[t, group].tolist()
        return Ranks(self.values[start:stop])
