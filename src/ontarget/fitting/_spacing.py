"""Chooses by trials what the models read, and how far apart their blocks are centred (M16)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, KeyArray
from ontarget.episodes import Episodes
from ontarget.episodes.history import History
from ontarget.fitted.blocks import (
    LEAST_SPACING,
    Block,
    LawTable,
    blended_blocks,
    first_spacing,
)
from ontarget.fitted.choices import Choices, Extra, Trial
from ontarget.fitting._histories import proposed_history
from ontarget.fitting.engines import run_tasks
from ontarget.fitting.recipe import Recipe, block_task
from ontarget.fitting.tasks import (
    BlockTask,
    StepRows,
    episodes_of,
    fit_block,
    honest_limits,
    learned_guide,
    step_rows,
)
from ontarget.models.entry import fits_side_by_side
from ontarget.models.mixture import weighted

# A forest for a trial is small and learns from few rows: it only has to compare blocks.
_TREES, _FOLDS, _ROWS = 24, 2, 5_000
_EPISODES, _STEPS, _THRESHOLDS = 2_000, 12, 16
_FEWEST = 100  # with fewer episodes, the choice would be chance
_FOREST = ("forest",)
_LONG = 100  # shorter runs need no model of whole runs: their blocks see enough of them


@dataclass(frozen=True)
class Pilot:
    """A recipe (what to fit), and the learning episodes on which it is tried."""

    recipe: Recipe
    learn: Episodes
    reach: int


def choose(pilot: Pilot) -> tuple[Pilot, Choices]:
    """The recipe that predicts held-out outcomes best, with its episodes, and all trials."""
    horizon, reach = pilot.learn.horizon, pilot.reach
    spacing = first_spacing(reach)
    if len(pilot.learn) < _FEWEST or not hasattr(pilot.recipe.model, "out_of_bag_limits"):
        return pilot, Choices(spacing)
    blocks = blended_blocks(horizon, spacing, reach)
    chosen = Choices(spacing)
    for extra, (added, expert) in _EXTRAS.items():
        other = added(pilot)
        if other is not None:
            before, after = (_losses_of(_few(one, expert), *blocks) for one in (pilot, other))
            trial = _tried(spacing, before - after)
            chosen = replace(chosen, extras={**chosen.extras, extra: trial})
            pilot = other if chosen.takes(extra) else pilot
    few = _few(pilot, _FOREST)
    best, trials = _losses_of(few, *blocks), [Trial(spacing)]
    while (shorter := max(math.ceil(spacing / 2), LEAST_SPACING)) < spacing:
        losses = _losses_of(few, *blended_blocks(horizon, shorter, reach))
        trials.append(_tried(shorter, best - losses))
        if not trials[-1].sure:
            break
        spacing, best = shorter, losses
    return pilot, replace(chosen, spacing=spacing, trials=tuple(trials))


def _recalling(pilot: Pilot) -> Pilot | None:
    """The same trial with models that also read the run so far; None if there is nothing to add."""
    history = proposed_history(pilot.learn) if pilot.recipe.chooses_history else History()
    return replace(pilot, learn=pilot.learn.with_history(history)) if history else None


def _guided(pilot: Pilot) -> Pilot | None:
    """The same trial with a guide, a model of the mean for all steps; only if runs are long."""
    if pilot.reach < _LONG:
        return None
    recipe, learn = pilot.recipe, pilot.learn
    guide = learned_guide(learn, grid=learn.grid, pace=recipe.pace, seed=recipe.seed)
    return replace(pilot, recipe=replace(recipe, guide=guide))


# How each extra is added to a trial, and the experts that try it: all of them, or one forest.
_EXTRAS: Mapping[Extra, tuple[Callable[[Pilot], Pilot | None], tuple[str, ...]]] = {
    "history": (_recalling, ()),
    "guide": (_guided, _FOREST),
}


def _tried(spacing: int, gains: FloatArray) -> Trial:
    """The record of one trial of how far apart blocks are: the mean gain, its standard error."""
    gain = np.nanmean(gains[np.isfinite(gains).any(axis=1)], axis=1)
    if not gain.size:
        return Trial(spacing, 0.0, 0.0)
    return Trial(spacing, float(gain.mean()), float(gain.std()) / math.sqrt(gain.size))


def _few(pilot: Pilot, experts: tuple[str, ...]) -> Pilot:
    """The inputs of a faster trial: with small forests and at most 2,000 episodes."""
    recipe = pilot.recipe
    own = recipe.model.get_params(deep=False)
    small = {"n_trees": _TREES, "n_folds": _FOLDS}
    fewer: dict[str, Any] = {name: min(own[name], small[name]) for name in small if name in own}
    if experts and "experts" in own:
        fewer["experts"] = experts
    model = type(recipe.model)(**own).set_params(**fewer)
    order = np.argsort(keyed_hash(pilot.learn.keys, recipe.seed, "pilot"), kind="stable")
    return replace(
        pilot,
        recipe=replace(recipe, model=model, steps=None),
        learn=pilot.learn.take(np.sort(order[:_EPISODES])),
    )


def _losses_of(pilot: Pilot, blocks: tuple[Block, ...], law: LawTable) -> FloatArray:
    """(episodes, steps): the CRPS with these blocks, in units of each step's spread."""
    recipe, learn = pilot.recipe, pilot.learn
    asked = np.unique(np.linspace(0, pilot.reach - 1, _STEPS).round().astype(int)).tolist()
    found = np.full((len(learn), len(asked)), np.nan)
    needed = {block for t in asked for _, block in law.at(t)}
    chosen = [block for block in blocks if block.index in needed]
    fits = run_tasks(
        _fitted_alone,
        lambda k: block_task(recipe, learn, chosen[k], rows=_ROWS),
        len(chosen),
        engine="local",
        checkpoint=None,
        progress=False,
        side_by_side=fits_side_by_side(recipe.model),
    )
    models = {block.index: fit for block, fit in zip(chosen, fits, strict=True)}
    for place, t in enumerate(asked):
        entries = [(weight, *models[block]) for weight, block in law.at(t)]
        if any(model is None for _, model, _ in entries):
            continue
        reads_step = any(len(block.train_steps) > 1 for block in blocks)
        asked_rows = step_rows(
            learn,
            [t],
            grid=learn.grid,
            reads_step=reads_step,
            pace=recipe.pace,
            guide=recipe.guide,
        )
        for rows in asked_rows:
            found[rows.index, place] = _crps(rows, entries)
    return found


def _fitted_alone(task: BlockTask) -> tuple[Any, KeyArray | None]:
    """The task's fitted model, and the keys (hashed ids) of the episodes that it was fitted on."""
    return fit_block(task).model, episodes_of(task.train) if task.train else None


def _crps(rows: StepRows, entries: list[tuple[float, Any, Any]]) -> FloatArray:
    """(rows,): an approximate CRPS, a score of predicted distributions (lower is better)."""
    levels = (np.arange(_THRESHOLDS) + 0.5) / _THRESHOLDS
    thresholds = np.unique(np.quantile(rows.y, levels, method="inverted_cdf"))
    panel = np.tile(thresholds, (len(rows), 1))
    answers = [
        honest_limits(model, rows.X, panel, rows.keys, learned)[1] for _, model, learned in entries
    ]
    mass = weighted([weight for weight, _, _ in entries], answers)
    under = rows.y[:, None] <= thresholds
    marginal = under.mean(axis=0)
    spread = float((marginal * (1.0 - marginal)).mean())
    loss: FloatArray = np.square(mass - under).mean(axis=1)
    return loss / spread if spread > 0.0 else np.zeros(len(rows))
