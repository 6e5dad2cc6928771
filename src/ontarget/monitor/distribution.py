"""A calibrated distribution per step: the block's model and the step's ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ontarget.conformal.limits import TargetEnds
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.ranks import Ranks
from ontarget.models.base import ConditionalDistribution
from ontarget.monitor.fitting import inputs_of
from ontarget.monitor.kernels import outlook_of_rows
from ontarget.monitor.plan import Block
from ontarget.threads import run_blocks
from ontarget.typing import AnyArray, FloatArray

__all__ = ["BlockDistribution", "Limits", "StepDistribution"]

_BLOCK = 256

Limits: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], None]


@dataclass(frozen=True, eq=False)
class StepDistribution:
    """F̃ and the calibration ranks of one step and group."""

    t: int
    model: ConditionalDistribution | None
    ranks: Ranks
    additive: bool
    pooled: bool
    grid: float

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
        out = np.empty((left.shape[0], len(ends.targets) // 2, 5))
        columns, first = np.stack(ends.columns()), ends.first
        run_blocks(
            lambda a, b: outlook_of_rows(
                self.ranks.values, excess, left[a:b], right[a:b], columns, first, out[a:b]
            ),
            left.shape[0],
            block=_BLOCK,
        )
        return out

    def live(self) -> Limits:
        """Both limits of the CDF for one row, unchecked: (row, y, left, right) -> None."""
        assert self.model is not None
        entry = getattr(self.model, "live", None)
        if entry is not None:
            limits: Limits = entry().limits
            return limits
        model = self.model

        def ask(row: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
            if y.size:
                found = model.cdf_limits(row[None, :], y[None, :])
                left[:], right[:] = found[0][0], found[1][0]

        return ask

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
        ends = arrays["rank_ends"].tolist()
        sets = np.split(arrays["ranks"], ends[:-1])
        ranks = tuple(
            tuple(Ranks(one) for one in sets[i * n_groups : (i + 1) * n_groups])
            for i in range(len(block.steps))
        )
        model = model_class.from_arrays(own) if own else None
        return cls(block, model, ranks)
