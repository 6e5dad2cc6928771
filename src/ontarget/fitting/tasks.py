"""Fitting one block of steps: a pure function from arrays to arrays, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.episodes import Episodes
from ontarget.fitted._inputs import inputs_of
from ontarget.models._entry import fit_model

__all__ = ["BlockResult", "BlockTask", "StepLimits", "StepRows", "fit_block", "step_rows"]


@dataclass(frozen=True)
class StepRows:
    """The episodes of one part at one step, as a model reads them."""

    step: int
    X: FloatArray
    y: FloatArray  # the remainder, scaled as the models see it (M18)
    keys: KeyArray
    index: IndexArray  # each row's position among the episodes of its part

    def __len__(self) -> int:
        return int(self.y.size)


@dataclass(frozen=True)
class BlockTask:
    """Everything that fitting one block needs, and nothing else.

    ``asked`` are the rows of each part that the block's model must answer for, by the part's name.
    """

    index: int
    model: Any
    categorical: tuple[int, ...]
    train: tuple[StepRows, ...]
    asked: dict[str, tuple[StepRows, ...]]


@dataclass(frozen=True)
class StepLimits:
    """Both limits of a model's CDF at the outcomes of one part's episodes at one step."""

    step: int
    left: FloatArray
    right: FloatArray


@dataclass(frozen=True)
class BlockResult:
    """A fitted block: its model, None without a training episode, and what it says of each part."""

    model: Any
    limits: dict[str, tuple[StepLimits, ...]]


def fit_block(task: BlockTask) -> BlockResult:
    """The fitted block: phase one of a fit. The caller blends the limits and forms the ranks."""
    if not task.train:
        return BlockResult(None, dict.fromkeys(task.asked, ()))
    model = fit_model(
        task.model,
        np.concatenate([rows.X for rows in task.train]),
        np.concatenate([rows.y for rows in task.train]),
        ids=np.concatenate([rows.keys for rows in task.train]),
        steps=np.concatenate([np.full(len(rows), rows.step) for rows in task.train]),
        categorical=task.categorical,
    )
    return BlockResult(
        model,
        {
            part: tuple(StepLimits(rows.step, *model.cdf_limits(rows.X, rows.y)) for rows in steps)
            for part, steps in task.asked.items()
        },
    )


def step_rows(
    episodes: Episodes | None, steps: Sequence[int], *, grid: float, reads_step: bool
) -> tuple[StepRows, ...]:
    """What models read of the episodes at each of the steps that any episode reaches."""
    if episodes is None:
        return ()
    behavior = episodes.behavior
    found = []
    for t in steps:
        step = episodes.at(t, grid=grid)
        if not len(step):
            continue
        so_far = step.behavior if behavior.reads_so_far else None
        found.append(
            StepRows(
                step=t,
                X=inputs_of(step.states, so_far, t if reads_step else None),
                y=step.response * behavior.scale(t),
                keys=step.keys,
                index=step.index,
            )
        )
    return tuple(found)
