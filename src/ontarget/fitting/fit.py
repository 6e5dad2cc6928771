"""Fitting a monitor: from a split of episodes to everything it needs to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes, PaperSplit, Schema, Split
from ontarget.episodes._dictionaries import learned_schema
from ontarget.episodes._fingerprints import fingerprints
from ontarget.episodes.schema import Unseen
from ontarget.errors import (
    Argument,
    CalibrationError,
    CensoredError,
    EpisodesError,
    GroupError,
    InputError,
)
from ontarget.fitted._curves import learned_curves
from ontarget.fitted.blocks import Block, LawTable, opened, plan_blocks
from ontarget.fitted.choices import Choices
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitted.paths._maps import NO_MAPS
from ontarget.fitted.paths.bands import PathBands
from ontarget.fitted.ranks import RankTable
from ontarget.fitted.recorded import RecordedRuns
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.fitting._choosing import best_model
from ontarget.fitting._impossible import (
    Limits,
    doubted_outcomes,
    impossible_outcomes,
    without_impossible,
)
from ontarget.fitting._opening import opening_share, with_opening
from ontarget.fitting._path_ranks import PathStage, learned_maps
from ontarget.fitting._rehearsing import REHEARSAL, Stage, rehearsed
from ontarget.fitting._spacing import Pilot, choose_spacing, losses_of
from ontarget.fitting.checkpoints import Checkpoint, digest_of
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.ranking import Part, blended_limits, rank_table, whole_run_excess
from ontarget.fitting.tasks import (
    PATHS,
    BlockResult,
    BlockTask,
    StepRows,
    fit_block,
    pace_of,
    step_rows,
    thinned,
)
from ontarget.models._entry import (
    check_model,
    fits_side_by_side,
    fresh_model,
    serves_whole_run,
    takes_missing,
    trees_of,
)

__all__ = ["LEAF_ENTRIES", "Preset", "Recipe", "fit_monitor", "preset_model"]

Preset: TypeAlias = Literal["default", "paper"]

LEAF_ENTRIES = 15_000_000
# A block's rows are numbered by two bytes; below the least a forest would be too coarse.
_MOST_ROWS, _LEAST_ROWS = 65_536, 4_096
# A model that serves the whole run has no leaves, and its rows no numbers.
_MOST_ROWS_OF_RUN = 131_072
# Paths of so many steps together take 40 MB of a model file.
_MOST_PATH_STEPS = 5_000_000


@dataclass(frozen=True)
class Recipe:
    """What to fit: an unfitted model, the blocks and the law of each step, and how to calibrate.

    ``parameters`` are the monitor's own, kept so that a loaded one can be fitted anew alike.
    ``steps`` are those that must be answered: a block without any of them is not fitted. If it
    ``chooses_spacing``, overlapping blocks take the place of those given, as far apart as the
    learning episodes suggest, or one block for a model that serves the whole run. If it
    ``chooses_model``, they suggest that too; the model given is for when they are too few. The
    leaves of all forests hold about ``leaf_entries`` at most. ``precedents`` and ``paths`` say what
    is kept of the episodes that models learn from; by default their paths, too, unless these are
    very long together.
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


def preset_model(preset: Preset) -> Any:
    """The preset's unfitted model.

    The paper gives no leaf size; its forest has our forest's own, as in `ontarget paper`. The
    default is a stack of experts with the settings that it has by itself (M16).
    """
    if preset == "paper":
        from ontarget.models.forest.estimator import QuantileForest

        return QuantileForest()
    from ontarget.models.stacked.estimator import StackedForest

    return StackedForest()


def fit_monitor(
    recipe: Recipe,
    split: Split | PaperSplit,
    *,
    engine: Engine,
    progress: bool,
    checkpoint: str | Path | None,
) -> Fitted:
    """The fitted monitor's contents; the same whatever the engine.

    Phase one fits the blocks, wherever the engine runs them. Phase two blends what they say of the
    episodes, and forms curves, ranks and excesses here: curves from the learning episodes, each
    answered by models that have not seen it, ranks and excesses from the assure episodes (M16). In
    the paper's way there are no curves, and the ranks are those of the calibration episodes.
    """
    check_model(recipe.model)
    named = _named(split)
    first = next(iter(named))
    _check_parts(named, recipe.reward_bounds)
    # The dictionary comes from the first part alone: no other may add to it (M14).
    schema = learned_schema(named[first], _unseen(recipe))
    named = {name: part.recoded(schema) for name, part in named.items()}
    _check_disjoint(named)
    train = named[first]
    if recipe.paths is None:
        recipe = replace(recipe, paths=int(train.lengths.sum()) <= _MOST_PATH_STEPS)
    own, ranked = (first, "assure") if isinstance(split, Split) else (None, "calibrate")
    groups, may_miss = _groups(recipe, named[own or ranked]), _may_miss(train, schema)
    n_groups = 1 if groups is None else len(groups)
    if own is not None and any(len(b.train_steps) > 1 for b in recipe.blocks):
        recipe = replace(recipe, pace=pace_of(train))
    chosen = Choices()
    if recipe.chooses_model:
        model, tried = best_model(
            train, partial(_losses_of, recipe), seed=recipe.seed, progress=progress
        )
        recipe, chosen = replace(recipe, model=model), Choices(models=tried)
    if recipe.chooses_spacing and serves_whole_run(recipe.model):
        recipe = _in_one_block(recipe, train.horizon)
    elif recipe.chooses_spacing and own is not None:
        chosen = replace(_chosen_spacing(recipe, train), models=chosen.models)
        blocks, law = plan_blocks(train.horizon, spacing=chosen.spacing)
        recipe = replace(recipe, blocks=blocks, law=law)
    pooled = recipe
    if chosen.trials and train.horizon > 1:
        blocks, law = with_opening(recipe.blocks, recipe.law)
        recipe = replace(recipe, blocks=blocks, law=law)
    rows = _rows_per_block(recipe)
    doubted = doubted_outcomes(train) if own is not None else np.empty(0)
    stage: Stage | None = None
    if own is not None:
        # Without assure episodes alarms are set by the learning episodes themselves (M16).
        stage = Stage.of(train, recipe.seed, pace=recipe.pace, sets_alarms="assure" not in named)
    foretold: PathStage | None = None
    if own is not None and recipe.paths and hasattr(recipe.model, "out_of_bag_members"):
        foretold = PathStage.of(train, recipe.seed)

    def task(index: int) -> BlockTask:
        """The task of a block; the same whenever it is asked for."""
        block = recipe.blocks[index]
        made = _task(recipe, named, block, own=own, stage=stage, rows=rows, doubted=doubted)
        return made if foretold is None else _asking_paths(made, recipe, foretold)

    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, _digest(recipe, named), lambda index: task(index).asked)
    results: list[BlockResult] = run_tasks(
        fit_block,
        task,
        len(recipe.blocks),
        engine=engine,
        checkpoint=kept,
        progress=progress,
        side_by_side=fits_side_by_side(recipe.model),
    )
    if stage is not None and recipe is not pooled:
        share = opening_share(results, pooled.law, stage, task(len(results) - 1).asked[REHEARSAL])
        chosen = replace(chosen, opening=share)
        recipe = replace(recipe, law=opened(pooled.law, share)) if share else pooled
        results = results[: len(recipe.blocks)]

    impossible = np.empty(0)
    if own is not None and doubted.size:
        impossible = impossible_outcomes(blended_limits(results, recipe.law, own), doubted)

    def limits_of(name: str) -> Limits:
        """Both limits of each step's law at what the rows of a part asked."""
        found = blended_limits(results, recipe.law, name)
        if not doubted.size:
            return found
        part = stage.episodes if stage is not None and name == REHEARSAL else named[name]
        asked = step_rows(
            part, list(found), grid=train.grid, reads_step=False, pace=recipe.pace, doubted=doubted
        )
        if stage is not None and name == REHEARSAL:
            asked = stage.asking(asked)
        return without_impossible(found, {one.step: one.y for one in asked}, doubted, impossible)

    def ranks_of(name: str | None) -> RankTable:
        """The ranks of a part at every step; none if there is no such part."""
        if name not in named:
            return RankTable.of([np.empty(0)] * (train.horizon * n_groups), n_groups)
        return rank_table(
            limits_of(name),
            Part(name, named[name], _codes(named[name], groups), may_miss),
            horizon=train.horizon,
            n_groups=n_groups,
            seed=recipe.seed,
        )

    curves = None if own is None else learned_curves(ranks_of(own))
    ranks, assure, excess = ranks_of(ranked), named.get("assure"), np.empty(0)
    if assure is not None:
        limits = limits_of("assure")
        part = Part("assure", assure, _codes(assure, groups), may_miss)
        excess = whole_run_excess(limits, part, ranks, curves)
    rehearsal: Rehearsal | None = None
    if stage is not None:
        limits = limits_of(REHEARSAL)
        rehearsal = rehearsed(limits, stage, _codes(stage.episodes, groups), recipe.seed)
    path_maps = NO_MAPS
    if foretold is not None:
        path_maps = learned_maps(blended_limits(results, recipe.law, PATHS), foretold, recipe.seed)
    sizes = {name: len(part) for name, part in named.items()}
    fitted = Fitted(
        schema=schema,
        behavior=train.behavior,
        horizon=train.horizon,
        horizon_declared=train.horizon_declared,
        grid=train.grid,
        reward_bounds=recipe.reward_bounds,
        blocks=recipe.blocks,
        law=recipe.law,
        models=tuple(result.model for result in results),
        ranks=ranks,
        curves=curves,
        groups=groups,
        min_calibration=recipe.min_calibration,
        may_miss=may_miss,
        assure=None if assure is None else assure.compact(),
        excess=excess,
        pace=recipe.pace,
        impossible=impossible,
        trained=Trained(
            parameters=recipe.parameters,
            seed=recipe.seed,
            sizes={**sizes, "assure": 0 if assure is None else len(assure)},
            roles=train.roles,
            censoring=train.censoring,
            fingerprints=read_only(
                np.concatenate([np.sort(fingerprints(part)) for part in named.values()])
            ),
            chosen=chosen.with_experts(result.model for result in results),
        ),
        rehearsal=rehearsal,
        runs=RecordedRuns.of(train, precedents=recipe.precedents, paths=bool(recipe.paths)),
        path_maps=path_maps,
    )
    if foretold is None or assure is None:
        return fitted
    return replace(fitted, path_depths=PathBands(fitted).run_depths())


def _named(split: Split | PaperSplit) -> dict[str, Episodes]:
    """The parts of a split that have episodes, by name; the first is what models are fitted on."""
    named = {
        name: part for name, part in split._asdict().items() if part is not None and name != "rest"
    }
    cut = [name for name, part in named.items() if part.cut_off.any()]
    _check_weights(named, cut)
    if not cut:
        return named
    if not isinstance(split, Split):
        raise CensoredError(
            Argument("censored", "worst-case"),
            f" needs learn and assure, got the paper's parts with cut-off episodes in {cut[0]}; "
            "split with split(learn=0.8, assure=0.2), or leave them out",
        )
    # What is estimated needs outcomes; what is promised counts those that are missing (M24).
    first = next(iter(named))
    return {**named, first: named[first].take(~named[first].cut_off)}


def _check_weights(named: Mapping[str, Episodes], cut: Sequence[str]) -> None:
    """Refuse weights where they are not provided for (M25)."""
    if all(part.weights is None for part in named.values()):
        return
    if "calibrate" in named or "assure" not in named or named["assure"].weights is None:
        raise InputError(
            "weights need assure episodes that have them, and learn, not the paper's parts; split "
            "the weighted episodes with split(learn=0.8, assure=0.2)"
        )
    if cut:
        raise InputError(
            "weights need episodes that all ended, got some that were cut off; leave them out, or "
            "do without weights"
        )


def _chosen_spacing(recipe: Recipe, learn: Episodes) -> Choices:
    """How far apart blocks are centred, chosen on the learning episodes alone."""

    def task(model: Any, some: Episodes, block: Block, rows: int) -> BlockTask:
        return _task(replace(recipe, model=model, steps=None), {"learn": some}, block, rows=rows)

    return choose_spacing(Pilot(recipe.model, learn, recipe.seed, task, recipe.pace))


def _losses_of(recipe: Recipe, model: Any, learn: Episodes) -> FloatArray:
    """(episodes, steps): how well a model tells outcomes of learning episodes that it has not seen.

    Its blocks are those that it would have, but for shorter ones that the episodes may suggest.
    """
    own = replace(recipe, model=model, steps=None)
    if recipe.chooses_spacing and serves_whole_run(model):
        own = _in_one_block(own, learn.horizon)

    def task(model: Any, some: Episodes, block: Block, rows: int) -> BlockTask:
        return _task(own, {"learn": some}, block, rows=rows)

    pilot = Pilot(model, learn, own.seed, task, own.pace, rows=_rows_per_block(own))
    return losses_of(pilot, own.blocks, own.law)


def _in_one_block(recipe: Recipe, horizon: int) -> Recipe:
    blocks, law = plan_blocks(horizon, steps_per_model=horizon)
    return replace(recipe, blocks=blocks, law=law)


def _rows_per_block(recipe: Recipe) -> int:
    """How many rows a block learns from at most, so that the leaves keep to their budget."""
    if serves_whole_run(recipe.model):
        return _MOST_ROWS_OF_RUN
    n_trees = trees_of(recipe.model)
    share = recipe.leaf_entries // (n_trees * len(recipe.blocks))
    return min(_MOST_ROWS, max(_LEAST_ROWS, share))


def _task(
    recipe: Recipe,
    named: Mapping[str, Episodes],
    block: Block,
    *,
    own: str | None = None,
    stage: Stage | None = None,
    rows: int,
    doubted: FloatArray | None = None,
) -> BlockTask:
    """The task of one block: rows to learn from, and rows to answer for."""
    train = next(iter(named.values()))
    reads_step = any(len(one.train_steps) > 1 for one in recipe.blocks)
    answers = recipe.law.steps_of(block.index)

    def read(
        episodes: Episodes, steps: Sequence[int], doubted: FloatArray | None = doubted
    ) -> tuple[StepRows, ...]:
        asked = steps if recipe.steps is None or recipe.steps & set(answers) else ()
        return step_rows(
            episodes,
            asked,
            grid=train.grid,
            reads_step=reads_step,
            pace=recipe.pace,
            doubted=doubted,
        )

    learned = read(train, block.train_steps, None)
    every = -(-sum(map(len, learned)) // rows)
    learned = thinned(learned, max(every, 1), recipe.seed)
    n_episodes = np.unique(np.concatenate([[], *(one.index for one in learned)])).size
    pooled = max(1.0, sum(map(len, learned)) / max(n_episodes, 1))
    asked = {
        name: read(part, answers)
        for name, part in named.items()
        if name == own or part is not train
    }
    if stage is not None:
        asked[REHEARSAL] = stage.asking(
            read(stage.episodes, [t for t in answers if t in stage.steps])
        )
    return BlockTask(
        index=block.index,
        model=fresh_model(
            recipe.model,
            seed=(recipe.seed, *block.seeds),
            n_steps=pooled if len(block.train_steps) > 1 else 1,
        ),
        categorical=train.schema.categorical,
        train=learned,
        asked=asked,
        own=tuple(name for name in (own, REHEARSAL) if name in asked),
    )


def _asking_paths(task: BlockTask, recipe: Recipe, stage: PathStage) -> BlockTask:
    """The task that also ranks the paths of some learning episodes (M22)."""
    answers = set(recipe.law.steps_of(task.index)) if task.train else set()
    asked = step_rows(
        stage.episodes,
        [t for t in stage.steps if t in answers],
        grid=stage.episodes.grid,
        reads_step=any(len(one.train_steps) > 1 for one in recipe.blocks),
        pace=recipe.pace,
    )
    return replace(task, asked={**task.asked, PATHS: stage.asking(asked)}, gains=stage.gains)


def _check_parts(named: Mapping[str, Episodes], bounds: tuple[float, float]) -> None:
    train = next(iter(named.values()))
    if not len(train.schema):
        raise EpisodesError(
            "the episodes have no feature; a state needs at least one that is known before acting"
        )
    for name, part in named.items():
        if part is not train:
            _check_alike(train, part)
        earned = part.reward_range
        if earned is not None and not bounds[0] <= earned[0] <= earned[1] <= bounds[1]:
            wrong = earned[0] if earned[0] < bounds[0] else earned[1]
            raise EpisodesError(
                Argument("reward_bounds", bounds),
                f" do not hold: an episode of {name} earned {wrong:g} in one step; declare wider "
                "bounds, or none",
            )


def _check_alike(train: Episodes, other: Episodes) -> None:
    pairs = {
        "horizon": (train.horizon, other.horizon),
        "behavior": (train.behavior.spec, other.behavior.spec),
        "list of features": (train.schema.names, other.schema.names),
        "kind of features": (_texts(train), _texts(other)),
    }
    for what, (one, another) in pairs.items():
        if one != another:
            raise EpisodesError(
                f"the parts of a split need one {what}, got {one} and {another}; build them "
                "from one recording, or with like="
            )


def _check_disjoint(named: Mapping[str, Episodes]) -> None:
    """No episode may be in two parts: that would void every guarantee."""
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        _, here, there = np.intersect1d(one.ids, other.ids, return_indices=True)
        # Recordings may number their episodes alike: one and the same is the same throughout.
        for t in range(one.horizon):
            if not here.size:
                break
            alike = _same_at(one.take(here), other.take(there), t)
            here, there = here[alike], there[alike]
        if here.size:
            raise CalibrationError(
                f"{here.size} episodes are both in {name} and in {other_name} (first: episode "
                f"{one.ids[here[0]]!s}); split whole episodes, each into one part"
            )


def _same_at(one: Episodes, other: Episodes, t: int) -> BoolArray:
    """Which episodes, pairwise, have the same state and behavior at step t, or are both over."""
    same: BoolArray = (one.lengths > t) == (other.lengths > t)
    alive = np.flatnonzero((one.lengths > t) & (other.lengths > t))
    if alive.size:
        a, b = one.take(alive).at(t), other.take(alive).at(t, grid=one.grid)
        same[alive] &= a.outcomes == b.outcomes
        equal = np.all((a.states == b.states) | (np.isnan(a.states) & np.isnan(b.states)), axis=1)
        equal &= (a.behavior == b.behavior) | (np.isnan(a.behavior) & np.isnan(b.behavior))
        same[alive] &= equal
    return same


def _texts(episodes: Episodes) -> list[bool]:
    return [feature.categories is not None for feature in episodes.schema.features]


def _unseen(recipe: Recipe) -> Unseen:
    """What an unseen category is: missing only where the model takes missing values (M18)."""
    return "missing" if recipe.unseen == "missing" and takes_missing(recipe.model) else "error"


def _groups(recipe: Recipe, calibrating: Episodes) -> tuple[Any, ...] | None:
    if recipe.group is None:
        return None
    if calibrating.groups is None or calibrating.roles.group != recipe.group:
        raise GroupError(
            Argument("group", recipe.group),
            f" needs episodes with that group column, these have {calibrating.roles.group!r}",
        )
    names, counts = np.unique(calibrating.groups, return_counts=True)
    small = counts < recipe.min_calibration
    if small.any():
        i = int(np.argmax(small))
        raise GroupError(
            f"group {names[i]!s} has {counts[i]} episodes to calibrate it, fewer than "
            f"min_calibration={recipe.min_calibration}; record more of it, or leave it out"
        )
    return tuple(names.tolist())


def _codes(episodes: Episodes, groups: Sequence[Any] | None) -> IndexArray:
    """The number of each episode's group; one that was not calibrated has none, -1."""
    if groups is None or episodes.groups is None:
        return np.zeros(len(episodes), dtype=np.intp)
    place = {name: number for number, name in enumerate(groups)}
    return np.array([place.get(name, -1) for name in episodes.groups.tolist()], dtype=np.intp)


def _may_miss(train: Episodes, schema: Schema) -> BoolArray:
    """The features that are ever missing in training, so that a missing one is no surprise.

    And those of which an unseen category is a missing value.
    """
    found = np.array([one.unseen == "missing" for one in schema.features], dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found


def _digest(recipe: Recipe, named: Mapping[str, Episodes]) -> str:
    parts = [part.compact() for part in named.values()]
    # What a model may do without changing what it learns has no part in the name.
    parameters: dict[str, Any] = getattr(recipe.model, "get_params", dict)()
    parameters = {name: one for name, one in parameters.items() if name != "n_jobs"}
    description = {
        "model": [type(recipe.model).__name__, repr(sorted(parameters.items()))],
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in recipe.blocks],
        "law": [recipe.law.at(t) for t in range(recipe.law.horizon)],
        "leaf_entries": recipe.leaf_entries,
        "parts": list(named),
        "group": recipe.group,
        "steps": None if recipe.steps is None else sorted(recipe.steps),
        "seed": recipe.seed,
        "paths": recipe.paths,
        "ids": [[str(one) for one in part.ids.tolist()] for part in parts],
        "groups": [None if p.groups is None else p.groups.tolist() for p in parts],
        "features": [part.schema.to_json() for part in parts],
        "behavior": [part.behavior.spec for part in parts],
    }
    stores = [part._store for part in parts]
    arrays: Sequence[AnyArray] = [
        array for s in stores for array in (s.states, s.before, s.outcomes, s.lengths)
    ]
    return digest_of(description, arrays)
