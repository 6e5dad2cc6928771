"""`Recipe`: what to fit; and the task of fitting each block (range of steps with one model)."""

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
from ontarget.fitting._rehearsing import REHEARSAL, PathStage, Stage
from ontarget.fitting.tasks import (
    PATHS,
    BlockResult,
    BlockTask,
    drawn_near_ends,
    fit_block,
    step_rows,
    thinned,
)
from ontarget.models.entry import fresh_model, serves_whole_run, takes_weights, trees_of
from ontarget.models.guided.run import RunGuide

LEAF_ENTRIES = 15_000_000
# Two bytes number a block's rows, so there are at most 65,536. With fewer than _LEAST_ROWS a forest
# would be too coarse.
_MOST_ROWS, _LEAST_ROWS = 65_536, 4_096
# Rows of one run are alike, so leaves grow with the steps that share a model. But what happens to
# few runs at any one step, such as a fall, must still fit into a leaf (M30).
_MOST_POOLED = 10.0
# A model that serves the whole run has no leaves, so its rows need no such numbers.
_MOST_ROWS_OF_RUN = 131_072


@dataclass(frozen=True)
class Recipe:
    """What to fit: an unfitted model, the blocks of steps, and how to calibrate.

    - ``law`` says which blocks make up the prediction at each step. - ``parameters`` are the
    monitor's arguments, kept so that a loaded monitor can be fitted again. - ``steps`` are the
    steps at which the monitor must answer (None for all). A block without any of these steps is not
    fitted. - With ``chooses_spacing``, the given blocks are replaced by overlapping blocks, and the
    learning episodes decide how far apart these are. A model that serves the whole run gets one
    block. - With ``chooses_history`` too, they also decide whether the models read the run so far.
    - ``leaf_entries`` limits, roughly, how many training rows the leaves of all forests may hold. -
    ``pace`` is the reward that nearly every step earns; see `pace_of`. - ``guide`` is a model of
    the mean for all steps, whose prediction the blocks' models read. - ``precedents`` and ``paths``
    say whether the monitor keeps the ids of the learning episodes, and their behavior at every
    step. If ``paths`` is None, paths are kept unless they are very long.
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
    chooses_history: bool = False
    leaf_entries: int = LEAF_ENTRIES
    pace: float = 0.0
    guide: RunGuide | None = None
    precedents: bool = True
    paths: bool | None = None

    @property
    def reads_step(self) -> bool:
        """Whether each model learns from several steps, and so has the step number as an input."""
        return any(len(block.train_steps) > 1 for block in self.blocks)

    def in_one_block(self, horizon: int) -> Recipe:
        """The same recipe with one block, so that all steps share one model."""
        blocks, law = plan_blocks(horizon, steps_per_model=horizon)
        return replace(self, blocks=blocks, law=law)


class Reading(TypedDict):
    """The arguments of `step_rows` that say how rows (model inputs) are made from episodes."""

    grid: float
    reads_step: bool
    pace: float
    guide: RunGuide | None


@dataclass(frozen=True)
class Plan:
    """A recipe and the episodes to learn from: all that determines the task of each block.

    ``own`` is the name of the part that the models learn from, if that part also calibrates p; with
    ``preset="paper"`` it does not, and ``own`` is None. ``sets_alarms`` says whether the learning
    episodes also set alarm thresholds, because there are no assure episodes (held-out runs).
    ``doubted`` are outcomes that may be impossible. A pickled plan of prepared episodes is small,
    because it only names their folder.
    """

    recipe: Recipe
    train: Episodes
    own: str | None = None
    sets_alarms: bool = False
    doubted: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def reading(self) -> Reading:
        """The arguments of `step_rows` that say how rows (model inputs) are made from episodes."""
        recipe = self.recipe
        return {
            "grid": self.train.grid,
            "reads_step": recipe.reads_step,
            "pace": recipe.pace,
            "guide": recipe.guide,
        }

    @cached_property
    def stage(self) -> Stage | None:
        """Which learning episodes are predicted as if they were new, and at which steps (M16)."""
        if self.own is None:
            return None
        recipe = self.recipe
        return Stage.of(self.train, recipe.seed, pace=recipe.pace, sets_alarms=self.sets_alarms)

    @cached_property
    def foretold(self) -> PathStage | None:
        """The learning episodes that calibrate path bands (ranges for later steps), or None."""
        recipe = self.recipe
        wanted = recipe.paths and hasattr(recipe.model, "out_of_bag_members")
        return PathStage.of(self.train, recipe.seed) if self.own and wanted else None

    def task(self, index: int) -> BlockTask:
        """The task of fitting a block, by the block's number; the same on every machine."""
        recipe, block, stage = self.recipe, self.recipe.blocks[index], self.stage
        made = block_task(recipe, self.train, block, rows=_rows_per_block(recipe))
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
        made = replace(made, asked=asked)
        if self.foretold is None:
            return made
        there = set(answers) if made.train else set()
        steps = [t for t in self.foretold.steps if t in there]
        paths = self.foretold.asking(step_rows(self.foretold.episodes, steps, **self.reading))
        return replace(made, asked={**asked, PATHS: paths}, gains=self.foretold.gains)

    def __reduce__(self) -> tuple[Any, ...]:
        # Cached properties are left out: they are large, and are computed again where needed.
        return type(self), (self.recipe, self.train, self.own, self.sets_alarms, self.doubted)


def fit_numbered(numbered: tuple[Plan, int]) -> BlockResult:
    """The fitted block, given a plan and the number of the block in the plan."""
    plan, index = numbered
    return fit_block(plan.task(index))


def _rows_per_block(recipe: Recipe) -> int:
    """The most rows that a block learns from, so that all leaves stay within ``leaf_entries``."""
    if serves_whole_run(recipe.model):
        return _MOST_ROWS_OF_RUN
    n_trees = trees_of(recipe.model)
    share = recipe.leaf_entries // (n_trees * len(recipe.blocks))
    return min(_MOST_ROWS, max(_LEAST_ROWS, share))


def block_task(recipe: Recipe, train: Episodes, block: Block, *, rows: int) -> BlockTask:
    """The task of fitting one block, from at most about ``rows`` rows."""
    answers, steps = recipe.law.steps_of(block.index), block.train_steps
    wanted: Sequence[int] = steps if recipe.steps is None or recipe.steps & set(answers) else ()
    learned = step_rows(
        train,
        wanted,
        grid=train.grid,
        reads_step=recipe.reads_step,
        pace=recipe.pace,
        guide=recipe.guide,
    )
    every = -(-sum(map(len, learned)) // rows)
    if every > 1 and takes_weights(recipe.model) and (train.lengths < train.horizon).any():
        learned = drawn_near_ends(learned, train, rows, recipe.seed)
    elif every > 1:
        learned = thinned(learned, every, recipe.seed)
    n_episodes = np.unique(np.concatenate([[], *(one.index for one in learned)])).size
    pooled = max(1.0, sum(map(len, learned)) / max(n_episodes, 1))
    return BlockTask(
        index=block.index,
        model=fresh_model(
            recipe.model,
            seed=(recipe.seed, *block.seeds),
            n_steps=min(pooled, _MOST_POOLED) if len(steps) > 1 else 1,
        ),
        categorical=train.state_schema.categorical,
        train=learned,
        asked={},
    )
