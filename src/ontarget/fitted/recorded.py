"""The learning episodes that a monitor keeps, and predictions for them as if they were new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME, snap
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.rounding import Unrounded
from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.fitted.curves import without_one
from ontarget.models.stored import flat_array

# A table may always have this many cells; beyond that, this many per recorded step.
_ALWAYS = 10_000_000
_PER_STEP = 64


@dataclass(frozen=True, eq=False)
class RecordedRuns:
    """The data that a fit keeps about the episodes it learned from.

    Attributes
    ----------
    ids
        The id of each episode; None if the fit keeps no precedents.
    outcomes
        The outcome of each episode, rounded to the grid; None if the fit keeps neither precedents
        nor paths.
    lengths
        The number of steps of each episode; None if the fit keeps no paths.
    before
        The behavior before each step, rounded to the grid: first step 0 of all episodes, then step
        1 of the episodes that have one, and so on; None if the fit keeps no paths.
    """

    ids: AnyArray | None = None
    outcomes: FloatArray | None = None
    lengths: IndexArray | None = None
    before: FloatArray | None = None

    @classmethod
    def of(cls, learned: Episodes, *, precedents: bool, paths: bool) -> RecordedRuns:
        """The ids, outcomes and paths of these episodes, as far as they are to be kept."""
        store = learned.compact()._store if paths else None
        return cls(
            ids=_plain_ids(learned.ids) if precedents else None,
            outcomes=learned.outcomes if precedents or paths else None,
            lengths=None if store is None else read_only(store.lengths),
            before=None if store is None else read_only(snap(store.before, learned.grid)),
        )

    def check_paths(self) -> None:
        """Raise an `InputError` if the fit did not keep the behavior at every step of its runs."""
        if self.before is None:
            raise InputError(
                "this monitor does not keep the paths of the runs it learned from; fit it with ",
                Argument("paths", True),
            )

    @cached_property
    def paths(self) -> FloatArray:
        """(episodes, steps + 1): the behavior before every step; after the end, the outcome."""
        return self.paths_until(2**62)

    def paths_until(self, most: int) -> FloatArray:
        """The `paths`, up to step ``most`` if the longest run is longer."""
        self.check_paths()
        assert self.lengths is not None
        assert self.before is not None
        assert self.outcomes is not None
        longest = int(self.lengths.max())
        steps = min(longest, most)
        check_room(self.lengths, steps)
        found = np.repeat(self.outcomes[:, None], steps + 1, axis=1)
        start = 0
        for t in range(min(longest, steps + 1)):
            alive = np.flatnonzero(self.lengths > t)
            found[alive, t] = self.before[start : start + alive.size]
            start += alive.size
        return read_only(found)

    def to_arrays(self) -> dict[str, AnyArray]:
        """The recorded ids, outcomes and paths as flat arrays for the model file."""
        arrays: dict[str, AnyArray] = {}
        if self.ids is not None and self.ids.dtype.kind == "i":
            arrays["ids"] = self.ids
        elif self.ids is not None:
            texts = [text.encode() for text in self.ids.tolist()]
            arrays["id_text"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
            arrays["id_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        if self.outcomes is not None:
            arrays["outcomes"] = self.outcomes
        if self.lengths is not None and self.before is not None:
            arrays |= {"lengths": self.lengths.astype(np.int64), "before": self.before}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], *, n: int, horizon: int) -> RecordedRuns:
        """The runs that `to_arrays` wrote; a `ModelFileError` if the arrays are damaged."""
        ids, outcomes, lengths, before = _ids(arrays, n), None, None, None
        if "outcomes" in arrays:
            outcomes = flat_array(arrays, "outcomes", np.float64)
            sized = outcomes.size == n and bool((np.abs(outcomes) <= LARGEST_OUTCOME).all())
            _require(sized, "outcomes")
        if "lengths" in arrays:
            stored = flat_array(arrays, "lengths", np.int64)
            _require(stored.size == n and outcomes is not None, "lengths")
            _require(bool(((stored >= 1) & (stored <= horizon)).all()), f"1 to {horizon} steps")
            before = flat_array(arrays, "before", np.float64)
            _require(before.size == int(stored.sum()), "a behavior before each step")
            small = np.abs(before) <= LARGEST_OUTCOME  # NaN is not, and may stand before step 0
            known = bool(small[n:].all()) and bool((small[:n] | np.isnan(before[:n])).all())
            _require(known, "finite numbers up to 1e300 for 'before'")
            lengths = read_only(stored.astype(np.intp))
        _require(ids is None or outcomes is not None, "outcomes")
        return cls(ids, outcomes, lengths, before)


def _plain_ids(ids: AnyArray) -> AnyArray:
    """The ids as 64-bit whole numbers if all of them fit, otherwise as text."""
    if ids.dtype.kind in "iu" and (not ids.size or int(ids.max()) < 2**63):
        return read_only(ids.astype(np.int64))
    return _texts([str(one) for one in ids.tolist()])


def _texts(found: list[str]) -> AnyArray:
    """An array of texts of varying length, which takes no more memory than the texts need."""
    return read_only(np.array(found, dtype=np.dtypes.StringDType()))


def _ids(arrays: Mapping[str, AnyArray], n: int) -> AnyArray | None:
    if "ids" in arrays:
        ids = flat_array(arrays, "ids", np.int64)
        _require(ids.size == n, "an id for each")
        return ids
    if "id_ends" not in arrays:
        return None
    text, ends = flat_array(arrays, "id_text", np.uint8), flat_array(arrays, "id_ends", np.int64)
    rising = ends.size == n and ends[0] >= 0 and bool((ends[1:] >= ends[:-1]).all())
    _require(rising and ends[-1] == text.size, "an id for each")
    data, starts = text.tobytes(), [0, *ends[:-1].tolist()]
    pairs = zip(starts, ends.tolist(), strict=True)
    return _texts([data[a:b].decode(errors="replace") for a, b in pairs])


def _require(rule: bool, what: str) -> None:
    if not rule:
        raise ModelFileError(f"the learning episodes need {what}")


def check_room(lengths: Any, steps: int) -> None:
    """Raise an `InputError` if a table with one row per run and ``steps`` columns wastes memory."""
    # A file may contain one run of a million steps and many runs of a single step. A table that
    # gives each of these runs a million cells would take far more memory than the file.
    cells, taken = lengths.size * steps, int(np.sum(lengths))
    if cells > max(_ALWAYS, _PER_STEP * taken):
        raise InputError(
            f"the lengths of {lengths.size:,} episodes with {taken:,} steps in total are too "
            f"uneven for a table of {steps:,} steps each, which would be nearly empty; leave out "
            "the few longest episodes, and declare a horizon that fits the others"
        )


MOST_EPISODES = 1_500

_WHOLE = 65_535  # probabilities are stored in two bytes each


@dataclass(frozen=True, eq=False)
class RehearsedLaw:
    """Predicted distributions of some learning episodes at one step, stored at a list of values.

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
        """(rows, values), twice: P(remainder < y) and P(remainder <= y) at each row's values y."""
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
    """Learning episodes, with predictions by models that did not learn from them (M17, M16).

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
        """Where the rows of each step begin in arrays of all rows, and last, the number of rows."""
        return _offsets(self.lengths, self.steps)

    def rows_at(self, place: int) -> tuple[slice, IndexArray]:
        """The rows of one rehearsed step, and the position of the episode of each row."""
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
        """The predicted distributions of these rows (learning episodes) at one rehearsed step."""
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
        """The rehearsal (predictions for learning episodes), from the arrays of `to_arrays`."""
        lengths, groups, steps = (
            flat_array(arrays, name, np.int64) for name in ("lengths", "groups", "steps")
        )
        n, ladder, most = lengths.size, arrays["ladder"], min(most, MOST_EPISODES)
        _need(0 < n <= most, f"1 to {most} episodes")
        _need(lengths.min() >= 1 and lengths.max() <= horizon, f"1 to {horizon} steps each")
        _need(groups.size == n, "a group for each episode")
        _need(groups.min() >= 0 and groups.max() < n_groups, f"groups below {n_groups}")
        _need(steps.size > 0 and steps[0] >= 0 and steps[-1] < horizon, f"steps below {horizon}")
        _need(bool(np.all(steps[1:] > steps[:-1])), "steps that rise")
        _need(
            ladder.dtype == np.float64 and ladder.ndim == 2 and len(ladder) == steps.size,
            f"a ladder of numbers for each of {steps.size} steps",
        )
        width = ladder.shape[1]
        _need(width > 0 and bool(np.all(np.abs(ladder) <= LARGEST_OUTCOME)), "a ladder of numbers")
        _need(bool(np.all(ladder[:, 1:] >= ladder[:, :-1])), "a ladder that rises")
        rows = int(_offsets(lengths, steps)[-1])
        shapes: dict[str, tuple[int, ...]] = {"outcomes": (n,)}
        shapes |= dict.fromkeys(("before", "ranks"), (rows,))
        shapes |= {"left": (rows if arrays["left"].size else 0, width), "right": (rows, width)}
        for name, shape in shapes.items():
            kind = np.dtype(np.uint16 if name in ("left", "right") else np.float64)
            fits = arrays[name].shape == shape and arrays[name].dtype == kind
            _need(fits, f"{name} of type {kind} and shape {shape}")
        ranks, outcomes = arrays["ranks"], arrays["outcomes"]
        inside = np.isnan(ranks) | ((ranks >= 0.0) & (ranks <= 1.0))
        _need(bool(inside.all()), "ranks from 0 to 1")
        _need(bool((np.abs(outcomes) <= LARGEST_OUTCOME).all()), "outcomes up to 1e300 in size")
        rest = {name: arrays[name] for name in ("ladder", *shapes)}
        whole = [one.astype(np.intp) for one in (lengths, groups, steps)]
        return cls(lengths=whole[0], groups=whole[1], steps=whole[2], **rest)


def _offsets(lengths: IndexArray, steps: IndexArray) -> IndexArray:
    """Where the rows of each step begin, if every episode has one row at each step it reaches."""
    over = np.searchsorted(np.sort(lengths), steps, side="right")
    return np.concatenate([[0], np.cumsum(lengths.size - over)]).astype(np.intp)


def as_shares(limits: FloatArray) -> NDArray[np.uint16]:
    """Probabilities from 0 to 1, scaled and rounded to whole numbers from 0 to 65,535."""
    return np.rint(limits * _WHOLE).astype(np.uint16)


def _need(rule: bool, what: str) -> None:
    if not rule:
        raise ModelFileError(f"the rehearsal needs {what}")
