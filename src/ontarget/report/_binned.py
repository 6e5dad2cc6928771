"""How often forecasts came true, in ranges of p (bins) that have enough runs to show it.

p is the probability of meeting the target.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget.evaluation import Reliability, pool, reliability
from ontarget.report._facts import Facts
from ontarget.report.measured import Measured

_MANY: Final = 100  # episodes, from which ten bins hold enough each
_ONE_SIDED = 0.75  # of the points, from which they seem to lie on one side


def said_bins(found: Measured) -> int:
    """How many ranges of p (bins) the report shows: ten, or five if there are few runs.

    For each of them, the report shows how often the forecasts came true. p is the probability of
    meeting the target.
    """
    return 10 if found.met.size >= _MANY else 5


def binned(found: Measured) -> Reliability:
    """How often the forecasts in each range of p came true, over all steps.

    The ranges are those that the report shows. p is the probability of meeting the target.
    """
    pooled = pool(found.p, found.met)
    return reliability(pooled.p, pooled.met, said_bins(found), episode=pooled.episode)


def together_in_words(facts: Facts) -> str:
    """Words on the points between 10 and 90 % if each alone is within chance; else empty.

    The points are those of the figure that shows p against how often it came true. The words say
    whether they are within chance together too, if most lie on the same side of the line.
    """
    unclear, shown = facts.unclear, binned(facts.found)
    if unclear is None or unclear.runs < 2:
        return ""
    between = (shown.count > 0) & (shown.mean_p >= 0.1) & (shown.mean_p <= 0.9)
    p, came_true = shown.mean_p[between], shown.rate_met[between]
    reach = (shown.low[between] <= p) & (p <= shown.high[between])
    low = unclear.way == "too low"
    aside = int(np.count_nonzero(came_true > p if low else came_true < p))
    if not p.size or not reach.all() or aside < _ONE_SIDED * p.size:
        return ""
    there = (
        f"Between 10 and 90\u00a0%, each bar by itself reaches the line, but {aside} of {p.size} "
        f"points lie {'above' if low else 'below'} it. All together, p was "
        f"{100 * abs(unclear.too_high):.1f} points {unclear.way} there, and chance alone explains "
        f"{100 * unclear.chance:.1f}:"
    )
    if unclear.beyond_chance:
        return f"{there} each alone is within chance, together they are not."
    return f"{there} together, too, they are within chance, with {unclear.runs:,} such runs."
