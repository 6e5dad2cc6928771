"""The rehearsal: predictions for learning episodes, each as if it were a new run.

The predictions for an episode come from models that did not learn from that episode. See methods
M16 and M17 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes.rounding import Unrounded
from ontarget.errors import ModelFileError
from ontarget.fitted._curves import without_one
from ontarget.models._stored import flat_array

MOST_EPISODES = 1_500

_WHOLE = 65_535  # probabilities are stored in two bytes each


@dataclass(frozen=True, eq=False)
class RehearsedLaw:
    """Predicted distributions of some learning episodes at one step, stored at a list of values.

    The list of values, the *ladder*, holds remainders (what a run may still earn) in ascending
    order. Between two of its values a distribution function rises linearly; at a value it may jump.
    The object has the methods of a model. The only feature that it reads is the position of an
    episode in this object.

    Attributes
    ----------
    ladder
        The values, ascending; the last ones may be equal.
    left, right
        (episodes, values): P(remainder < value) and P(remainder <= value).
    ranks
        Where each episode's own outcome falls in its predicted distribution, from 0 to 1.
    curve, n
        The step's calibration curve, and the number of episodes that it was learned from. With a
        curve, `cdf_limits` gives calibrated probabilities, with the episode's own rank left out of
        the curve. If the curve is empty, probabilities are not calibrated.
    """

    ladder: FloatArray
    left: FloatArray
    right: FloatArray
    ranks: FloatArray
    curve: FloatArray
    n: int

    def cdf_limits(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(rows, values), twice: P(remainder < y) and P(remainder <= y) at each row's values y.

        The remainder is what the run still has to earn. X has one column: the position of the row's
        episode.
        """
        rows = X[:, :1].astype(np.intp)
        last = self.ladder.size - 1
        above = np.searchsorted(self.ladder, y, side="left")
        here, below = np.minimum(above, last), np.maximum(above - 1, 0)
        on = self.ladder[here] == y
        gap = np.where(here > below, self.ladder[here] - self.ladder[below], 1.0)
        part = np.clip((y - self.ladder[below]) / np.where(gap > 0.0, gap, 1.0), 0.0, 1.0)
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
    """Learning episodes, with predictions by models that did not learn from them.

    For any target, these predictions give the p that each learning episode would have had as a new
    run. The target map, which corrects p for one target, is learned from these p (method M17 in
    docs/methods.md). If there are no assure episodes (held-out runs that back promises), alarm
    thresholds come from these p too; the false-alarm rates are then measured, not promised (method
    M16).

    Attributes
    ----------
    lengths, groups, outcomes
        Each episode's number of steps, the number of its group, and its outcome before it is
        rounded. Episodes are in the order of a hash of their ids.
    steps
        The steps that were rehearsed (that have such predictions), ascending.
    before
        The behavior before each row's step. The rows of the first rehearsed step come first, in the
        order of the episodes. Then come the rows of the second rehearsed step, for the episodes
        that reach it, and so on.
    ranks
        Where the row's own outcome falls in its predicted distribution; NaN if the row has none.
    ladder
        (steps, values): the remainders (what a run may still earn), in the scale of the models, at
        which the predicted distributions are stored.
    left, right
        (rows, values): P(remainder < value) and P(remainder <= value), stored as whole numbers from
        0 to 65,535. If both are equal everywhere, ``left`` has no rows.
    """

    lengths: IndexArray
    groups: IndexArray
    outcomes: FloatArray
    steps: IndexArray
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
        """Where the rows of each step begin in arrays of all rows, and last, the number of rows.

        Only rehearsed steps have rows: those at which learning episodes are predicted as if new.
        """
        return _offsets(self.lengths, self.steps)

    def rows_at(self, place: int) -> tuple[slice, IndexArray]:
        """The rows of one rehearsed step, and the position of the episode of each row.

        Rehearsed steps are those at which learning episodes are predicted as if they were new runs.
        ``place`` is the position of the step among these steps.
        """
        alive = np.flatnonzero(self.lengths > self.steps[place])
        return slice(*self.offsets[place : place + 2].tolist()), alive

    def unrounded(self, most: int = MOST_EPISODES) -> Unrounded:
        """The outcomes of the first learning episodes, at most ``most``, before rounding."""

        def path() -> Iterator[tuple[IndexArray, FloatArray]]:
            for place in range(self.steps.size):
                rows, alive = self.rows_at(place)
                yield alive[alive < most], self.before[rows][alive < most]

        outcomes, lengths = self.outcomes[:most], self.lengths[:most]
        return Unrounded(outcomes, lengths, np.ones(lengths.size, dtype=np.bool_), path)

    def law(self, place: int, rows: IndexArray, curve: FloatArray, n: int) -> RehearsedLaw:
        """The predicted distributions of these rows (learning episodes) at one rehearsed step.

        At rehearsed steps, learning episodes are predicted as if they were new. ``place`` is the
        position of the step among these steps. ``curve`` calibrates the distributions; n is the
        number of episodes that it was learned from. See `RehearsedLaw`.
        """
        right = self.right[rows] / _WHOLE
        left = self.left[rows] / _WHOLE if len(self.left) else right
        return RehearsedLaw(self.ladder[place], left, right, self.ranks[rows], curve, n)

    def to_arrays(self) -> dict[str, AnyArray]:
        """The rehearsal (predictions for learning episodes) as arrays for the model file."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return found | {
            name: found[name].astype(np.int64) for name in ("lengths", "groups", "steps")
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, AnyArray], *, horizon: int, n_groups: int, most: int
    ) -> Rehearsal:
        """The rehearsal (predictions for learning episodes), from the arrays of `to_arrays`.

        A `ModelFileError` is raised if the arrays are damaged.
        """
        lengths, groups, steps = (
            flat_array(arrays, name, np.int64) for name in ("lengths", "groups", "steps")
        )
        n, ladder, most = lengths.size, arrays["ladder"], min(most, MOST_EPISODES)
        _require(0 < n <= most, f"1 to {most} episodes")
        _require(lengths.min() >= 1 and lengths.max() <= horizon, f"1 to {horizon} steps each")
        _require(groups.size == n, "a group for each episode")
        _require(groups.min() >= 0 and groups.max() < n_groups, f"groups below {n_groups}")
        _require(steps.size > 0 and steps[0] >= 0 and steps[-1] < horizon, f"steps below {horizon}")
        _require(bool(np.all(steps[1:] > steps[:-1])), "steps that rise")
        _require(
            ladder.dtype == np.float64 and ladder.ndim == 2 and len(ladder) == steps.size,
            f"a ladder of numbers for each of {steps.size} steps",
        )
        width = ladder.shape[1]
        _require(
            width > 0 and bool(np.all(np.abs(ladder) <= LARGEST_OUTCOME)), "a ladder of numbers"
        )
        _require(bool(np.all(ladder[:, 1:] >= ladder[:, :-1])), "a ladder that rises")
        rows = int(_offsets(lengths, steps)[-1])
        shapes: dict[str, tuple[int, ...]] = {"outcomes": (n,)}
        shapes |= dict.fromkeys(("before", "ranks"), (rows,))
        shapes |= {"left": (rows if arrays["left"].size else 0, width), "right": (rows, width)}
        for name, shape in shapes.items():
            kind = np.dtype(np.uint16 if name in ("left", "right") else np.float64)
            fits = arrays[name].shape == shape and arrays[name].dtype == kind
            _require(fits, f"{name} of type {kind} and shape {shape}")
        ranks, outcomes = arrays["ranks"], arrays["outcomes"]
        inside = np.isnan(ranks) | ((ranks >= 0.0) & (ranks <= 1.0))
        _require(bool(inside.all()), "ranks from 0 to 1")
        _require(bool((np.abs(outcomes) <= LARGEST_OUTCOME).all()), "outcomes up to 1e300 in size")
        rest = {name: arrays[name] for name in ("ladder", *shapes)}
        whole = [one.astype(np.intp) for one in (lengths, groups, steps)]
        return cls(lengths=whole[0], groups=whole[1], steps=whole[2], **rest)


def _offsets(lengths: IndexArray, steps: IndexArray) -> IndexArray:
    """Where the rows of each step begin, if every episode has one row at each step it reaches.

    ``lengths`` are the episodes' numbers of steps. The last entry of the result is the number of
    rows.
    """
    over = np.searchsorted(np.sort(lengths), steps, side="right")
    return np.concatenate([[0], np.cumsum(lengths.size - over)]).astype(np.intp)


def as_shares(limits: FloatArray) -> NDArray[np.uint16]:
    """Probabilities from 0 to 1, scaled and rounded to whole numbers from 0 to 65,535."""
    return np.rint(limits * _WHOLE).astype(np.uint16)


def _require(rule: bool, what: str) -> None:
    if not rule:
        raise ModelFileError(f"the rehearsal needs {what}")
