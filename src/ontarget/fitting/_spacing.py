"""Chooses how far apart blocks (ranges of steps that share a model) are centred.

The choice uses the learning episodes alone. See method M16 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, KeyArray
from ontarget.episodes import Episodes
from ontarget.fitted.blocks import (
    LEAST_SPACING,
    Block,
    LawTable,
    blended_blocks,
    first_spacing,
)
from ontarget.fitted.choices import Choices, Trial
from ontarget.fitting.engines import run_tasks
from ontarget.fitting.tasks import (
    BlockTask,
    StepRows,
    episodes_of,
    fit_block,
    honest_limits,
    step_rows,
)
from ontarget.models._entry import fits_side_by_side
from ontarget.models._mixture import weighted
from ontarget.models.guided.run import RunGuide

# A forest for a trial is small and learns from few rows: it only has to compare blocks.
_TREES, _FOLDS, _ROWS = 24, 2, 5_000
_EPISODES, _STEPS, _THRESHOLDS = 2_000, 12, 16
_FEWEST = 100  # with fewer episodes, the choice would be chance


@dataclass(frozen=True)
class Pilot:
    """The inputs of a trial of blocks (ranges of steps that share a model).

    ``model`` is the unfitted model, and ``learn`` are the learning episodes. The function ``task``
    takes a model, the episodes, a block, and the most rows to learn from; it makes the task of
    fitting this block. ``reach`` is how many steps enough episodes reach. ``guide`` is a model of
    the mean for all steps, whose prediction the models read.
    """

    model: Any
    learn: Episodes
    seed: int
    task: Callable[[Any, Episodes, Block, int], BlockTask]
    pace: float
    reach: int
    guide: RunGuide | None = None


def choose_spacing(pilot: Pilot, guided: Pilot) -> Choices:
    """The spacing of blocks that predicts held-out outcomes best, with all trials.

    A block is a range of steps that share a model; the spacing is the distance of their centres.

    The first spacing is a quarter of the steps that enough episodes reach. It is halved as long as
    that clearly improves the CRPS, a score of predictions. Each episode is predicted by trees that
    did not see it. If the model cannot do that, or there are few episodes, the first spacing is
    kept. ``guided`` are the same inputs with a guide (a model of the mean for all steps), if there
    is one. The guide is used if it improves the predictions at the first spacing by four
    standard errors.
    """
    horizon, reach = pilot.learn.horizon, pilot.reach
    spacing = first_spacing(reach)
    if len(pilot.learn) < _FEWEST or not hasattr(pilot.model, "out_of_bag_limits"):
        return Choices(spacing)
    trial, trials = _few(pilot), [Trial(spacing)]
    blocks = blended_blocks(horizon, spacing, reach)
    best, guide = _losses_of(trial, *blocks), None
    if guided.guide is not None:
        other = _few(guided)
        losses = _losses_of(other, *blocks)
        guide = _tried(spacing, best - losses)
        if Choices(guide=guide).is_guided:
            trial, best = other, losses
    while (shorter := max(math.ceil(spacing / 2), LEAST_SPACING)) < spacing:
        losses = _losses_of(trial, *blended_blocks(horizon, shorter, reach))
        trials.append(_tried(shorter, best - losses))
        if not trials[-1].sure:
            break
        spacing, best = shorter, losses
    return Choices(spacing, tuple(trials), guide=guide)


def _tried(spacing: int, gains: FloatArray) -> Trial:
    """The record of one trial of how far apart blocks are: the mean gain, its standard error.

    A block is a range of steps that share a model. ``gains`` is (episodes, steps): how much better
    each prediction became than in the trial before; NaN where there is no prediction. Episodes
    without any prediction do not count.
    """
    gain = np.nanmean(gains[np.isfinite(gains).any(axis=1)], axis=1)
    if not gain.size:
        return Trial(spacing, 0.0, 0.0)
    return Trial(spacing, float(gain.mean()), float(gain.std()) / math.sqrt(gain.size))


def _few(pilot: Pilot) -> Pilot:
    """The inputs of a faster trial: with a small forest and at most 2,000 episodes."""
    own = pilot.model.get_params(deep=False)
    small = {"n_trees": _TREES, "n_folds": _FOLDS}
    fewer: dict[str, Any] = {name: min(own[name], small[name]) for name in small if name in own}
    if "experts" in own:
        fewer["experts"] = ("forest",)
    model = type(pilot.model)(**own).set_params(**fewer)
    order = np.argsort(keyed_hash(pilot.learn.keys, pilot.seed, "pilot"), kind="stable")
    return replace(pilot, model=model, learn=pilot.learn.take(np.sort(order[:_EPISODES])))


def _losses_of(pilot: Pilot, blocks: tuple[Block, ...], law: LawTable) -> FloatArray:
    """(episodes, steps): the CRPS of predictions with these blocks, in units of each step's spread.

    The CRPS is a score of predicted distributions (lower is better); a block is a range of steps
    that share a model. The score is computed at no more than 12 steps, and is NaN where an episode
    has no prediction.
    """
    learn = pilot.learn
    asked = np.unique(np.linspace(0, pilot.reach - 1, _STEPS).round().astype(int)).tolist()
    found = np.full((len(learn), len(asked)), np.nan)
    needed = {block for t in asked for _, block in law.at(t)}
    chosen = [block for block in blocks if block.index in needed]
    fits = run_tasks(
        _fitted_alone,
        lambda k: pilot.task(pilot.model, learn, chosen[k], _ROWS),
        len(chosen),
        engine="local",
        checkpoint=None,
        progress=False,
        side_by_side=fits_side_by_side(pilot.model),
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
            pace=pilot.pace,
            guide=pilot.guide,
        )
        for rows in asked_rows:
            found[rows.index, place] = _crps(rows, entries)
    return found


def _fitted_alone(task: BlockTask) -> tuple[Any, KeyArray | None]:
    """The task's fitted model, and the keys (hashed ids) of the episodes that it was fitted on."""
    return fit_block(task).model, episodes_of(task.train) if task.train else None


def _crps(rows: StepRows, entries: list[tuple[float, Any, Any]]) -> FloatArray:
    """(rows,): an approximate CRPS, a score of predicted distributions (lower is better).

    It is the squared error of the predicted distribution function, averaged over thresholds at
    quantiles of the remainders (what is still to earn) and divided by their spread. An entry is a
    weight, a fitted model and the keys (hashed ids) of the episodes that the model was fitted on.
    """
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
