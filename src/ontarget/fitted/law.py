"""A calibrated distribution per step: the block's model and the step's ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.conformal._limits import TargetEnds
from ontarget.conformal._ranks import Ranks
from ontarget.conformal.pcqr import PCQR
from ontarget.errors import ModelFileError
from ontarget.fitted._inputs import inputs_of
from ontarget.fitted._kernels import outlook_of_rows
from ontarget.fitted.blocks import Block
from ontarget.models.base import ConditionalDistribution

__all__ = ["NO_ENVELOPES", "BlockDistribution", "StepDistribution", "components_of"]

_BLOCK = 256
NO_ENVELOPES: FloatArray = read_only(np.empty((3, 0)))


def components_of(ends: TargetEnds) -> tuple[IndexArray, IndexArray]:
    """Which limits each component has, and where each target's components start, for kernels."""
    return read_only(np.stack(ends.columns())), read_only(ends.first)


@dataclass(frozen=True, eq=False)
class StepDistribution:
    """F̃ and the calibration ranks of one step and group.

    With a `TargetCalibration` its table and the step's part of it take the place of the ranks.
    """

    t: int
    model: ConditionalDistribution | None
    ranks: Ranks
    additive: bool
    pooled: bool
    grid: float
    envelopes: FloatArray | None = None
    envelope: tuple[int, int] = (0, 0)

    def inputs(self, states: FloatArray, behavior: FloatArray) -> FloatArray:
        """What the model reads for these states."""
        return inputs_of(
            states, None if self.additive else behavior, self.t if self.pooled else None
        )

    def offset(self, behavior: FloatArray) -> FloatArray:
        """What the target shifts by: the behavior so far where it is additive, else nothing."""
        return behavior if self.additive else np.zeros(behavior.size)

    def outlook(
        self, states: FloatArray, behavior: FloatArray, ends: TargetEnds, excess: FloatArray
    ) -> FloatArray:
        """(rows, targets, 5): low, p, high, plausibility and assurance.

        ``ends`` are those of the targets and then of their complements.
        """
        left, right = self.limits(states, behavior, ends)
        return self.outlook_of(left, right, ends, excess)

    def limits(
        self, states: FloatArray, behavior: FloatArray, ends: TargetEnds
    ) -> tuple[FloatArray, FloatArray]:
        """Both limits of F̃ at every finite end, counted from the behavior so far."""
        assert self.model is not None
        shifted = ends.shifted(self.offset(behavior))
        if not shifted.shape[1]:
            return shifted, shifted
        return self.model.cdf_limits(self.inputs(states, behavior), shifted)

    def outlook_of(
        self, left: FloatArray, right: FloatArray, ends: TargetEnds, excess: FloatArray
    ) -> FloatArray:
        """The outlook of rows whose limits are known."""
        rows = left.shape[0]
        out = np.empty((rows, len(ends.targets) // 2, 5))
        components = components_of(ends)
        envelopes = NO_ENVELOPES if self.envelopes is None else self.envelopes
        stored = self.ranks.values, read_only(excess), envelopes
        span = [0, self.ranks.n, 0, excess.size, *self.envelope]
        spans = np.tile(np.array(span, dtype=np.intp), (rows, 1))
        run_blocks(
            lambda a, b: outlook_of_rows(
                stored, spans[a:b], (left[a:b], right[a:b]), components, out[a:b]
            ),
            rows,
            block=_BLOCK,
        )
        return out

    def pcqr(self) -> PCQR:
        """The step's PCQR, for intervals and promises."""
        assert self.model is not None
        return PCQR.from_ranks(self.model, self.ranks, grid=self.grid)


@dataclass(frozen=True, eq=False)
class BlockDistribution:
    """The fitted model of a block, and the ranks of its steps and groups."""

    block: Block
    model: ConditionalDistribution | None
    ranks: tuple[tuple[Ranks, ...], ...]  # by step, then by group
    flat_ranks: FloatArray  # the same, one after the other

    @classmethod
    def of(
        cls,
        block: Block,
        arrays: Mapping[str, AnyArray],
        *,
        model_class: type[ConditionalDistribution],
        n_groups: int,
    ) -> BlockDistribution:
        """The block that `fit_block` gave these arrays for."""
        own = {
            name.removeprefix("model."): array
            for name, array in arrays.items()
            if name.startswith("model.")
        }
        flat = read_only(np.asarray(arrays["ranks"], dtype=np.float64))
        sizes = np.diff(np.asarray(arrays["rank_ends"], dtype=np.int64), prepend=0)
        rising = sizes.shape == (len(block.steps) * n_groups,) and sizes.min() >= 0
        if not rising or sizes.sum() != flat.size:
            raise ModelFileError(f"rank_ends need to rise to the number of ranks, {flat.size}")
        sets = np.split(flat, np.cumsum(sizes)[:-1])
        ranks = tuple(
            tuple(Ranks(one) for one in sets[i * n_groups : (i + 1) * n_groups])
            for i in range(len(block.steps))
        )
        model = model_class.from_arrays(own) if own else None
        return cls(block, model, ranks, flat)
