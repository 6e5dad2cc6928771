"""Fits one block (range of steps that share a model): a pure function from arrays to arrays."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.episodes import Episodes, Step, Translation
from ontarget.fitted.law import inputs_of
from ontarget.fitted.paths.gains import Cells, Gains
from ontarget.models.entry import fit_model
from ontarget.models.guided.run import RunGuide

# A model that is not a forest is fitted this many times more, each time without one fold, so that
# every training episode gets a prediction by a model that has not seen it.
_FOLDS = 5
PATHS = "paths"  # the name, among the parts of a fit, of rows that ask about their later path
_MOST_NUMBERS = 2_000_000  # that a model gets in one call
_PATH_ROWS = 128  # per call: each needs some ten kilobytes
# A reward that at least this share of all steps earns is the pace of the runs; see `pace_of`.
_NEARLY_ALL = 0.9
# The last steps of a run that ends early, as a share of the horizon, and how much more often their
# rows are drawn than others.
_SOON, _TIMES = 0.04, 10.0
# The most rows, roughly, that the guide of whole runs learns from, and what it learns from.
_GUIDE_ROWS, _LEARNED = 262_144, ("X", "y", "keys")


@dataclass(frozen=True)
class StepRows:
    """Rows of some episodes at one step: the inputs of a model, and the values to predict."""

    step: int
    X: FloatArray
    y: FloatArray  # the remainder in the models' scale (M18); or (n, m): m values to ask about
    keys: KeyArray
    index: IndexArray  # each row's position among the episodes of its part
    weight: FloatArray | None = None  # how much a training row counts; None if all count the same

    def __len__(self) -> int:
        return int(self.index.size)

    def take(self, which: IndexArray) -> StepRows:
        """The rows at these positions."""
        weight = None if self.weight is None else self.weight[which]
        return StepRows(
            self.step, self.X[which], self.y[which], self.keys[which], self.index[which], weight
        )


@dataclass(frozen=True)
class BlockTask:
    """Everything that is needed to fit one block (range of steps that share a model).

    ``train`` has the rows to learn from. ``asked`` has the rows that the model must then predict,
    by the name of their part of the split. Rows of the parts in ``own`` belong to training
    episodes; they are predicted by what the model learned from other episodes only. The same holds
    for the rows under the name `PATHS`. Their predictions use ``gains``, the recorded paths of all
    episodes.
    """

    index: int
    model: Any
    categorical: tuple[int, ...]
    train: tuple[StepRows, ...]
    asked: dict[str, tuple[StepRows, ...]]
    gains: Gains | None = None


# P(remainder < y) and P(remainder <= y) at each row's values y; and the same by step.
Sides: TypeAlias = tuple[FloatArray, FloatArray]
Limits: TypeAlias = dict[int, Sides]


@dataclass(frozen=True)
class BlockResult:
    """A fitted block (range of steps): its model, and its predictions for the task's rows."""

    model: Any
    limits: dict[str, Limits]


def fit_block(task: BlockTask) -> BlockResult:
    """The fitted block: the model of a range of steps, and its predictions."""
    if not task.train:
        return BlockResult(None, {part: {} for part in task.asked})
    asked = {part: steps for part, steps in task.asked.items() if part != PATHS}
    unfitted = copy.deepcopy(task.model) if asked else task.model
    model = _fitted(task, task.model, task.train)
    _lead_to_episodes(model, task.train)
    found = iter(
        _own_limits(task, [rows for one in asked.values() for rows in one], unfitted, model)
    )
    limits = {part: {rows.step: next(found) for rows in one} for part, one in asked.items()}
    if task.gains is not None:
        learned = episodes_of(task.train)
        limits[PATHS] = {
            rows.step: _path_limits(model, rows, task.gains, learned) for rows in task.asked[PATHS]
        }
    return BlockResult(model, limits)


def _fitted(task: BlockTask, model: Any, train: Sequence[StepRows]) -> Any:
    return fit_model(
        model,
        np.concatenate([rows.X for rows in train]),
        np.concatenate([rows.y for rows in train]),
        sample_weight=_weights(train),
        ids=np.concatenate([rows.keys for rows in train]),
        steps=np.concatenate([np.full(len(rows), rows.step) for rows in train]),
        categorical=task.categorical,
    )


def _weights(train: Sequence[StepRows]) -> FloatArray | None:
    if any(rows.weight is None for rows in train):
        return None
    return np.concatenate([rows.weight for rows in train if rows.weight is not None])


def _lead_to_episodes(model: Any, train: Sequence[StepRows]) -> None:
    """Tell a forest the episode of each training row, as a position in its part of the split."""
    if not hasattr(model, "number_episodes"):
        return
    keys, index = (
        np.concatenate([getattr(rows, name) for rows in train]) for name in ("keys", "index")
    )
    # A model numbers its episodes in the order of the ids it was given, which are their keys.
    model.number_episodes(index[np.unique(keys, return_index=True)[1]])


def _own_limits(
    task: BlockTask, steps: Sequence[StepRows], unfitted: Any, model: Any
) -> list[Sides]:
    """Predictions for training episodes, by parts of the model that did not learn from them."""
    if hasattr(model, "out_of_bag_limits"):
        return _out_of_bag(model, steps, episodes_of(task.train))
    limits = [tuple(np.full((2, *rows.y.shape), np.nan)) for rows in steps]
    for fold in range(_FOLDS if steps else 0):
        train = [_of_fold(rows, fold, inside=False) for rows in task.train]
        if not any(len(rows) for rows in train):
            continue
        twin = _fitted(task, copy.deepcopy(unfitted), [rows for rows in train if len(rows)])
        for rows, found in zip(steps, limits, strict=True):
            held_out = _of_fold(rows, fold, inside=True)
            if len(held_out):
                here = fold_of(rows.keys) == fold
                found[0][here], found[1][here] = twin.cdf_limits(held_out.X, held_out.y)
    return limits


def _out_of_bag(model: Any, steps: Sequence[StepRows], learned: KeyArray) -> list[Sides]:
    """Predictions by trees that never saw the episode, for many steps per call."""
    found: list[Sides] = []
    for some in _alike(steps):
        X, y, keys = (
            np.concatenate([getattr(rows, name) for rows in some]) for name in ("X", "y", "keys")
        )
        answers = honest_limits(model, X, y, keys, learned)
        ends = np.cumsum([len(rows) for rows in some])[:-1]
        left, right = (np.split(side, ends) for side in answers)
        found += zip(left, right, strict=True)
    return found


def _alike(steps: Sequence[StepRows]) -> Iterator[list[StepRows]]:
    """Groups of neighbouring steps whose rows can be predicted in one call."""
    for _, same in groupby(steps, key=lambda rows: rows.y.shape[1:]):
        some: list[StepRows] = []
        for rows in same:
            if some and sum(one.X.size + one.y.size for one in (*some, rows)) > _MOST_NUMBERS:
                yield some
                some = []
            some.append(rows)
        yield some


def episodes_of(steps: Sequence[StepRows]) -> KeyArray:
    """The keys (hashed ids) of the episodes with a row at any of these steps, without repeats."""
    return np.unique(np.concatenate([rows.keys for rows in steps]))


def honest_limits(
    model: Any, X: FloatArray, y: FloatArray, keys: KeyArray, learned: KeyArray
) -> Sides:
    """P(remainder < y) and P(remainder <= y) by trees that never saw the row's episode."""
    own = np.isin(keys, learned)
    if own.all():
        limits: Sides = model.out_of_bag_limits(X, y, keys)
        return limits
    left, right = np.empty(y.shape), np.empty(y.shape)
    if own.any():
        left[own], right[own] = model.out_of_bag_limits(X[own], y[own], keys[own])
    left[~own], right[~own] = model.cdf_limits(X[~own], y[~own])
    return left, right


def _path_limits(model: Any, rows: StepRows, gains: Gains, learned: KeyArray) -> Sides:
    """P(gain < own) and P(gain <= own) for each row, by trees that never saw its episode."""
    left, right = np.full(rows.y.shape, np.nan), np.full(rows.y.shape, np.nan)
    cells = Cells(Cells.of(gains.scales.size - rows.step).leads, np.arange(rows.y.shape[1] + 1))
    own = np.isin(rows.keys, learned)
    for honest in (True, False):
        which = np.flatnonzero(own == honest)
        for a in range(0, which.size, _PATH_ROWS):
            some = which[a : a + _PATH_ROWS]
            X = rows.X[some]
            found = model.out_of_bag_members(X, rows.keys[some]) if honest else model.members(X)
            samples = gains.samples(model, found)
            known = found.counts > 0
            sides = gains.limits(model, samples[known], rows.step, cells, rows.y[some[known]])
            left[some[known]], right[some[known]] = sides
    return left, right


def fold_of(keys: KeyArray) -> IndexArray:
    """(episodes,): the part (fold) in which each episode is held out, by a hash of its key."""
    return (keyed_hash(keys, 0, "fold") % np.uint64(_FOLDS)).astype(np.intp)


def _of_fold(rows: StepRows, fold: int, *, inside: bool) -> StepRows:
    return rows.take(np.flatnonzero((fold_of(rows.keys) == fold) == inside))


def thinned(steps: Sequence[StepRows], every: int, seed: int) -> tuple[StepRows, ...]:
    """The rows of only every n-th step of each episode, where n is ``every``."""
    found = []
    for rows in steps:
        phase = keyed_hash(rows.keys, seed, "phase") % np.uint64(every)
        kept = rows.take(np.flatnonzero((phase + np.uint64(rows.step)) % np.uint64(every) == 0))
        if len(kept):
            found.append(kept)
    return tuple(found)


def drawn_near_ends(
    steps: Sequence[StepRows], episodes: Episodes, most: int, seed: int
) -> tuple[StepRows, ...]:
    """About ``most`` of the rows, drawn at random so that rows before an early end are kept."""
    whole = sum(float(_wanted(episodes, rows.step, rows.index).sum()) for rows in steps)
    drawn = (_drawn(rows, episodes, most / whole, seed) for rows in steps)
    return tuple(rows for rows in drawn if len(rows))


def _wanted(episodes: Episodes, step: int, index: IndexArray) -> FloatArray:
    """How much more often than others the rows of these episodes at a step are drawn."""
    length = episodes.lengths[index]
    soon = length - step <= math.ceil(_SOON * episodes.horizon)
    return np.where(soon & (length < episodes.horizon), _TIMES, 1.0)


def _drawn(rows: StepRows, episodes: Episodes, share: float, seed: int) -> StepRows:
    chance = np.minimum(share * _wanted(episodes, rows.step, rows.index), 1.0)
    lots = keyed_hash(rows.keys, seed, f"drawn at {rows.step}") / 2.0**64
    kept = np.flatnonzero(lots < chance)
    return replace(rows.take(kept), weight=1.0 / chance[kept])


def learned_guide(episodes: Episodes, *, grid: float, pace: float, seed: int) -> RunGuide:
    """A model of the mean remainder for all steps of a run, from rows of all steps (M30)."""
    alive = (np.flatnonzero(episodes.lengths > t) for t in range(episodes.horizon))
    whole = sum(float(_wanted(episodes, t, index).sum()) for t, index in enumerate(alive))
    drawn = [
        _drawn(rows, episodes, _GUIDE_ROWS / whole, seed)
        for t in range(episodes.horizon)
        for rows in step_rows(episodes, [t], grid=grid, reads_step=True, pace=pace)
    ]
    X, y, keys = (np.concatenate([getattr(one, name) for one in drawn]) for name in _LEARNED)
    weight = np.concatenate([one.weight for one in drawn if one.weight is not None])
    categorical = episodes.state_schema.categorical
    return RunGuide.of(X, y, weight, keys=keys, categorical=categorical, seed=seed)


def step_rows(
    episodes: Episodes,
    steps: Sequence[int],
    *,
    grid: float,
    reads_step: bool,
    pace: float = 0.0,
    doubted: FloatArray | None = None,
    guide: RunGuide | None = None,
) -> tuple[StepRows, ...]:
    """The rows of the episodes at each of these steps: models' inputs, and what to predict."""
    behavior, none = episodes.behavior, np.empty(0)
    found = []
    for t in steps:
        step = episodes.at(t, grid=grid)
        if not len(step):
            continue
        so_far = step.behavior if behavior.reads_so_far else None
        X = inputs_of(step.states, so_far, t if reads_step else None)
        found.append(
            StepRows(
                step=t,
                X=X if guide is None else guide.appended(X, step.keys),
                y=_asked(
                    step,
                    seen_remainders(step, behavior.scale(t), pace * t, grid),
                    (none if doubted is None else doubted, pace * t, grid),
                ),
                keys=step.keys,
                index=step.index,
            )
        )
    return tuple(found)


def pace_of(episodes: Episodes) -> float:
    """The reward that nearly every step of these episodes earns, or 0 if there is none."""
    # Suppose that every step earns 1 as long as a run survives. Then the remainder (what is still
    # to earn) of a run that survives falls by 1 at every step t, and a model that several steps
    # share would blur it. The remainder plus the pace times t is the same number at all steps, so
    # models learn that number.
    if episodes.behavior.translation is not Translation.SHIFT or episodes.behavior.scale(1) != 1.0:
        return 0.0
    earned = []
    for t in range(episodes.horizon - 1):
        here, next_ = episodes.at(t), episodes.at(t + 1)
        alive = np.isin(here.index, next_.index)
        earned.append(next_.behavior - here.behavior[alive])
    amounts, counts = np.unique(
        snap(np.concatenate([np.empty(0), *earned]), episodes.grid), return_counts=True
    )
    if not counts.size or counts.max() < _NEARLY_ALL * counts.sum():
        return 0.0
    return float(amounts[counts.argmax()])


def seen_remainders(step: Step, scale: float, moved: float, grid: float) -> FloatArray:
    """(rows,): the remainder of each row (what is still to earn) in the scale of the models."""
    return snap(step.response + moved, grid) if moved else step.response * scale


def _asked(step: Step, own: FloatArray, doubted: tuple[FloatArray, float, float]) -> FloatArray:
    """The values to predict a row at: its own remainder, and one for each doubted outcome."""
    # The remainder is what is still to earn; the one for an outcome is what the run would have to
    # earn to end in it. Doubted outcomes are those that may be impossible. ``doubted`` has these
    # outcomes, the amount that is added to remainders for the models, and the unit of rounding.
    outcomes, moved, grid = doubted
    if not outcomes.size:
        return own
    return np.column_stack([own, snap(outcomes - step.behavior[:, None] + moved, grid)])
