"""Simulated episodes, divided as in the paper, with the paper's noise or without.

The paper adds uniform noise to every outcome so that no two are equal. Elsewhere in this library,
outcomes are rounded to a grid before they are compared. The noise is so small that rounding would
leave about ten different values of it, and outcomes would be equal again. So the mode "noise" does
not round. Rounding errors of sums are then a billionth of the noise, and no comparison depends on
them. The mode "atoms" adds no noise and rounds as usual, so many outcomes are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ontarget import Target
from ontarget.domains import simulate
from ontarget.episodes import Episodes, PaperSplit, uniform_by_id
from ontarget.paper.plan import Mode, Plan

_HALF_NOISE: Final = 5e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Episodes at one step: a model's inputs, what it should predict, and the behavior so far."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    offset: NDArray[np.float64]
    ids: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Partition:
    """One random division of a domain's episodes, with the paper's noise or without."""

    number: int
    mode: Mode
    seed: int
    grid: float | None
    train: Episodes
    calibrate: Episodes
    test: Episodes

    def rows(self, part: Episodes, t: int) -> Rows:
        """The inputs and outputs of a model at step t, for the episodes of one part."""
        step = part.at(t, grid=self.grid)
        remaining = step.response if self.mode == "atoms" else self._outcomes(part) - step.behavior
        return Rows(step.states, remaining, step.behavior, step.ids)

    @cached_property
    def outcomes(self) -> NDArray[np.float64]:
        """The outcomes of the test episodes."""
        return self._outcomes(self.test)

    @cached_property
    def target(self) -> Target:
        """The paper's target: from the 10 % to the 90 % quantile of the test episodes' outcomes."""
        low, high = np.quantile(self.outcomes, [0.1, 0.9], method="inverted_cdf")
        return Target(float(low), float(high))

    @cached_property
    def met(self) -> NDArray[np.bool_]:
        """(tests,): whether each test episode ended inside the target."""
        return self.target.contains(self.outcomes, self.grid)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the categorical features."""
        return self.train.schema.categorical

    def _outcomes(self, part: Episodes) -> NDArray[np.float64]:
        if self.mode == "atoms":
            return part.at(0, grid=self.grid).outcomes
        # Every episode of both domains lives to the horizon, so each is alive at every step.
        uniform = uniform_by_id(part.ids, self.seed, "paper noise")
        return part.outcomes + _HALF_NOISE * (2.0 * uniform - 1.0)


def simulated(plan: Plan, domain: str) -> Episodes:
    """The domain's simulated episodes.

    They are the same for all random divisions (partitions), with or without noise.
    """
    return simulate(domain, plan.episodes, plan.seed, progress=False)


def train_and_calibrate(plan: Plan, episodes: Episodes, number: int) -> PaperSplit:
    """Divide the episodes as the paper does: to train, to calibrate, and the rest to test.

    Each ``number`` gives another random division (partition).
    """
    return episodes.split(
        train=plan.train, calibrate=plan.calibrate, assure=0, seed=split_seed(plan, number)
    )


def partition_of(plan: Plan, episodes: Episodes, number: int, mode: Mode) -> Partition:
    """Random division (partition) ``number`` of the episodes.

    ``mode`` says whether noise is added to outcomes; it does not change the division.
    """
    parts = train_and_calibrate(plan, episodes, number)
    assert parts.rest is not None  # the plan leaves episodes to test on
    return Partition(
        number,
        mode,
        plan.seed,
        parts.train.grid if mode == "atoms" else None,
        parts.train,
        parts.calibrate,
        parts.rest,
    )


def split_seed(plan: Plan, number: int) -> int:
    """The seed of partition ``number``: a thousand per seed, so that no two seeds share one."""
    return 1_000 * plan.seed + number
