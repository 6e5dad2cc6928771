"""A separate model for the first step, because runs often begin in special states.

The steps of a block share a model, because they are similar. But the states in which runs begin may
be distributed quite differently from later ones. Then a model of the first step alone predicts
better than one that also learned from later steps. How much the model of the first step counts
there is estimated from the learning episodes. See method M16 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ontarget._typing import FloatArray
from ontarget.fitted.blocks import Block, LawTable, opened
from ontarget.fitting._rehearsing import REHEARSAL, Stage
from ontarget.fitting.tasks import BlockResult, StepRows
from ontarget.models._mixture import weighted

_EVEN = 0.5  # the first step's own model counts half, until its share is estimated
_LEAST = 0.05  # if the estimated share is smaller, the model is left out
_SURE = 2.0  # and also if it does not improve predictions by this many standard errors


def with_opening(blocks: tuple[Block, ...], law: LawTable) -> tuple[tuple[Block, ...], LawTable]:
    """The blocks and one more for the first step alone, with half the weight at that step.

    A block is a range of steps that share a model.
    """
    return (*blocks, Block(len(blocks), 0, 1, 0, 1)), opened(law, _EVEN)


def opening_share(
    results: Sequence[BlockResult], law: LawTable, stage: Stage, asked: Sequence[StepRows]
) -> float:
    """How much the first step's own model should count at that step, from 0 to 1.

    The share is the one with the smallest squared error of the predicted distribution function. The
    error is measured on learning episodes, each predicted by trees that did not see it, at the
    values that the rehearsal asks about. A share below 5 %, or without a clear gain, becomes 0.

    Parameters
    ----------
    results
        The fitted blocks (ranges of steps that share a model) with their predictions; the last
        block is that of the first step alone.
    law
        Which blocks make up the prediction at each step, without the last block.
    stage
        The rehearsal: learning episodes that are predicted as if they were new, and the values at
        which they are predicted.
    asked
        The rows of the rehearsal that the last block predicted; empty if it has no model.
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
    share = min(float((moved * missing).sum()) / power, 1.0) if power > 0.0 else 0.0
    gains = (np.square(missing) - np.square(missing - share * moved)).sum(axis=1)
    sure = gains.mean() > _SURE * gains.std() / math.sqrt(gains.size) if gains.size else False
    return share if sure and share >= _LEAST else 0.0


def _first_step(result: BlockResult, n_values: int) -> FloatArray:
    """(rows, values): P(remainder <= value) as one block's model predicts it at step 0.

    A block is a range of steps that share a model. The remainder is what is still to earn. The rows
    are learning episodes that are predicted as if they were new. There are no rows if the block has
    no predictions at step 0.
    """
    for limits in result.limits[REHEARSAL]:
        if limits.step == 0:
            return limits.right[:, :n_values]
    return np.empty((0, n_values))
