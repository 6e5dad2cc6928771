"""Chooses what models read and which steps share one, by trials on learning episodes (M16)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, KeyArray
from ontarget.episodes import Episodes
from ontarget.episodes.history import NO_HISTORY, History, measured, state_schema
from ontarget.errors import EpisodesError
from ontarget.fitted.blocks import (
    LEAST_SPACING,
    Block,
    LawTable,
    blended_blocks,
    first_spacing,
    opened,
)
from ontarget.fitted.choices import Choices, Extra, Trial
from ontarget.fitting._rehearsing import REHEARSAL, Stage
from ontarget.fitting.engines import run_tasks
from ontarget.fitting.recipe import Recipe, block_task
from ontarget.fitting.tasks import (
    BlockResult,
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

# A feature that changes in a smaller share of the runs says little by its history.
_OFTEN: Final = 0.1
# Many columns would hide the few that matter, and a category of few runs cannot be learned from.
_MOST_NUMBERS: Final = 12
_MOST_CATEGORIES: Final = 32
_LEAST_RUNS: Final = 20
_MOST_VALUES: Final = 100_000_000  # of all added columns


def proposed_history(learn: Episodes) -> History:
    """Running counts of categories, and changes and running means of numbers; for event logs."""
    is_number = measured(learn.schema)
    if learn.is_prepared or learn.horizon < 2 or is_number.all():
        return NO_HISTORY
    share = _changing(learn)
    often = [int(j) for j in np.argsort(-share, kind="stable") if share[j] >= _OFTEN]
    numbers = tuple(sorted([j for j in often if is_number[j]][:_MOST_NUMBERS]))
    counts = _frequent(learn, [j for j in often if not is_number[j]])
    if not counts:
        return NO_HISTORY
    if int(learn.lengths.sum()) * (2 * len(numbers) + len(counts)) > _MOST_VALUES:
        return NO_HISTORY
    history = History(changes=numbers, means=numbers, counts=counts)
    try:
        state_schema(learn.schema, history)
    except EpisodesError:  # a feature already has one of these names
        return NO_HISTORY
    return history


def _changing(learn: Episodes) -> FloatArray:
    """For each feature, the share of runs in which its value changes."""
    changed = np.zeros((len(learn), len(learn.schema)), dtype=np.bool_)
    before = learn.at(0)
    for t in range(1, learn.horizon):
        step = learn.at(t)
        if not len(step):
            break
        last = before.states[np.searchsorted(before.index, step.index)]
        known = ~(np.isnan(last) | np.isnan(step.states))
        changed[step.index] |= known & (last != step.states)
        before = step
    share: FloatArray = changed.mean(axis=0)
    return share


def _frequent(learn: Episodes, features: list[int]) -> tuple[tuple[int, int], ...]:
    """The categories of these features that occur in most runs, as (feature, code) pairs."""
    pairs, runs = [], []
    for j in sorted(features):
        found = []
        for t in range(learn.horizon):
            step = learn.at(t)
            codes = step.states[:, j]
            known = np.flatnonzero((codes >= 0.0) & (codes == np.floor(codes)))
            found.append(codes[known].astype(np.int64) * len(learn) + step.index[known])
        occurring = np.unique(np.concatenate(found)) // len(learn)  # once a run
        codes, counts = np.unique(occurring, return_counts=True)
        pairs += [(j, code) for code in codes.tolist()]
        runs += counts.tolist()
    order = np.argsort(-np.array(runs, dtype=np.int64), kind="stable")[:_MOST_CATEGORIES]
    return tuple(sorted(pairs[k] for k in order if runs[k] >= _LEAST_RUNS))


# A forest for a trial is small and learns from few rows: it only has to compare blocks.
_TREES, _FOLDS, _ROWS = 24, 2, 5_000
_EPISODES, _STEPS, _THRESHOLDS = 2_000, 12, 16
_FEWEST = 100  # with fewer episodes, the choice would be chance
_FOREST = ("forest",)
_LONG = 100  # shorter runs need no model of whole runs: their blocks see enough of them


@dataclass(frozen=True)
class Pilot:
    """A recipe (what to fit), and the learning episodes on which it is tried.

    ``reach`` is how many steps enough of these episodes reach.
    """

    recipe: Recipe
    learn: Episodes
    reach: int


def choose(pilot: Pilot) -> tuple[Pilot, Choices]:
    """The recipe that predicts held-out outcomes best, with its episodes, and all trials."""
    # First, the models may also read the run so far (a history), and then a guide, which is a model
    # of the mean for all steps. Each is used only if that clearly improves the CRPS, a score of
    # predictions. Then the spacing of blocks is chosen: the distance of the centres of the ranges
    # of steps that share a model. It starts at a quarter of the steps that enough episodes reach,
    # and is halved as long as that clearly improves the CRPS. Each episode is predicted by trees
    # that did not see it. If the model cannot do that, or there are few episodes, nothing is tried.
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


_EVEN = 0.5  # the first step's own model counts half, until its share is estimated
_LEAST = 0.05  # if the estimated share is smaller, the model is left out
_SURE = 2.0  # and also if it does not improve predictions by this many standard errors


def with_opening(blocks: tuple[Block, ...], law: LawTable) -> tuple[tuple[Block, ...], LawTable]:
    """The blocks and one more for the first step alone, with half the weight at that step."""
    return (*blocks, Block(len(blocks), 0, 1, 0, 1)), opened(law, _EVEN)


def opening_share(
    results: Sequence[BlockResult], law: LawTable, stage: Stage, asked: Sequence[StepRows]
) -> float:
    """How much the first step's own model should count at that step, from 0 to 1."""
    if not asked:
        return 0.0
    values = stage.ladder[0]
    own = asked[0].y[:, values.size]
    found = [_first_step(one, values.size) for one in results]
    entries = [(weight, found[block]) for weight, block in law.at(0)]
    if not all(one.size for one in (found[-1], *(one for _, one in entries))):
        return 0.0
    pooled = weighted([weight for weight, _ in entries], [one for _, one in entries])
    known = np.isfinite(pooled[:, 0] + found[-1][:, 0])
    moved = (found[-1] - pooled)[known]
    missing = ((own[:, None] <= values) - pooled)[known]
    power = float(np.square(moved).sum())
    share = min(float((moved * missing).sum()) / power, 1.0) if power > 0.0 else 0.0
    gains = (np.square(missing) - np.square(missing - share * moved)).sum(axis=1)
    sure = gains.mean() > _SURE * gains.std() / math.sqrt(gains.size) if gains.size else False
    return share if sure and share >= _LEAST else 0.0


def _first_step(result: BlockResult, n_values: int) -> FloatArray:
    """(rows, values): P(remainder <= value) as one block's model predicts it at step 0."""
    if 0 not in result.limits[REHEARSAL]:
        return np.empty((0, n_values))
    return result.limits[REHEARSAL][0][1][:, :n_values]
