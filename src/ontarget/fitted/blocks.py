"""Which steps share a model: consecutive blocks of the horizon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ontarget._arguments import whole_number

__all__ = ["Block", "StepsPerModel", "plan_blocks"]

StepsPerModel: TypeAlias = int | Literal["auto"]


@dataclass(frozen=True)
class Block:
    """Consecutive steps that share a model, and the steps whose episodes train it."""

    index: int
    start: int
    stop: int
    train_start: int
    train_stop: int

    @property
    def steps(self) -> range:
        """The steps that the model answers for."""
        return range(self.start, self.stop)

    @property
    def train_steps(self) -> range:
        """The steps that it learns from."""
        return range(self.train_start, self.train_stop)

    @property
    def pooled(self) -> bool:
        """Whether the model learns from several steps, and so reads t as a feature."""
        return len(self.train_steps) > 1


def plan_blocks(
    horizon: int, *, steps_per_model: StepsPerModel = "auto", window: int = 0
) -> tuple[Block, ...]:
    """The blocks that cover ``range(horizon)``.

    Parameters
    ----------
    horizon
        The number of steps.
    steps_per_model
        How many steps share a model; ``"auto"`` is 5, or a hundredth of the horizon if that is
        more.
    window
        How many further steps each side train it.

    Examples
    --------
    >>> [(b.start, b.stop) for b in plan_blocks(12)]
    [(0, 5), (5, 10), (10, 12)]
    """
    size = max(5, math.ceil(horizon / 100)) if steps_per_model == "auto" else steps_per_model
    whole_number("steps_per_model", size, least=1)
    whole_number("window", window, least=0)
    return tuple(
        Block(
            index=index,
            start=start,
            stop=min(start + size, horizon),
            train_start=max(start - window, 0),
            train_stop=min(start + size + window, horizon),
        )
        for index, start in enumerate(range(0, horizon, size))
    )
