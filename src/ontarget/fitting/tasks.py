"""Fitting one block of steps: a pure function from arrays to arrays, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.fitted._inputs import bad_readings, inputs_of
from ontarget.fitted._kernels import excess_of_rows
from ontarget.fitted.blocks import Block
from ontarget.models.base import ConditionalDistribution

__all__ = ["BlockTask", "fit_block", "task_of"]


@dataclass(frozen=True)
class Rows:
    """The episodes of one step, as a model reads them."""

    step: int
    X: FloatArray
    y: FloatArray
    keys: KeyArray
    groups: IndexArray  # each row's group; all 0 without groups
    index: IndexArray  # each row's position among the episodes of its part


@dataclass(frozen=True)
class BlockTask:
    """Everything that fitting one block needs, and nothing else."""

    block: Block
    model: ConditionalDistribution
    seed: int
    n_groups: int
    n_assure: int
    categorical: tuple[int, ...]
    train: tuple[Rows, ...]
    calibrate: tuple[Rows, ...]
    assure: tuple[Rows, ...]
    may_miss: BoolArray


def task_of(
    block: Block,
    model: ConditionalDistribution,
    parts: Sequence[Episodes | None],
    *,
    seed: int,
    grid: float,
    groups: Sequence[Any] | None,
    may_miss: BoolArray,
) -> BlockTask:
    """The task of one block, from the train, calibrate and assure episodes."""
    train, calibrate, assure = parts
    assert train is not None

    def rows(episodes: Episodes | None, steps: range) -> tuple[Rows, ...]:
        if episodes is None:
            return ()
        found = (_rows(episodes, t, block.pooled, grid, groups) for t in steps)
        return tuple(one for one in found if one.y.size)

    return BlockTask(
        block=block,
        model=_seeded(model, (seed, block.start)),
        seed=seed,
        n_groups=1 if groups is None else len(groups),
        n_assure=0 if assure is None else len(assure),
        categorical=train.schema.categorical,
        train=rows(train, block.train_steps),
        calibrate=rows(calibrate, block.steps),
        assure=rows(assure, block.steps),
        may_miss=may_miss,
    )


def fit_block(task: BlockTask) -> dict[str, AnyArray]:
    """The fitted block as arrays: its model's, the ranks of each step and group, the excess (M9).

    Ranks lie flat, sorted within each step and group; ``rank_ends`` says where each set ends,
    step by step and group by group. Without a training episode the block has no model.
    """
    block, n_groups = task.block, task.n_groups
    excess = np.zeros(task.n_assure)
    sets: list[FloatArray] = [np.empty(0)] * (len(block.steps) * n_groups)
    arrays: dict[str, AnyArray] = {}
    if task.train:
        model = _fitted(task)
        arrays = {f"model.{name}": array for name, array in model.to_arrays().items()}
        for rows in task.calibrate:
            left, right = model.cdf_limits(rows.X, rows.y)
            ranks = draw_ranks(left, right, rows.keys, seed=task.seed, step=rows.step)
            # Only good readings are answered for, so only those are like them.
            good = ~bad_readings(rows.X[:, : task.may_miss.size], task.may_miss)
            for g in range(n_groups):
                own = good & (rows.groups == g)
                sets[(rows.step - block.start) * n_groups + g] = np.sort(ranks[own])
        for rows in task.assure:
            distance = np.empty(rows.y.size)
            left, right = model.cdf_limits(rows.X, rows.y)
            for g in range(n_groups):
                own = rows.groups == g
                ranks = sets[(rows.step - block.start) * n_groups + g]
                found = np.empty(int(own.sum()))
                excess_of_rows(_frozen(ranks), left[own], right[own], found)
                distance[own] = found
            # A bad reading may hide anything (M8).
            distance[bad_readings(rows.X[:, : task.may_miss.size], task.may_miss)] = 0.5
            excess[rows.index] = np.maximum(excess[rows.index], distance)
    arrays["ranks"] = np.concatenate(sets)
    arrays["rank_ends"] = np.cumsum([one.size for one in sets])
    arrays["excess"] = excess
    return arrays


def _rows(
    episodes: Episodes, t: int, pooled: bool, grid: float, groups: Sequence[Any] | None
) -> Rows:
    step = episodes.at(t, grid=grid)
    behavior = step.behavior if episodes.behavior.reads_so_far else None
    return Rows(
        step=t,
        X=inputs_of(step.states, behavior, t if pooled else None),
        y=step.response,
        keys=step.keys,
        groups=_codes(step.groups, groups, len(step)),
        index=step.index,
    )


def _codes(values: AnyArray | None, groups: Sequence[Any] | None, n: int) -> IndexArray:
    if groups is None or values is None:
        return np.zeros(n, dtype=np.intp)
    return np.searchsorted(np.asarray(groups), values)


def _seeded(model: ConditionalDistribution, seed: tuple[int, int]) -> ConditionalDistribution:
    """A fresh copy of the model, its randomness keyed on the seed and the block."""
    from sklearn.base import clone

    copy: Any = clone(model)
    if "seed" in copy.get_params():
        copy.set_params(seed=seed)
    fresh: ConditionalDistribution = copy
    return fresh


def _fitted(task: BlockTask) -> ConditionalDistribution:
    return task.model.fit(
        np.concatenate([rows.X for rows in task.train]),
        np.concatenate([rows.y for rows in task.train]),
        ids=np.concatenate([rows.keys for rows in task.train]),
        steps=np.concatenate([np.full(rows.y.size, rows.step) for rows in task.train]),
        categorical=task.categorical,
    )


def _frozen(array: FloatArray) -> FloatArray:
    """Read-only, as the arrays of a model file are, so that no second kernel compiles."""
    view = array.view()
    view.flags.writeable = False
    return view
