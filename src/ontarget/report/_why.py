"""Why p fell in some runs that missed the target (method M28 in docs/methods.md).

p is the probability of meeting the target.
"""

from __future__ import annotations

import numpy as np

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.episodes import Episodes
from ontarget.goal import Goal
from ontarget.live._explaining import Reading, explained
from ontarget.live.explanation import Explanation
from ontarget.live.goals._explaining import GoalReading, explained_goal
from ontarget.live.goals.contract import GoalContracts
from ontarget.report.measured import Measured

HEADS = ("run", "step", "p before", "p", "why")
_MOST = 4


def falls(found: Measured) -> list[tuple[int, Explanation]]:
    """For a few runs that missed the target, an explanation of the largest fall of p.

    p is the probability of meeting the target. The runs whose p fell furthest come first; each is
    given by its position.
    """
    p = np.where(found.answered, found.p, np.nan)  # only a model's answer can be explained
    fall = np.nan_to_num(p[:-1] - p[1:], nan=0.0)
    fall[:, found.met] = 0.0
    if not fall.size or fall.max() <= 0.0:
        return []
    order = np.argsort(-fall.max(axis=0), kind="stable")[:_MOST]
    chosen = [i for i in order.tolist() if fall[:, i].max() > 0.0]
    return [(i, _explained(found, i, int(fall[:, i].argmax()) + 1)) for i in chosen]


def fall_rows(found: Measured) -> list[list[str]]:
    """A table of the runs whose p fell furthest, as rows of text: run, step, p before, p, and why.

    p is the probability of meeting the target.
    """
    return [
        [
            plain(found.ids[i]),
            str(why.t),
            percent(float("nan") if why.p_before is None else why.p_before),
            percent(why.p),
            "; ".join(filter(None, [_culprit(why), why.causes, why.rests_on])),
        ]
        for i, why in falls(found)
    ]


def _culprit(why: Explanation) -> str:
    return f"{plain(why.culprit)} is the likely culprit" * bool(why.culprit)


def _explained(found: Measured, episode: int, t: int) -> Explanation:
    fitted, one, target = found.fitted, found.episodes.take([episode]), found.target
    if isinstance(target, Goal):
        return _explained_goal(found, one, t, int(found.groups[episode]))

    def reading(step: int) -> Reading:
        rows = one.at(step, grid=fitted.grid)
        return Reading(step, rows.states[0], float(rows.behavior[0]))

    return explained(
        fitted,
        reading(t),
        reading(t - 1),
        target,
        calibration=found.calibration,
        group=int(found.groups[episode]),
    )


def _explained_goal(found: Measured, one: Episodes, t: int, group: int) -> Explanation:
    contracts = found.contracts
    assert isinstance(contracts, GoalContracts)
    assert isinstance(found.target, Goal)
    own_map = found.calibration
    question = contracts.question(found.target)

    def reading(step: int) -> GoalReading:
        rows = [
            one.only(name).at(step, grid=contracts.joint.parts[name].grid)
            for name in question.names
        ]
        so_far = np.array([float(own.behavior[0]) for own in rows])
        return GoalReading(step, rows[0].states[0], so_far)

    return explained_goal(
        contracts.joint, question, reading(t), reading(t - 1), own_map=own_map, group=group
    )
