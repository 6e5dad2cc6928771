"""A model for the first step alone, because runs often begin in states that never recur (M16).

Blocks pool similar steps. But the states in which runs begin may be distributed quite differently
from later ones; a model of the first step alone is then better than one that also learned from
later steps. Its share in the first step's law is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ontarget._typing import FloatArray
from ontarget.fitted.blocks import Block, LawTable, opened
from ontarget.fitting._rehearsing import REHEARSAL, Stage
from ontarget.fitting.tasks import BlockResult, StepRows
from ontarget.models._mixture import weighted

__all__ = ["opening_share", "with_opening"]

_EVEN = 0.5  # until it is known what the first step's own model is worth
_LEAST = 0.05  # a smaller share is not worth a model


def with_opening(blocks: tuple[Block, ...], law: LawTable) -> tuple[tuple[Block, ...], LawTable]:
    """The blocks with a further one for the first step alone, which has half of that step's law."""
    return (*blocks, Block(len(blocks), 0, 1, 0, 1)), opened(law, _EVEN)


def opening_share(
    results: Sequence[BlockResult], law: LawTable, stage: Stage, asked: Sequence[StepRows]
) -> float:
    """How much of the first step's law its own block makes up, by answers out of bag.

    It is the share with the least squared error of the CDF at the values of the rehearsal.

    Parameters
    ----------
    results
        The blocks' answers; the last block is the first step's own.
    law
        The law without it.
    stage
        The rehearsal that asked.
    asked
        The rows of the rehearsal that the last block was asked; none if it has no model.
    """
    if not asked:
        return 0.0
    values = stage.ladder[0]
    own = asked[0].y[:, values.size]
    found = [_first_step(one, values.size) for one in results]
    entries = [(weight, found[block]) for weight, block in law.at(0)]
    if not all(one.size for one in (found[-1], *(one for _, one in entries))):
        return 0.0
    pooled = weighted([weight for weight, _ in entries], [one for _, one in entries])
    known = np.isfinite(pooled[:, 0] + found[-1][:, 0])
    moved = (found[-1] - pooled)[known]
    missing = ((own[:, None] <= values) - pooled)[known]
    power = float(np.square(moved).sum())
    share = float((moved * missing).sum()) / power if power > 0.0 else 0.0
    return min(share, 1.0) if share >= _LEAST else 0.0


def _first_step(result: BlockResult, n_values: int) -> FloatArray:
    """The block's CDF of the rehearsal's rows at the first step; empty if it gives none."""
    for limits in result.limits[REHEARSAL]:
        if limits.step == 0:
            return limits.right[:, :n_values]
    return np.empty((0, n_values))
