"""The data that a fit keeps about the runs it learned from, for precedents and path bands.

Precedents are the recorded runs that count most for p. A path band is a range for every later step
of a run. See methods M28 and M22 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME, snap
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.models._stored import flat_array

# A table may always have this many cells; beyond that, this many per recorded step.
_ALWAYS = 10_000_000
_PER_STEP = 64


@dataclass(frozen=True, eq=False)
class RecordedRuns:
    """The data that a fit keeps about the episodes it learned from.

    Training rows refer to episodes by their position here. Precedents are the recorded runs that
    count most for p; paths are the values of the behavior at every step.

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
        """The ids, outcomes and paths of these episodes, as far as they are to be kept.

        ``precedents`` says whether to keep ids, and ``paths`` whether to keep the behavior at every
        step.
        """
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
        """(episodes, steps + 1): the behavior before every step; after the end, the outcome.

        There are as many steps as the longest run has.
        """
        return self.paths_until(2**62)

    def paths_until(self, most: int) -> FloatArray:
        """The `paths`, up to step ``most`` if the longest run is longer.

        An episode that ended earlier has its outcome in the remaining columns.
        """
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
    """Raise an `InputError` if a table with one row per run and ``steps`` columns wastes memory.

    A file may contain one run of a million steps and many runs of a single step. A table that gives
    each of these runs a million cells would take far more memory than the file.
    """
    cells, taken = lengths.size * steps, int(np.sum(lengths))
    if cells > max(_ALWAYS, _PER_STEP * taken):
        raise InputError(
            f"the lengths of {lengths.size:,} episodes with {taken:,} steps in total are too "
            f"uneven for a table of {steps:,} steps each, which would be nearly empty; leave out "
            "the few longest episodes, and declare a horizon that fits the others"
        )
