"""How often forecasts came true, in ranges of p (bins) that have enough runs to show it.

p is the probability of meeting the target.
"""

from __future__ import annotations

from typing import Final

from ontarget.evaluation import Reliability, pool, reliability
from ontarget.report.measured import Measured

__all__ = ["binned", "said_bins"]

_MANY: Final = 100  # episodes, from which ten bins hold enough each


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
