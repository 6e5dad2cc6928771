"""Fitting a monitor: from a split of episodes to everything it needs to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Behavior, Episodes, PaperSplit, Schema, Split, Translation
from ontarget.episodes._dictionaries import learned_schema
from ontarget.episodes._fingerprints import fingerprints, known_by
from ontarget.episodes._history import state_schema
from ontarget.episodes.schema import Unseen
from ontarget.errors import (
    Argument,
    CalibrationError,
    CensoredError,
    EpisodesError,
    GroupError,
    InputError,
)
from ontarget.fitted._curves import CurveTable, learned_curves
from ontarget.fitted.blocks import Block, opened, plan_blocks
from ontarget.fitted.choices import Choices
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitted.paths._maps import NO_MAPS
from ontarget.fitted.paths.bands import PathBands
from ontarget.fitted.ranks import RankTable
from ontarget.fitted.recorded import RecordedRuns
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.fitting._answering import Answerer, kept_episodes, ranks_in_tasks
from ontarget.fitting._choosing import best_model
from ontarget.fitting._impossible import (
    Limits,
    doubted_outcomes,
    impossible_outcomes,
    without_impossible,
)
from ontarget.fitting._opening import opening_share, with_opening
from ontarget.fitting._path_ranks import learned_maps
from ontarget.fitting._rehearsing import REHEARSAL, rehearsed
from ontarget.fitting._spacing import Pilot, choose_spacing, losses_of
from ontarget.fitting.checkpoints import Checkpoint, digest_of
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.ranking import Part, blended_limits, rank_table, whole_run_excess
from ontarget.fitting.recipe import Plan, Recipe, block_task, fit_numbered, rows_per_block
from ontarget.fitting.tasks import PATHS, BlockResult, BlockTask, fit_block, pace_of, step_rows
from ontarget.models._entry import (
    check_model,
    fits_side_by_side,
    serves_whole_run,
    takes_missing,
)

__all__ = ["Preset", "fit_monitor", "preset_model"]

Preset: TypeAlias = Literal["default", "paper"]

# Paths of so many steps together take 40 MB of a model file.
_MOST_PATH_STEPS = 5_000_000


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
    _check_successors(recipe.model, named[first].behavior)
    # The dictionary comes from the first part alone: no other may add to it (M14).
    schema = learned_schema(named[first], _unseen(recipe))
    named = {name: part.recoded(schema) for name, part in named.items()}
    _check_disjoint(named)
    if "assure" in named and _counts_others(named["assure"]):
        named["assure"] = kept_episodes(named["assure"], recipe.seed)
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
        recipe = recipe.in_one_block(train.horizon)
    elif recipe.chooses_spacing and own is not None:
        chosen = replace(_chosen_spacing(recipe, train), models=chosen.models)
        blocks, law = plan_blocks(train.horizon, spacing=chosen.spacing)
        recipe = replace(recipe, blocks=blocks, law=law)
    pooled = recipe
    if chosen.trials and train.horizon > 1:
        blocks, law = with_opening(recipe.blocks, recipe.law)
        recipe = replace(recipe, blocks=blocks, law=law)
    plan = Plan(
        recipe,
        train,
        own=own,
        sets_alarms="assure" not in named,
        doubted=doubted_outcomes(train) if own is not None else np.empty(0),
    )
    results = _fitted_blocks(plan, named, engine=engine, progress=progress, checkpoint=checkpoint)
    stage = plan.stage
    if stage is not None and recipe is not pooled:
        asked = plan.task(len(results) - 1).asked[REHEARSAL]
        share = opening_share(results, pooled.law, stage, asked)
        chosen = replace(chosen, opening=share)
        recipe = replace(recipe, law=opened(pooled.law, share)) if share else pooled
        results = results[: len(recipe.blocks)]

    impossible = np.empty(0)
    if own is not None and plan.doubted.size:
        impossible = impossible_outcomes(blended_limits(results, recipe.law, own), plan.doubted)

    def limits_of(name: str, episodes: Episodes) -> Limits:
        """Both limits of each step's law at what the learning episodes asked."""
        found = blended_limits(results, recipe.law, name)
        if not plan.doubted.size:
            return found
        asked = step_rows(episodes, list(found), doubted=plan.doubted, **plan.reading)
        if stage is not None and name == REHEARSAL:
            asked = stage.asking(asked)
        y = {one.step: one.y for one in asked}
        return without_impossible(found, y, plan.doubted, impossible)

    answerer = Answerer(
        models=tuple(result.model for result in results),
        law=recipe.law,
        doubted=plan.doubted,
        impossible=impossible,
        **plan.reading,
    )

    def part_of(name: str) -> Part:
        return Part(name, named[name], _codes(named[name], groups), may_miss)

    curves: CurveTable | None = None
    if own is not None:
        learned = rank_table(
            limits_of(own, train),
            part_of(own),
            horizon=train.horizon,
            n_groups=n_groups,
            seed=recipe.seed,
            thin=False,
        )
        curves = learned_curves(learned)
    ranks = RankTable.of([np.empty(0)] * (train.horizon * n_groups), n_groups)
    if ranked in named:
        ranks = ranks_in_tasks(
            answerer,
            part_of(ranked),
            n_groups=n_groups,
            seed=recipe.seed,
            engine=engine,
            progress=progress,
        )
    assure, excess = None, np.empty(0)
    if "assure" in named:
        assure = kept_episodes(named["assure"], recipe.seed).compact()
        kept = Part("assure", assure, _codes(assure, groups), may_miss)
        excess = whole_run_excess(answerer.limits(assure), kept, ranks, curves)
    rehearsal: Rehearsal | None = None
    if stage is not None:
        limits = limits_of(REHEARSAL, stage.episodes)
        rehearsal = rehearsed(limits, stage, _codes(stage.episodes, groups), recipe.seed)
    path_maps = NO_MAPS
    if plan.foretold is not None:
        asked_paths = blended_limits(results, recipe.law, PATHS)
        path_maps = learned_maps(asked_paths, plan.foretold, recipe.seed)
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
        assure=assure,
        excess=excess,
        pace=recipe.pace,
        impossible=impossible,
        trained=Trained(
            parameters=recipe.parameters,
            seed=recipe.seed,
            sizes={**sizes, "assure": sizes.get("assure", 0)},
            roles=train.roles,
            censoring=train.censoring,
            fingerprints=read_only(np.concatenate([known_by(part) for part in named.values()])),
            chosen=chosen.with_experts(result.model for result in results),
        ),
        rehearsal=rehearsal,
        runs=RecordedRuns.of(train, precedents=recipe.precedents, paths=bool(recipe.paths)),
        path_maps=path_maps,
        history=train.history,
    )
    if plan.foretold is None or assure is None:
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


def _counts_others(assure: Episodes) -> bool:
    """Whether ranks stand beside cut-off episodes or weights, so that they cannot be thinned."""
    return assure.weights is not None or bool(assure.cut_off.any())


def _chosen_spacing(recipe: Recipe, learn: Episodes) -> Choices:
    """How far apart blocks are centred, chosen on the learning episodes alone."""

    def task(model: Any, some: Episodes, block: Block, rows: int) -> BlockTask:
        return block_task(replace(recipe, model=model, steps=None), some, block, rows=rows)

    return choose_spacing(Pilot(recipe.model, learn, recipe.seed, task, recipe.pace))


def _losses_of(recipe: Recipe, model: Any, learn: Episodes) -> FloatArray:
    """(episodes, steps): how well a model tells outcomes of learning episodes that it has not seen.

    Its blocks are those that it would have, but for shorter ones that the episodes may suggest.
    """
    own = replace(recipe, model=model, steps=None)
    if recipe.chooses_spacing and serves_whole_run(model):
        own = own.in_one_block(learn.horizon)

    def task(model: Any, some: Episodes, block: Block, rows: int) -> BlockTask:
        return block_task(own, some, block, rows=rows)

    pilot = Pilot(model, learn, own.seed, task, own.pace, rows=rows_per_block(own))
    return losses_of(pilot, own.blocks, own.law)


def _fitted_blocks(
    plan: Plan,
    named: Mapping[str, Episodes],
    *,
    engine: Engine,
    progress: bool,
    checkpoint: str | Path | None,
) -> list[BlockResult]:
    """Phase one: every block fitted, wherever the engine runs it."""
    recipe, kept = plan.recipe, None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, _digest(recipe, named), lambda i: plan.task(i).asked)
    options: dict[str, Any] = {
        "engine": engine,
        "checkpoint": kept,
        "progress": progress,
        "side_by_side": fits_side_by_side(recipe.model),
    }
    n_blocks = len(recipe.blocks)
    if plan.train.is_prepared:
        return run_tasks(fit_numbered, lambda index: (plan, index), n_blocks, **options)
    return run_tasks(fit_block, plan.task, n_blocks, **options)


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


def _check_successors(model: Any, behavior: Behavior) -> None:
    """Refuse to imagine outcomes that are not what was earned in between and what follows (M23)."""
    extreme = behavior.translation in (Translation.FLOOR, Translation.CEILING)
    if getattr(model, "successors", False) and (extreme or behavior.scale(1) != 1.0):
        raise InputError(
            Argument("successors"),
            f" needs a behavior that adds up without a discount, or none that does, got "
            f"{behavior.spec}; fit with successors=False",
        )


def _check_alike(train: Episodes, other: Episodes) -> None:
    pairs = {
        "horizon": (train.horizon, other.horizon),
        "behavior": (train.behavior.spec, other.behavior.spec),
        "history": (train.history, other.history),
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
    """The columns of states that ever miss a value in training, where one is no surprise.

    And those of which an unseen category is a missing value.
    """
    columns = state_schema(schema, train.history).features
    found = np.array([one.unseen == "missing" for one in columns], dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found


def _digest(recipe: Recipe, named: Mapping[str, Episodes]) -> str:
    train = next(iter(named.values()))
    # Other parts ask nothing of a block. What a model may do without changing what it learns has no
    # part in the name.
    parameters: dict[str, Any] = getattr(recipe.model, "get_params", dict)()
    parameters = {name: one for name, one in parameters.items() if name != "n_jobs"}
    description = {
        "model": [type(recipe.model).__name__, repr(sorted(parameters.items()))],
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in recipe.blocks],
        "law": [recipe.law.at(t) for t in range(recipe.law.horizon)],
        "leaf_entries": recipe.leaf_entries,
        "parts": list(named),
        "steps": None if recipe.steps is None else sorted(recipe.steps),
        "seed": recipe.seed,
        "paths": recipe.paths,
        "features": train.schema.to_json(),
        "history": train.history,
        "behavior": train.behavior.spec,
    }
    return digest_of(description, [fingerprints(train)])
