"""Why p fell in some runs that missed the target (method M28 in docs/methods.md).

p is the probability of meeting the target.
"""

from __future__ import annotations

import numpy as np

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.live._explaining import Reading, explained
from ontarget.live.explanation import Explanation
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
    asked = found.contracts.asked(found.target, found.calibration)
    own = found.episodes.take([episode])
    each = [own.only(name) for name in asked.names] if asked.is_joint else [own]

    def reading(step: int) -> Reading:
        pairs = zip(asked.parts, each, strict=True)
        rows = [run.at(step, grid=fitted.grid) for fitted, run in pairs]
        so_far = tuple(float(row.behavior[0]) for row in rows)
        return Reading(step, rows[0].states[0], so_far)

    return explained(asked, reading(t), reading(t - 1), group=int(found.groups[episode]))
