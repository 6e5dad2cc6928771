"""Recorded episodes asked about a goal over several behaviors, as if live (M21)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._progress import Reached
from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.fitted._kernels import DECIDED, NUMBERS, P
from ontarget.fitted.joint.joint import GoalQuestion, Joint
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.recorded import check_room
from ontarget.fitted.target_map import TargetMap
from ontarget.live.batch import Answers

__all__ = ["answer_goal", "map_at", "rehearsed_goal"]


def answer_goal(
    joint: Joint,
    question: GoalQuestion,
    episodes: Mapping[str, Episodes],
    *,
    own_map: TargetMap | None = None,
    reached: Reached | None = None,
) -> Answers:
    """What the monitor says of the episodes at every step.

    ``episodes`` are the same ones under the name of each behavior, judged by it alone.
    """
    first, names = joint.first, question.names
    one = episodes[names[0]]
    groups = first.groups_in(one)
    check_room(one.lengths, first.horizon)
    shape = (first.horizon, len(one))
    numbers = np.full((NUMBERS, *shape), np.nan)
    broken, n = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.intp)
    for t in range(min(first.horizon, one.horizon)):
        rows = [episodes[name].at(t, grid=joint.parts[name].grid) for name in names]
        index, states = rows[0].index, rows[0].states
        bad = first.bad_readings(states)
        broken[t, index[bad]] = True
        for g in np.unique(groups[index]).tolist():
            own = np.flatnonzero(~bad & (groups[index] == g))
            if not own.size or joint.unknown(t, g):
                continue
            so_far = [step.behavior[own] for step in rows]
            mapped = map_at(own_map, t, g)
            found = joint.outlook(question, t, g, states[own], so_far, mapped)
            numbers[:, t, index[own]] = found.numbers.T
            n[t, index[own]] = first.counts[t, g]
        if reached is not None:
            reached(t + 1)
    outcomes = {name: episodes[name].outcomes for name in names}
    met = question.goal.contains(outcomes, joint.grids)
    return Answers(numbers, broken, n, met, one.lengths)


def rehearsed_goal(
    joint: Joint, question: GoalQuestion, *, own_map: TargetMap | None = None
) -> Answers:
    """What the monitor would say of its own learning episodes, had it not learned from each."""
    first, n = joint.first, joint.n_rehearsed
    rehearsals = {name: joint.rehearsal(name) for name in question.names}
    one = rehearsals[question.names[0]]
    check_room(one.lengths[:n], first.horizon)
    shape = (first.horizon, n)
    numbers, count = np.full((NUMBERS, *shape), np.nan), np.ones(shape, dtype=np.intp)
    for t, g, who, found in joint.rehearsed(question, range(one.steps.size)):
        if own_map is not None:
            undecided = found[:, DECIDED] < 0.0
            p = own_map.held_out(t, g, who[undecided], found[undecided, P])
            found[undecided, P] = p
        numbers[:, t, who], count[t, who] = found.T, first.learned[t, g]
    outcomes = {name: found.outcomes[:n] for name, found in rehearsals.items()}
    met = question.goal.contains(outcomes, joint.grids)
    broken = np.zeros(shape, dtype=np.bool_)
    return Answers(numbers, broken, count, met, one.lengths[:n], promises=False)


def map_at(own_map: TargetMap | None, t: int, group: int) -> FloatArray:
    """The goal's own map at a step, empty where it leaves p as it is."""
    return NO_CURVE if own_map is None else own_map.knots_at(t, group)
