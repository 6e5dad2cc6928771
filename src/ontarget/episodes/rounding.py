"""Who would change sides by rounding, and which outcomes dwarf the others (method M1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from ontarget._grid import LARGEST_OUTCOME, decimals_of, grid_of, next_point, snap, typical_size
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.store import Store
from ontarget.errors import TargetError
from ontarget.goal import Goal
from ontarget.target import Target

# The values of a behavior, step by step: positions of the runs that are going, and their values.
Path: TypeAlias = Callable[[], Iterator[tuple[IndexArray, FloatArray]]]

# By how much a sum of n numbers may be off, as a part of n times the sum of their sizes.
_UNIT: Final = 2.0**-53
# The same for numbers that were stored in float32.
_UNIT32: Final = 2.0**-23
_DWARFED: Final = 1e6
_FINE: Final = 1e-4  # of a typical outcome
_NAMED: Final = 3  # episodes that a message names


@dataclass(frozen=True, eq=False)
class Unrounded:
    """Outcomes of recorded runs before they are rounded, and how exact they are.

    ``path`` gives the behavior before each recorded step. ``known`` says which runs have reached
    their end. Runs without ``ids`` are named by their outcomes.
    """

    outcomes: FloatArray
    lengths: IndexArray
    known: BoolArray
    path: Path
    ids: AnyArray | None = None

    @cached_property
    def slack(self) -> FloatArray:
        """What float32 cannot tell apart in each outcome, (runs,)."""
        sizes, had = np.abs(self.outcomes), np.zeros(self.outcomes.size)
        for alive, now in self.path():
            started = np.nan_to_num(now)
            sizes[alive] += np.abs(started - had[alive])
            had[alive] = started
        sizes += np.abs(self.outcomes - had)
        return _UNIT32 * np.maximum(sizes, typical_size(self.outcomes))

    def changed(self, target: Target, grid: float) -> BoolArray:
        """Whether rounding changes the side of each run by more than the noise of its sum."""
        raw = self.outcomes
        differs: BoolArray = (target.contains(raw) != target.contains(raw, grid)) & self.known
        if not differs.any():
            return differs
        ends = _ends(target)
        moved = np.array([next_point(end, grid)[1] for end in ends])
        apart = np.abs(raw[:, None] - np.array(ends))
        noise = 4.0 * _UNIT / _UNIT32 * self.lengths * self.slack
        allowed = np.where(moved[np.argmin(apart, axis=1)], noise, self.slack)
        found: BoolArray = differs & (apart.min(axis=1) > allowed)
        return found

    def named(self, some: IndexArray) -> str:
        """These runs in words: the first few of them."""
        shown = [f"{self.outcomes[i]:.12g}" for i in some[:_NAMED]]
        if self.ids is not None:
            shown = [
                f"episode {self.ids[i]!s} ({value})"
                for i, value in zip(some[:_NAMED].tolist(), shown, strict=True)
            ]
        more = f" and {some.size - _NAMED:,} more" if some.size > _NAMED else ""
        return ", ".join(shown) + more


def check_sides(runs: Unrounded, target: Target, grid: float, *, rounded: bool = False) -> None:
    """Raise a `TargetError` if rounding to the grid changes whether a run meets the target (M1)."""
    changed = runs.changed(target, grid)
    if rounded:
        coarse = grid > _FINE * typical_size(runs.outcomes)
        for end in _ends(target):
            if coarse or next_point(end, grid)[1]:
                changed |= np.abs(runs.outcomes - end) < grid
    if changed.any():
        _refuse(f"{target}", {"": runs}, {"": grid}, changed)


def _ends(target: Target) -> list[float]:
    """The finite bounds of a target."""
    return [end for c in target for end in (c.lower, c.upper) if math.isfinite(end)]


def check_goal_sides(runs: Mapping[str, Unrounded], goal: Goal, grids: Mapping[str, float]) -> None:
    """Raise a `TargetError` if rounding changes whether a run meets the goal (M1)."""
    raw = {name: runs[name].outcomes for name in goal.names}
    differs = goal.contains(raw) != goal.contains(raw, grids)
    if not differs.any():
        return
    if goal.is_function:
        # What it compares is not known, so it is asked which outcomes rounding moves.
        each = [np.abs(raw[n] - snap(raw[n], grids[n])) > runs[n].slack for n in goal.names]
    else:
        each = [runs[name].changed(one, grids[name]) for box in goal.boxes for name, one in box]
    changed = differs & np.any(each, axis=0) & runs[goal.names[0]].known
    if changed.any():
        _refuse(f"{goal}", {name: runs[name] for name in goal.names}, grids, changed)


def _refuse(
    wanted: str, runs: Mapping[str, Unrounded], grids: Mapping[str, float], changed: BoolArray
) -> None:
    """Say whose side rounding would change, and what to do."""
    which = np.flatnonzero(changed)
    units = ", ".join(f"{grids[name]:g}" + f" ({name})" * bool(name) for name in runs)
    named = "; ".join(f"{name} " * bool(name) + one.named(which) for name, one in runs.items())
    huge = [found for one in runs.values() if (found := outliers_in_words(one))]
    remedy = (
        "choose bounds farther from these outcomes; or fit again on runs with as many decimals as "
        "these, and without any whose outcome dwarfs the others (`look` names them)"
    )
    raise TargetError(
        f"outcomes are rounded to multiples of {units}, and that would change whether "
        f"{which.size:,} of {changed.size:,} recorded runs meet the target {wanted}: {named}; "
        f"{huge[0] if huge else remedy}"
    )


def outliers_in_words(runs: Unrounded) -> str:
    """Which outcomes dwarf the others, and what to do about it; empty if none does."""
    sizes, typical = np.abs(runs.outcomes), typical_size(runs.outcomes)
    found = np.flatnonzero(sizes >= _DWARFED * typical)
    if not found.size:
        return ""
    found = found[np.argsort(-sizes[found], kind="stable")]
    return (
        f"{found.size:,} of {sizes.size:,} outcomes are at least a million times as large as the "
        f"typical one ({typical:.3g}): {runs.named(found)}; check the rewards of these runs, and "
        "leave the runs out if the rewards are wrong"
    )


def own_grid(store: Store, index: IndexArray | None) -> float:
    """The grid that the episodes at these positions, or all, have by themselves (M1)."""
    chosen = slice(None) if index is None else index
    outcomes, lengths, behavior = store.outcomes[chosen], store.lengths[chosen], store.behavior
    kind, longest = behavior.spec.partition(":")[0], int(lengths.max())

    def values() -> Iterator[FloatArray]:
        """The numbers that the behavior is computed from, step by step, as they were recorded."""
        recorded = store.rewards
        if recorded is None:  # a column: the last value of a run is its outcome
            yield outcomes
            recorded = store.before
        for t in range(longest):
            yield recorded[store.rows(t, index)[0]]

    if kind == "first":
        return grid_of(outcomes, decimals=decimals_of([outcomes]))
    if behavior.told or kind in ("last", "max", "min"):  # nothing is added up
        decimals = decimals_of(values())
        lost = 0.0 if decimals is None else _beyond(decimals, values())
        return grid_of(outcomes, decimals=decimals, noise=4.0 * lost)
    if kind == "share" or store.rewards is None:
        return grid_of(outcomes)
    decimals = decimals_of(values()) if kind == "sum" else None
    sizes, missed = np.zeros(lengths.size), np.zeros(lengths.size)
    for t in range(longest):
        rows, alive = store.rows(t, index)
        earned = store.rewards[rows]
        sizes[alive] += np.abs(earned)
        if decimals is not None:
            missed[alive] += np.abs(earned - snap(earned, float(f"1e{-decimals}")))
    lost = float(missed.max())
    if decimals is not None and 4.0 * lost > 10.0**-decimals:
        decimals, lost = None, 0.0  # float32 has lost the decimals
    # A sum is off by up to this many times the last bit; a running mean forgets its errors.
    steps = 8 if kind == "mean" else store.horizon if store.horizon_declared else longest
    noise = 4.0 * steps * 2.0**-53 * min(float(sizes.max()), LARGEST_OUTCOME)
    return grid_of(outcomes, decimals=decimals, noise=max(noise, 4.0 * lost))


def _beyond(decimals: int, pieces: Iterable[FloatArray]) -> float:
    """How far these numbers are at most from having so many decimals, as float32 leaves them."""
    unit = float(f"1e{-decimals}")
    far = (np.fmax.reduce(np.abs(values - snap(values, unit)), initial=0.0) for values in pieces)
    return float(max(far, default=0.0))
