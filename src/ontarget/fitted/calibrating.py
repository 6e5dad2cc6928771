"""Calibrates p for one fixed target: by Venn–Abers, or by a target map (a curve from p to p).

See methods M7 and M17 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.venn_abers import Envelopes
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import seen_before
from ontarget.episodes.looking._sides import check_sides
from ontarget.errors import CalibrationError
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import DECIDED, RAW, P
from ontarget.fitted._mapping import FOLDS, StepAnswers, fit_maps, folds_of
from ontarget.fitted._rehearsed import RehearsedStep, rehearsed_steps
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import GoalQuestion, Joint
from ontarget.fitted.question import Question
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.target import Target

# A target map is learned at this many steps at most. A group with fewer episodes than this
# shares the map of all groups.
_MOST_STEPS, _ENOUGH_EPISODES = 20, 100


def calibrate_target(fitted: Fitted, target: Target, episodes: Episodes) -> TargetCalibration:
    """The Venn–Abers calibration of the target, from episodes that the monitor has not used.

    See `GoalMonitor.calibrate_target`.
    """
    episodes = fitted.alike(episodes)
    _check_unused(fitted, episodes)
    check_sides(episodes._unrounded, target, fitted.grid)
    question, groups = Question.of(target, fitted.grid), fitted.groups_in(episodes)
    met = question.targets[0].contains(episodes.outcomes, fitted.grid)
    parts: dict[tuple[int, int], FloatArray] = {}
    for t, g, rows, own in fitted.known_steps(episodes, groups):
        states, so_far = rows.states[own], rows.behavior[own]
        scores = fitted.at(t, g).outlook(states, so_far, question, np.empty(0))[:, 0, RAW]
        if own.size >= fitted.min_calibration:
            parts[t, g] = _part(Envelopes.of(scores, met[rows.index[own]]))
    spans = np.zeros((fitted.horizon, fitted.n_groups, 2), dtype=np.intp)
    size = 0
    for t, g in np.ndindex(fitted.horizon, fitted.n_groups):
        if not fitted.unknown(t, g):
            if (t, g) not in parts:
                raise CalibrationError(
                    f"calibrate_target needs at least {fitted.min_calibration} episodes at every "
                    f"step at which the monitor answers, got fewer at step {t}; record more"
                )
            spans[t, g] = size, size + parts[t, g].shape[1]
            size += parts[t, g].shape[1]
    table = np.concatenate([np.empty((3, 0)), *(parts[place] for place in sorted(parts))], axis=1)
    return TargetCalibration(question.targets[0], read_only(table), read_only(spans))


def map_target(fitted: Fitted, target: Target) -> TargetMap | None:
    """The target map, which corrects p for this target; None with ``preset="paper"``.

    The map is learned from the learning episodes, the recorded runs that models learn from. See
    method M17 in docs/methods.md.
    """
    rehearsal = fitted.rehearsal
    if rehearsal is None:
        return None
    question = Question.of(target, fitted.grid)
    met = question.targets[0].contains(rehearsal.outcomes, fitted.grid)
    places = _map_places(rehearsal.steps.size)
    answers = rehearsed_steps(fitted, question, places)
    return _learned_map(fitted, question.targets[0], met, rehearsal.steps[places], answers)


def map_goal(joint: Joint, question: GoalQuestion) -> TargetMap:
    """The function that corrects p for this goal, learned from learning episodes.

    It is learned in the same way as the correction for a single target, see `map_target`.
    """
    n, first = joint.n_rehearsed, joint.parts[question.names[0]]
    outcomes = {name: joint.rehearsal(name).outcomes[:n] for name in question.names}
    met = question.goal.contains(outcomes, joint.grids)
    steps = _rehearsal(first).steps
    places = _map_places(steps.size)
    answers = (RehearsedStep(*one) for one in joint.rehearsed(question, places))
    return _learned_map(first, question.goal, met, steps[places], answers)


def _rehearsal(fitted: Fitted) -> Rehearsal:
    assert fitted.rehearsal is not None  # with preset="paper" a goal is an error before this
    return fitted.rehearsal


def _map_places(n: int) -> list[int]:
    """The steps at which a correction of p is learned, as positions among n rehearsed steps.

    Rehearsed steps are those at which learning episodes were predicted as if they were new.
    """
    found: list[int] = np.unique(np.linspace(0, n - 1, _MOST_STEPS).round().astype(int)).tolist()
    return found


def _learned_map(
    fitted: Fitted,
    target: Target | Goal,
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
        inside = _rehearsal(fitted).groups[: met.size] == g
        few = np.count_nonzero(inside) < _ENOUGH_EPISODES
        own = pooled if few else [_among(answers, inside) for answers in pooled]
        maps = fit_maps(own, met, folds)
        tables[:, :, g], identity[:, g] = maps.tables, maps.weights[:, 0]
    return TargetMap(
        target=target,
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


def _check_unused(fitted: Fitted, episodes: Episodes) -> None:
    """Raise a `CalibrationError` if the fit has already used these episodes.

    It may have used them to learn its model, or for promised alarms.
    """
    learned = "learn" if fitted.curves is not None else "train"
    for part, why in (
        (learned, "the model has seen their outcomes"),
        ("assure", "promised false-alarm rates come from them, so p must not depend on them"),
    ):
        seen = seen_before(episodes, fitted.trained.fingerprints_of(part))
        if seen.size:
            raise CalibrationError(
                f"calibrate_target cannot use {seen.size} of the {len(episodes)} episodes (first: "
                f"episode {episodes.ids[seen[0]]!s}), which are in the monitor's {part} part: "
                f"{why}; pass new ones"
            )


def _part(envelopes: Envelopes) -> FloatArray:
    scores = np.append(envelopes.scores, np.inf)
    return np.stack([scores, envelopes.if_failure, envelopes.if_success])
