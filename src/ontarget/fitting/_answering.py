"""Predictions of the fitted models about episodes that none of them learned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.fitted.blocks import LawTable
from ontarget.fitted.ranks import RankTable
from ontarget.fitting._impossible import without_impossible
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.ranking import Part, step_ranks
from ontarget.fitting.tasks import step_rows
from ontarget.models._entry import fits_side_by_side
from ontarget.models._mixture import weighted
from ontarget.models.guided.run import RunGuide

# The monitor keeps assure episodes, because targets are chosen later: at most MOST_KEPT, and fewer
# (but at least _FEWEST_KEPT) if their states would take more than 20 MB of a model file.
MOST_KEPT, _MOST_NUMBERS = 20_000, 2_500_000
_FEWEST_KEPT = 2_000


@dataclass(frozen=True)
class Answerer:
    """All that determines the predictions at every step: the models, and how rows are made."""

    models: tuple[Any, ...]
    law: LawTable
    grid: float
    reads_step: bool
    guide: RunGuide | None
    pace: float = 0.0
    doubted: FloatArray = field(default_factory=lambda: np.empty(0))
    impossible: FloatArray = field(default_factory=lambda: np.empty(0))

    def at(self, t: int) -> StepAnswerer | None:
        """The models that answer at step t; None if one of them had no episodes to learn from."""
        parts = tuple((weight, self.models[block]) for weight, block in self.law.at(t))
        if any(model is None for _, model in parts):
            return None
        return StepAnswerer(self, t, parts)

    def limits(self, episodes: Episodes) -> LawLimits:
        """For each step, the predicted probabilities at the outcomes of these episodes."""
        return LawLimits(self, episodes)

    def __getstate__(self) -> dict[str, Any]:
        # A task carries the models of its own step only; see `StepAnswerer`.
        return {**self.__dict__, "models": ()}


@dataclass(frozen=True)
class StepAnswerer:
    """The weighted models that answer at one step, and how their rows (inputs) are made."""

    about: Answerer
    t: int
    parts: tuple[tuple[float, Any], ...]

    def limits(self, episodes: Episodes) -> tuple[FloatArray, FloatArray] | None:
        """The predicted P(remainder < own) and P(remainder <= own) of each episode."""
        about = self.about
        asked = step_rows(
            episodes,
            [self.t],
            grid=about.grid,
            reads_step=about.reads_step,
            pace=about.pace,
            guide=about.guide,
            doubted=about.doubted,
        )
        for rows in asked:
            answers = [model.cdf_limits(rows.X, rows.y) for _, model in self.parts]
            weights = [weight for weight, _ in self.parts]
            left, right = (weighted(weights, [one[side] for one in answers]) for side in (0, 1))
            both, y = {self.t: (left, right)}, {self.t: rows.y}
            return without_impossible(both, y, about.doubted, about.impossible)[self.t]
        return None


@dataclass(frozen=True)
class LawLimits(Mapping[int, tuple[FloatArray, FloatArray]]):
    """For each step, P(remainder < own) and P(remainder <= own) of each episode, as predicted."""

    answerer: Answerer
    episodes: Episodes

    def __getitem__(self, t: int) -> tuple[FloatArray, FloatArray]:
        step = self.answerer.at(t)
        found = None if step is None else step.limits(self.episodes)
        if found is None:
            raise KeyError(t)
        return found

    def __iter__(self) -> Iterator[int]:
        longest = min(int(self.episodes.lengths.max()), self.answerer.law.horizon)
        return (t for t in range(longest) if self.answerer.at(t) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class StepTask:
    """The task of ranking episodes at one step: the models of the step, and the episodes."""

    answerer: StepAnswerer | None
    part: Part
    n_groups: int
    seed: int


def ranks_of_step(task: StepTask) -> list[FloatArray]:
    """The ranks of one step, one set per group; empty if there is no model or no episode there."""
    step = task.answerer
    limits = None if step is None else step.limits(task.part.episodes)
    if step is None or limits is None:
        return [np.empty(0)] * task.n_groups
    return step_ranks(limits, task.part, step.t, task.n_groups, task.seed)


def ranks_in_tasks(
    answerer: Answerer, part: Part, *, n_groups: int, seed: int, engine: Engine, progress: bool
) -> RankTable:
    """The ranks of the episodes in one part of the split, at every step; each step is a task."""
    sets = run_tasks(
        ranks_of_step,
        lambda t: StepTask(answerer.at(t), part, n_groups, seed),
        answerer.law.horizon,
        engine=engine if part.episodes.is_prepared else "local",
        checkpoint=None,
        progress=progress and part.episodes.is_prepared,
        side_by_side=all(map(fits_side_by_side, answerer.models)),
        doing=("assuring", "steps"),
    )
    return RankTable.of([one for step in sets for one in step], n_groups)


def limits_in_tasks(
    answerer: Answerer, episodes: Episodes
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """For each step, the predicted probabilities at the outcomes of these episodes."""
    found = run_tasks(
        lambda step: None if step is None else step.limits(episodes),
        answerer.at,
        answerer.law.horizon,
        engine="local",
        checkpoint=None,
        progress=False,
        side_by_side=all(map(fits_side_by_side, answerer.models)),
    )
    return {t: limits for t, limits in enumerate(found) if limits is not None}


def kept_episodes(assure: Episodes, seed: int) -> Episodes:
    """The assure episodes (held-out runs) that a model file keeps."""
    most = kept_count(float(assure.lengths.mean()), len(assure.schema))
    return assure.sample(most, seed=seed)


def kept_count(steps: float, features: int) -> int:
    """The most assure episodes (held-out runs) that a model file keeps."""
    numbers = steps * (features + 1)
    return min(MOST_KEPT, max(_FEWEST_KEPT, int(_MOST_NUMBERS / numbers)))
