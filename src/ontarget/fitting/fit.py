"""Fits a monitor: from a split of episodes to everything that the monitor needs to answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import FloatArray
from ontarget.episodes import Episodes, PaperSplit, Split
from ontarget.episodes.facts import fingerprints, known_by
from ontarget.errors import EpisodesWarning
from ontarget.fitted._curves import CurveTable, learned_curves
from ontarget.fitted.blocks import opened, plan_blocks
from ontarget.fitted.choices import Choices
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitted.paths._maps import NO_MAPS, PathMaps
from ontarget.fitted.ranks import RankTable
from ontarget.fitted.recorded import RecordedRuns
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.fitting._answering import (
    Answerer,
    kept_episodes,
    limits_in_tasks,
    ranks_in_tasks,
)
from ontarget.fitting._ground import Ground, ground_of
from ontarget.fitting._impossible import (
    Limits,
    doubted_outcomes,
    impossible_outcomes,
    without_impossible,
)
from ontarget.fitting._opening import opening_share, with_opening
from ontarget.fitting._path_ranks import learned_maps
from ontarget.fitting._rehearsing import REHEARSAL, rehearsed
from ontarget.fitting._spacing import Pilot, choose
from ontarget.fitting.checkpoints import Checkpoint, digest_of
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.ranking import Part, blended_limits, rank_table, surprise, whole_run_excess
from ontarget.fitting.recipe import Plan, Recipe, fit_numbered
from ontarget.fitting.tasks import (
    PATHS,
    BlockResult,
    fit_block,
    pace_of,
    step_rows,
)
from ontarget.models._entry import fits_side_by_side, honest_model, serves_whole_run

Preset: TypeAlias = Literal["default", "paper"]

# A block may end where fewer learning episodes are left, or fewer than a fifth of a small log.
_ENOUGH = 100
# Paths with this many steps in total take 40 MB of a model file.
_MOST_PATH_STEPS = 5_000_000
# A gap of so many standard errors is no chance; with fewer episodes there is no telling.
_SURELY, _ENOUGH_SURPRISES = 3.5, 50


def preset_model(preset: Preset) -> Any:
    """The unfitted model of a preset.

    The paper gives no leaf size, so the forest of ``preset="paper"`` uses the default of
    `QuantileForest`, as in `ontarget paper`. The model of the default preset is a `StackedForest`
    with its own defaults (method M16 in docs/methods.md).
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
    """The contents of a fitted monitor. They do not depend on the engine.

    Phase one fits the blocks (ranges of steps that share a model), wherever the engine runs them.
    Phase two runs in this process: it mixes the predictions of the blocks and computes calibration
    curves, ranks (where outcomes fell in their predicted distributions) and excesses (the largest
    distance, over all steps, of an outcome from the middle of its predicted distribution). The
    curves come from the learning episodes, each predicted by models that have not seen it; ranks
    and excesses come from the assure episodes, which no model has seen (method M16 in
    docs/methods.md). With ``preset="paper"`` there are no curves, and the ranks come from the
    calibrate episodes.
    """
    ground = ground_of(recipe, split)
    recipe, ground, chosen = _settled(recipe, ground)
    blended = _blended(recipe, chosen, ground, engine, progress=progress, checkpoint=checkpoint)
    recipe, train = blended.recipe, ground.train
    learned = {} if ground.own is None else blended.limits(ground.own, train)
    curves = _learned_curves(blended, ground, learned)
    ranks, assure, excess = _assured(blended, ground, curves, learned, engine, progress=progress)
    return Fitted(
        schema=ground.schema,
        behavior=train.behavior,
        horizon=train.horizon,
        horizon_declared=train.horizon_declared,
        grid=train.grid,
        reward_bounds=recipe.reward_bounds,
        blocks=recipe.blocks,
        law=recipe.law,
        models=blended.answerer.models,
        ranks=ranks,
        curves=curves,
        groups=ground.groups,
        min_calibration=recipe.min_calibration,
        may_miss=ground.may_miss,
        assure=assure,
        excess=excess,
        guide=recipe.guide,
        pace=recipe.pace,
        impossible=blended.answerer.impossible,
        trained=_trained(blended, ground),
        rehearsal=_rehearsal(blended, ground),
        runs=RecordedRuns.of(train, precedents=recipe.precedents, paths=bool(recipe.paths)),
        path_maps=_path_maps(blended),
        history=train.history,
    )


@dataclass(frozen=True)
class _Blended:
    """The fitted blocks, and how their predictions are mixed: the input of a fit's second phase.

    A block is a range of steps that share a model.
    """

    recipe: Recipe
    chosen: Choices
    plan: Plan
    results: list[BlockResult]
    answerer: Answerer

    def limits(self, name: str, episodes: Episodes) -> Limits:
        """For each step, the predicted P(remainder < y) and P(remainder <= y) of each row.

        The remainder is what is still to earn. ``name`` is the name of a set of rows that the
        fitted models answered for, and ``episodes`` are the episodes of these rows.
        """
        plan = self.plan
        found = blended_limits(self.results, self.recipe.law, name)
        if not plan.doubted.size:
            return found
        asked = step_rows(episodes, list(found), doubted=plan.doubted, **plan.reading)
        if plan.stage is not None and name == REHEARSAL:
            asked = plan.stage.asking(asked)
        y = {one.step: one.y for one in asked}
        return without_impossible(found, y, plan.doubted, self.answerer.impossible)


def _assured(
    blended: _Blended,
    ground: Ground,
    curves: CurveTable | None,
    learned: Limits,
    engine: Engine,
    *,
    progress: bool,
) -> tuple[RankTable, Episodes | None, FloatArray]:
    """The ranks, the assure episodes that the monitor keeps, and the excesses of these episodes.

    A rank is where an outcome fell in its predicted distribution. Assure episodes are the held-out
    runs that back the promises. The excess of an episode is the largest distance, over all steps,
    of its outcome from the predicted median; see `whole_run_excess`. ``learned`` has the predicted
    probabilities at the outcomes of the learning episodes.
    """
    answerer, n_groups, seed = blended.answerer, ground.n_groups, blended.recipe.seed
    named, horizon = ground.named, ground.train.horizon
    ranks = RankTable.of([np.empty(0)] * (horizon * n_groups), n_groups)
    every = named.get("assure")
    kept = None if every is None else kept_episodes(every, seed)
    if every is not None and ground.ranked == "assure" and kept is every and not every.is_prepared:
        # All episodes are kept, so the same predictions give the ranks and the excesses.
        limits, part = limits_in_tasks(answerer, every), ground.part("assure")
        ranks = rank_table(limits, part, horizon=horizon, n_groups=n_groups, seed=seed)
        _warn_of_a_leak(ground, learned, limits, part)
        return ranks, every.compact(), whole_run_excess(limits, part, ranks, curves)
    if ground.ranked in named:
        ranks = ranks_in_tasks(
            answerer,
            ground.part(ground.ranked),
            n_groups=n_groups,
            seed=seed,
            engine=engine,
            progress=progress,
        )
    if kept is None:
        return ranks, None, np.empty(0)
    kept = kept.compact()
    part, limits = ground.part_of("assure", kept), dict(answerer.limits(kept))
    _warn_of_a_leak(ground, learned, limits, part)
    return ranks, kept, whole_run_excess(limits, part, ranks, curves)


def _warn_of_a_leak(ground: Ground, learned: Limits, assured: Limits, part: Part) -> None:
    """Warn if outcomes of assure episodes are predicted worse than those of learning episodes.

    Predictions of learning episodes come from models that did not learn from them, so they should
    be as good. This only warns: nothing that is estimated may depend on it (method M29).
    """
    if ground.own is None:
        return
    surprises = [surprise(learned, ground.part(ground.own)), surprise(assured, part)]
    if min(one.size for one in surprises) < _ENOUGH_SURPRISES:
        return
    gap = surprises[1].mean() - surprises[0].mean()
    error = np.sqrt(sum(one.var(ddof=1) / one.size for one in surprises))
    if gap > _SURELY * error:
        warnings.warn(
            f"the models predict the {surprises[1].size:,} assure episodes, which were held out, "
            f"worse than the learn episodes, by {gap / error:.1f} standard errors: p is surer than "
            "it should be, though promises hold. Look for a feature that differs in nearly every "
            "run, such as a name, and leave it out; or the assure episodes are no random choice",
            EpisodesWarning,
            stacklevel=2,
        )


def _settled(recipe: Recipe, ground: Ground) -> tuple[Recipe, Ground, Choices]:
    """The recipe and the episodes after all choices that learning episodes make; these choices.

    A recipe says what to fit. The choices are which steps share a model, and what models read.
    """
    train, chosen = ground.train, Choices()
    if ground.own is not None:
        recipe = replace(recipe, model=honest_model(recipe.model))
    if recipe.paths is None:
        recipe = replace(recipe, paths=int(train.lengths.sum()) <= _MOST_PATH_STEPS)
    if ground.own is not None and any(len(b.train_steps) > 1 for b in recipe.blocks):
        recipe = replace(recipe, pace=pace_of(train))
    if recipe.chooses_spacing and serves_whole_run(recipe.model):
        recipe = recipe.in_one_block(train.horizon)
    elif recipe.chooses_spacing and ground.own is not None:
        reach = _reach(train, recipe.min_calibration)
        pilot, chosen = choose(Pilot(recipe, train, reach))
        blocks, law = plan_blocks(train.horizon, spacing=chosen.spacing, reach=reach)
        recipe = replace(pilot.recipe, blocks=blocks, law=law)
        ground = ground.recalling(pilot.learn.history)
    return recipe, ground, chosen


def _blended(
    recipe: Recipe,
    chosen: Choices,
    ground: Ground,
    engine: Engine,
    *,
    progress: bool,
    checkpoint: str | Path | None,
) -> _Blended:
    """All fitted blocks (models of ranges of steps), ready to be mixed.

    There is also a separate model of the first step, if that predicts better.
    """
    train, own, pooled = ground.train, ground.own, recipe
    if chosen.trials and train.horizon > 1:
        blocks, law = with_opening(recipe.blocks, recipe.law)
        recipe = replace(recipe, blocks=blocks, law=law)
    plan = Plan(
        recipe,
        train,
        own=own,
        sets_alarms="assure" not in ground.named,
        doubted=doubted_outcomes(train) if own is not None else np.empty(0),
    )
    results = _fitted_blocks(
        plan, ground.named, engine=engine, progress=progress, checkpoint=checkpoint
    )
    if plan.stage is not None and recipe is not pooled:
        asked = plan.task(len(results) - 1).asked[REHEARSAL]
        share = opening_share(results, pooled.law, plan.stage, asked)
        chosen = replace(chosen, opening=share)
        recipe = replace(recipe, law=opened(pooled.law, share)) if share else pooled
        results = results[: len(recipe.blocks)]
    impossible = np.empty(0)
    if own is not None and plan.doubted.size:
        impossible = impossible_outcomes(blended_limits(results, recipe.law, own), plan.doubted)
    answerer = Answerer(
        models=tuple(result.model for result in results),
        law=recipe.law,
        doubted=plan.doubted,
        impossible=impossible,
        **plan.reading,
    )
    return _Blended(recipe, chosen, plan, results, answerer)


def _learned_curves(blended: _Blended, ground: Ground, learned: Limits) -> CurveTable | None:
    """The calibration curves of each step, from learning episodes; None with ``preset="paper"``."""
    if ground.own is None:
        return None
    ranks = rank_table(
        learned,
        ground.part(ground.own),
        horizon=ground.train.horizon,
        n_groups=ground.n_groups,
        seed=blended.recipe.seed,
        thin=False,
    )
    # Where few runs are left, the last block learned from earlier steps too, so it may answer.
    least = blended.recipe.min_calibration if blended.recipe.chooses_spacing else 0
    return learned_curves(ranks, least)


def _rehearsal(blended: _Blended, ground: Ground) -> Rehearsal | None:
    stage = blended.plan.stage
    if stage is None:
        return None
    limits = blended.limits(REHEARSAL, stage.episodes)
    return rehearsed(limits, stage, ground.codes(stage.episodes), blended.recipe.seed)


def _path_maps(blended: _Blended) -> PathMaps:
    if blended.plan.foretold is None:
        return NO_MAPS
    asked = blended_limits(blended.results, blended.recipe.law, PATHS)
    return learned_maps(asked, blended.plan.foretold, blended.recipe.seed)


def _trained(blended: _Blended, ground: Ground) -> Trained:
    """A record of the fit: its settings, its episodes, and the choices made with the episodes."""
    recipe, train = blended.recipe, ground.train
    sizes = {name: len(part) for name, part in ground.named.items()}
    known = [known_by(part) for part in ground.named.values()]
    return Trained(
        parameters=recipe.parameters,
        seed=recipe.seed,
        sizes={**sizes, "assure": sizes.get("assure", 0)},
        roles=train.roles,
        censoring=train.censoring,
        fingerprints=read_only(np.concatenate(known)),
        chosen=blended.chosen.with_experts(blended.answerer.models),
    )


def _reach(learn: Episodes, least: int) -> int:
    """How many steps enough of the learning episodes reach, at least 1."""
    wanted = max(least, min(_ENOUGH, len(learn) // 5))
    alive = np.cumsum(np.bincount(learn.lengths, minlength=learn.horizon + 1)[::-1])[::-1][1:]
    return max(1, int(np.count_nonzero(alive >= wanted)))


def _fitted_blocks(
    plan: Plan,
    named: Mapping[str, Episodes],
    *,
    engine: Engine,
    progress: bool,
    checkpoint: str | Path | None,
) -> list[BlockResult]:
    """Phase one of a fit: every fitted block, in order, wherever the engine fits them.

    A block is a range of steps that share a model.
    """
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


def _digest(recipe: Recipe, named: Mapping[str, Episodes]) -> str:
    train = next(iter(named.values()))
    # The other parts do not change a fitted block, and n_jobs does not change what a model learns.
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
        "guided": recipe.guide is not None,
        "paths": recipe.paths,
        "features": train.schema.to_json(),
        "history": train.history.to_json(),
        "behavior": train.behavior.spec,
    }
    return digest_of(description, [fingerprints(train)])
