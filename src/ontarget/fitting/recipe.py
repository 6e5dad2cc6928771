"""`Recipe`, what to fit, and the task of each block of steps that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.episodes.schema import Unseen
from ontarget.fitted.blocks import Block, LawTable, plan_blocks
from ontarget.fitting._path_ranks import PathStage
from ontarget.fitting._rehearsing import REHEARSAL, Stage
from ontarget.fitting.tasks import PATHS, BlockResult, BlockTask, fit_block, step_rows, thinned
from ontarget.models._entry import fresh_model, serves_whole_run, trees_of

__all__ = ["LEAF_ENTRIES", "Plan", "Recipe", "block_task", "fit_numbered", "rows_per_block"]

LEAF_ENTRIES = 15_000_000
# A block's rows are numbered by two bytes; below the least a forest would be too coarse.
_MOST_ROWS, _LEAST_ROWS = 65_536, 4_096
# A model that serves the whole run has no leaves, and its rows no numbers.
_MOST_ROWS_OF_RUN = 131_072


@dataclass(frozen=True)
class Recipe:
    """What to fit: an unfitted model, the blocks and the law of each step, and how to calibrate.

    ``parameters`` are the monitor's arguments, kept so that a loaded monitor can be fitted again.
    ``steps`` are the steps that need an answer; a block without any of them is not fitted. With
    ``chooses_spacing``, the given blocks are replaced by overlapping blocks whose spacing is chosen
    on the learning episodes, or by one block for a model that serves the whole run. With
    ``chooses_model``, the model is chosen on them too; the given model is used if there are too few
    episodes. The leaves of all forests hold at most about ``leaf_entries`` entries. ``precedents``
    and ``paths`` say what is kept of the learning episodes; paths are kept by default unless they
    are very long.
    """

    model: Any
    blocks: tuple[Block, ...]
    law: LawTable
    group: str | None
    min_calibration: int
    reward_bounds: tuple[float, float]
    seed: int
    parameters: Mapping[str, Any]
    steps: frozenset[int] | None = None
    unseen: Unseen = "error"
    chooses_spacing: bool = False
    chooses_model: bool = False
    leaf_entries: int = LEAF_ENTRIES
    pace: float = 0.0
    precedents: bool = True
    paths: bool | None = None

    @property
    def reads_step(self) -> bool:
        """Whether models learn from several steps, and so read t as a feature."""
        return any(len(block.train_steps) > 1 for block in self.blocks)

    def in_one_block(self, horizon: int) -> Recipe:
        """The same with one block for all steps."""
        blocks, law = plan_blocks(horizon, steps_per_model=horizon)
        return replace(self, blocks=blocks, law=law)


class Reading(TypedDict):
    """How rows are read; see `step_rows`."""

    grid: float
    reads_step: bool
    pace: float


@dataclass(frozen=True)
class Plan:
    """A recipe and the episodes to learn from: all that determines each block's task.

    ``own`` names the learning episodes if they are also used to calibrate p, as always except with
    ``preset="paper"``. A pickled plan of prepared episodes is small, because it only names their
    folder.
    """

    recipe: Recipe
    train: Episodes
    own: str | None = None
    sets_alarms: bool = False
    doubted: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def reading(self) -> Reading:
        """How rows are read."""
        recipe = self.recipe
        return {"grid": self.train.grid, "reads_step": recipe.reads_step, "pace": recipe.pace}

    @cached_property
    def stage(self) -> Stage | None:
        """What the learning episodes rehearse; without assure episodes they set alarms (M16)."""
        if self.own is None:
            return None
        recipe = self.recipe
        return Stage.of(self.train, recipe.seed, pace=recipe.pace, sets_alarms=self.sets_alarms)

    @cached_property
    def foretold(self) -> PathStage | None:
        """The paths that are ranked, if they are kept and the model weighs recorded runs."""
        recipe = self.recipe
        wanted = recipe.paths and hasattr(recipe.model, "out_of_bag_members")
        return PathStage.of(self.train, recipe.seed) if self.own and wanted else None

    def task(self, index: int) -> BlockTask:
        """The task of a block; it is always the same, wherever it is made."""
        recipe, block, stage = self.recipe, self.recipe.blocks[index], self.stage
        made = block_task(recipe, self.train, block, rows=rows_per_block(recipe))
        answers = recipe.law.steps_of(block.index)
        if stage is None or self.own is None:
            return made
        wanted = answers if recipe.steps is None or recipe.steps & set(answers) else ()
        rehearsed = [t for t in wanted if t in stage.steps]
        asked = {
            self.own: step_rows(self.train, wanted, doubted=self.doubted, **self.reading),
            REHEARSAL: stage.asking(
                step_rows(stage.episodes, rehearsed, doubted=self.doubted, **self.reading)
            ),
        }
        made = replace(made, asked=asked, own=tuple(asked))
        if self.foretold is None:
            return made
        there = set(answers) if made.train else set()
        steps = [t for t in self.foretold.steps if t in there]
        paths = self.foretold.asking(step_rows(self.foretold.episodes, steps, **self.reading))
        return replace(made, asked={**asked, PATHS: paths}, gains=self.foretold.gains)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was made of the fields, which is large and made again where it is needed.
        return type(self), (self.recipe, self.train, self.own, self.sets_alarms, self.doubted)


def fit_numbered(numbered: tuple[Plan, int]) -> BlockResult:
    """The fitted block of this number: it reads what it needs where it runs."""
    plan, index = numbered
    return fit_block(plan.task(index))


def rows_per_block(recipe: Recipe) -> int:
    """How many rows a block learns from at most, so that leaves stay within their budget."""
    if serves_whole_run(recipe.model):
        return _MOST_ROWS_OF_RUN
    n_trees = trees_of(recipe.model)
    share = recipe.leaf_entries // (n_trees * len(recipe.blocks))
    return min(_MOST_ROWS, max(_LEAST_ROWS, share))


def block_task(recipe: Recipe, train: Episodes, block: Block, *, rows: int) -> BlockTask:
    """The task of one block, with at most about this many rows to learn from; no questions yet."""
    answers, steps = recipe.law.steps_of(block.index), block.train_steps
    wanted: Sequence[int] = steps if recipe.steps is None or recipe.steps & set(answers) else ()
    learned = step_rows(
        train, wanted, grid=train.grid, reads_step=recipe.reads_step, pace=recipe.pace
    )
    every = -(-sum(map(len, learned)) // rows)
    learned = thinned(learned, max(every, 1), recipe.seed)
    n_episodes = np.unique(np.concatenate([[], *(one.index for one in learned)])).size
    pooled = max(1.0, sum(map(len, learned)) / max(n_episodes, 1))
    return BlockTask(
        index=block.index,
        model=fresh_model(
            recipe.model,
            seed=(recipe.seed, *block.seeds),
            n_steps=pooled if len(steps) > 1 else 1,
        ),
        categorical=train.state_schema.categorical,
        train=learned,
        asked={},
    )
