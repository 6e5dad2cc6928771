"""A monitor's answers about recorded episodes, for a goal over several behaviors.

See method M21 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._progress import Reached
from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.episodes.rounding import check_goal_sides
from ontarget.fitted._kernels import DECIDED, P
from ontarget.fitted.joint.joint import GoalQuestion, Joint
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.target_map import TargetMap
from ontarget.live.answers import Answers, Sheet


def answer_goal(
    joint: Joint,
    question: GoalQuestion,
    episodes: Mapping[str, Episodes],
    *,
    own_map: TargetMap | None = None,
    reached: Reached | None = None,
) -> Answers:
    """The monitor's answers about these episodes at every step, for a goal over several behaviors.

    ``episodes`` has the same episodes once for each behavior, by its name, judged by that behavior
    alone. ``reached`` is a function that is called with the number of steps done, to show progress.
    """
    first, names = joint.first, question.names
    check_goal_sides(
        {name: episodes[name]._unrounded for name in names}, question.goal, joint.grids
    )
    one = episodes[names[0]]
    groups = first.groups_in(one)
    sheet, steps = Sheet(one.lengths, first.horizon), min(first.horizon, one.horizon)
    lost_since = np.min([joint.parts[name].lost_since(episodes[name]) for name in names], axis=0)
    longest = int(one.lengths.max()) if len(one) else 0
    for t in range(min(steps, longest)):
        rows = [episodes[name].at(t, grid=joint.parts[name].grid) for name in names]
        index, states = rows[0].index, rows[0].states
        bad = first.bad_readings(states) | (lost_since[index] <= t)
        sheet.put_bad(t, index[bad])
        for g in np.unique(groups[index]).tolist():
            own = np.flatnonzero(~bad & (groups[index] == g))
            if not own.size:
                continue
            so_far = [step.behavior[own] for step in rows]
            mapped = map_at(own_map, t, g)
            found = joint.outlook(question, t, g, states[own], so_far, mapped)
            sheet.put(t, index[own], found.numbers, int(first.counts[t, g]))
        if reached is not None:
            reached(t + 1)
    if reached is not None and longest < steps:
        reached(steps)  # no episode has the steps after that
    outcomes = {name: episodes[name].outcomes for name in names}
    met = question.goal.contains(outcomes, joint.grids)
    return sheet.answers(met)


def rehearsed_goal(
    joint: Joint, question: GoalQuestion, *, own_map: TargetMap | None = None
) -> Answers:
    """The monitor's answers about each learning episode, by models not trained on that episode."""
    first, n = joint.first, joint.n_rehearsed
    rehearsals = {name: joint.rehearsal(name) for name in question.names}
    one = rehearsals[question.names[0]]
    sheet = Sheet(one.lengths[:n], first.horizon)
    for t, g, who, found in joint.rehearsed(question, range(one.steps.size)):
        if own_map is not None:
            undecided = found[:, DECIDED] < 0.0
            p = own_map.held_out(t, g, who[undecided], found[undecided, P])
            found[undecided, P] = p
        sheet.put(t, who, found, int(first.learned[t, g]))
    outcomes = {name: found.outcomes[:n] for name, found in rehearsals.items()}
    met = question.goal.contains(outcomes, joint.grids)
    return sheet.answers(met, promises=False)


def map_at(own_map: TargetMap | None, t: int, group: int) -> FloatArray:
    """The calibration curve of p for the goal at a step and group, as values at fixed points.

    It is empty if p is not corrected there.
    """
    return NO_CURVE if own_map is None else own_map.knots_at(t, group)
