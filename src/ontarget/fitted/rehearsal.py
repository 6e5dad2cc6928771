"""Alarms without assure episodes: the law of the learning episodes, out of bag (M16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ontarget._readonly import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.errors import ModelFileError
from ontarget.fitted._curves import without_one
from ontarget.models._stored import flat_array

__all__ = ["Rehearsal", "RehearsedLaw", "as_shares"]

_WHOLE = 65_535  # limits are kept in two bytes each
_LARGEST = 1e300  # a difference of two such values is finite


@dataclass(frozen=True, eq=False)
class RehearsedLaw:
    """The law of one step for some learning episodes, known at a ladder of values.

    It answers like a model whose only feature is the number of the episode among these. Between two
    values of the ladder the law rises evenly; at them it may jump.

    Attributes
    ----------
    ladder
        The values, ascending; those at the end may be equal.
    left, right
        (episodes, values): both limits of the law there.
    ranks
        Where each episode's own outcome lies in its law.
    curve, n
        The step's calibrating curve and how many episodes it was learned from. The law is then the
        calibrated one, each episode's own rank left out. An empty curve leaves the law as it is.
    """

    ladder: FloatArray
    left: FloatArray
    right: FloatArray
    ranks: FloatArray
    curve: FloatArray
    n: int

    def cdf_limits(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both limits of the law at each row's values, (rows, values)."""
        rows = X[:, :1].astype(np.intp)
        last = self.ladder.size - 1
        above = np.searchsorted(self.ladder, y, side="left")
        here, below = np.minimum(above, last), np.maximum(above - 1, 0)
        on = self.ladder[here] == y
        gap = np.where(here > below, self.ladder[here] - self.ladder[below], 1.0)
        part = (y - self.ladder[below]) / np.where(gap > 0.0, gap, 1.0)
        low = self.right[rows, below]
        between = low + part * (self.left[rows, here] - low)
        between = np.where(above == 0, 0.0, np.where(above > last, 1.0, between))
        limits = (np.where(on, side[rows, here], between) for side in (self.left, self.right))
        if not self.curve.size:
            return next(limits), next(limits)
        own = self.ranks[rows]
        left, right = (without_one(self.curve, self.n, own, one) for one in limits)
        return left, right


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Learning episodes and what models that never saw them say of each at every step.

    For any target it gives the p that each of them would have had as a new run, so that an alarm
    can be set where there are no assure episodes. Such an alarm is measured, not promised.

    Attributes
    ----------
    lengths, groups, outcomes
        Each episode's number of steps, the number of its group, and its outcome.
    before
        The behavior before each row's step. Rows are those of step 0 in the order of the episodes,
        then those of step 1 that are alive, and so on.
    ranks
        Where the row's own outcome lies in its law; NaN where nothing can be said of the row.
    ladder
        (steps, values): the remainders, scaled as the models see them, at which the law is known.
    left, right
        (rows, values): both limits of the law there, in 65,535ths.
    """

    lengths: IndexArray
    groups: IndexArray
    outcomes: FloatArray
    before: FloatArray
    ranks: FloatArray
    ladder: FloatArray
    left: NDArray[np.uint16]
    right: NDArray[np.uint16]

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, read_only(getattr(self, one.name)))

    def __len__(self) -> int:
        return int(self.lengths.size)

    @cached_property
    def offsets(self) -> IndexArray:
        """Where the rows of each step begin, and the end of the last."""
        alive = [np.count_nonzero(self.lengths > t) for t in range(len(self.ladder))]
        return np.cumsum([0, *alive])

    def rows_at(self, t: int) -> tuple[slice, IndexArray]:
        """The rows of step t, and the positions of their episodes."""
        return slice(*self.offsets[t : t + 2].tolist()), np.flatnonzero(self.lengths > t)

    def law(self, t: int, rows: IndexArray, curve: FloatArray, n: int) -> RehearsedLaw:
        """The law of these rows of step t; see `RehearsedLaw` for the curve."""
        left, right = (side[rows] / _WHOLE for side in (self.left, self.right))
        return RehearsedLaw(self.ladder[t], left, right, self.ranks[rows], curve, n)

    def to_arrays(self) -> dict[str, AnyArray]:
        """The rehearsal as arrays for the model file."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return found | {name: found[name].astype(np.int64) for name in ("lengths", "groups")}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, AnyArray], *, horizon: int, n_groups: int, most: int
    ) -> Rehearsal:
        """The rehearsal that `to_arrays` wrote, of at most so many episodes, checked."""
        lengths, groups = (flat_array(arrays, name, np.int64) for name in ("lengths", "groups"))
        n, ladder = lengths.size, arrays["ladder"]
        _require(0 < n <= most, f"1 to {most} episodes")
        _require(lengths.min() >= 1 and lengths.max() <= horizon, f"1 to {horizon} steps each")
        _require(groups.size == n, "a group for each episode")
        _require(groups.min() >= 0 and groups.max() < n_groups, f"groups below {n_groups}")
        _require(
            ladder.dtype == np.float64 and ladder.ndim == 2 and len(ladder) == horizon,
            f"a ladder of numbers for each of {horizon} steps",
        )
        width = ladder.shape[1]
        _require(width > 0 and bool(np.all(np.abs(ladder) <= _LARGEST)), "a ladder of numbers")
        _require(bool(np.all(ladder[:, 1:] >= ladder[:, :-1])), "a ladder that rises")
        rows = int(lengths.sum())
        shapes: dict[str, tuple[int, ...]] = {"outcomes": (n,)}
        shapes |= dict.fromkeys(("before", "ranks"), (rows,))
        shapes |= dict.fromkeys(("left", "right"), (rows, width))
        for name, shape in shapes.items():
            kind = np.dtype(np.uint16 if name in ("left", "right") else np.float64)
            fits = arrays[name].shape == shape and arrays[name].dtype == kind
            _require(fits, f"{name} of type {kind} and shape {shape}")
        ranks, outcomes = arrays["ranks"], arrays["outcomes"]
        inside = np.isnan(ranks) | ((ranks >= 0.0) & (ranks <= 1.0))
        _require(bool(inside.all()), "ranks from 0 to 1")
        _require(bool(np.isfinite(outcomes).all()), "outcomes that are finite")
        rest = {name: arrays[name] for name in ("ladder", *shapes)}
        return cls(lengths=lengths.astype(np.intp), groups=groups.astype(np.intp), **rest)


def as_shares(limits: FloatArray) -> NDArray[np.uint16]:
    """Limits from 0 to 1 as whole 65,535ths."""
    return np.rint(limits * _WHOLE).astype(np.uint16)


def _require(rule: bool, what: str) -> None:
    if not rule:
        raise ModelFileError(f"the rehearsal needs {what}")
