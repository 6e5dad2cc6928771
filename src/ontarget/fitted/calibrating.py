"""Calibrates p for one fixed target by a target map (a curve from p to p).

See method M17 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import BoolArray, IndexArray
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import DECIDED, P
from ontarget.fitted._mapping import FOLDS, StepAnswers, fit_maps, folds_of
from ontarget.fitted._rehearsed import RehearsedStep
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.target_map import TargetMap

# A target map is learned at this many steps at most. A group with fewer episodes than this
# shares the map of all groups.
_MOST_STEPS, _ENOUGH_EPISODES = 20, 100


def map_target(asked: Asked) -> TargetMap | None:
    """The target map, which corrects p for this target; None with ``preset="paper"``.

    The map is learned from the learning episodes, the recorded runs that models learn from. See
    method M17 in docs/methods.md.
    """
    first = asked.parts[0]
    if first.rehearsal is None:
        return None
    steps = first.rehearsal.steps
    places = _map_places(steps.size)
    return _learned_map(first, asked.rehearsed_met, steps[places], asked.rehearsed(places))


def _map_places(n: int) -> list[int]:
    """The steps at which a correction of p is learned, as positions among n rehearsed steps.

    Rehearsed steps are those at which learning episodes were predicted as if they were new.
    """
    found: list[int] = np.unique(np.linspace(0, n - 1, _MOST_STEPS).round().astype(int)).tolist()
    return found


def _learned_map(
    fitted: Fitted,
    met: BoolArray,
    steps: IndexArray,
    answers: Iterable[RehearsedStep],
) -> TargetMap:
    """The function that corrects p for a target or goal, learned from learning episodes.

    ``met`` says which learning episodes met the target or goal, ``steps`` are the steps at which to
    learn the function, and ``answers`` are the monitor's answers about the episodes at these steps.
    """
    place_of = {int(t): place for place, t in enumerate(steps)}
    said: list[list[StepAnswers]] = [[] for _ in steps]
    for one in answers:
        undecided = one.numbers[:, DECIDED] < 0.0
        said[place_of[one.t]].append(
            StepAnswers(one.episodes[undecided], one.numbers[undecided, P])
        )
    pooled = [_together(answers) for answers in said]
    shape = (FOLDS + 1, steps.size, fitted.n_groups, KNOTS.size)
    tables, identity, folds = np.empty(shape), np.empty(shape[1:3]), folds_of(met)
    for g in range(fitted.n_groups):
        assert fitted.rehearsal is not None  # the answers are about its episodes
        inside = fitted.rehearsal.groups[: met.size] == g
        few = np.count_nonzero(inside) < _ENOUGH_EPISODES
        own = pooled if few else [_among(answers, inside) for answers in pooled]
        # A file of 0.2 keeps the maps that it had.
        maps = fit_maps(own, met, folds, fading=fitted.unrounded)
        tables[:, :, g], identity[:, g] = maps.tables, maps.weights[:, 0]
    return TargetMap(
        horizon=fitted.horizon,
        steps=steps,
        tables=read_only(tables),
        identity=read_only(identity),
        folds=read_only(folds),
    )


def _together(answers: list[StepAnswers]) -> StepAnswers:
    """The p values of all groups at one step, merged in the order of the episodes."""
    episodes = np.concatenate([np.empty(0, dtype=np.intp), *(one.episodes for one in answers)])
    p = np.concatenate([np.empty(0), *(one.p for one in answers)])
    order = np.argsort(episodes)
    return StepAnswers(episodes[order], p[order])


def _among(answers: StepAnswers, inside: BoolArray) -> StepAnswers:
    own = inside[answers.episodes]
    return StepAnswers(answers.episodes[own], answers.p[own])
