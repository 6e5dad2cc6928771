"""A separate model for the first step, because runs often begin in special states (M16)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ontarget._typing import FloatArray
from ontarget.fitted.blocks import Block, LawTable, opened
from ontarget.fitting._rehearsing import REHEARSAL, Stage
from ontarget.fitting.tasks import BlockResult, StepRows
from ontarget.models.mixture import weighted

_EVEN = 0.5  # the first step's own model counts half, until its share is estimated
_LEAST = 0.05  # if the estimated share is smaller, the model is left out
_SURE = 2.0  # and also if it does not improve predictions by this many standard errors


def with_opening(blocks: tuple[Block, ...], law: LawTable) -> tuple[tuple[Block, ...], LawTable]:
    """The blocks and one more for the first step alone, with half the weight at that step."""
    return (*blocks, Block(len(blocks), 0, 1, 0, 1)), opened(law, _EVEN)


def opening_share(
    results: Sequence[BlockResult], law: LawTable, stage: Stage, asked: Sequence[StepRows]
) -> float:
    """How much the first step's own model should count at that step, from 0 to 1."""
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
    share = min(float((moved * missing).sum()) / power, 1.0) if power > 0.0 else 0.0
    gains = (np.square(missing) - np.square(missing - share * moved)).sum(axis=1)
    sure = gains.mean() > _SURE * gains.std() / math.sqrt(gains.size) if gains.size else False
    return share if sure and share >= _LEAST else 0.0


def _first_step(result: BlockResult, n_values: int) -> FloatArray:
    """(rows, values): P(remainder <= value) as one block's model predicts it at step 0."""
    if 0 not in result.limits[REHEARSAL]:
        return np.empty((0, n_values))
    return result.limits[REHEARSAL][0][1][:, :n_values]
