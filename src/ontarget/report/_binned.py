"""How often forecasts came true, in so few bins that chance does not hide it."""

from __future__ import annotations

from typing import Final

from ontarget.evaluation import Reliability, pool, reliability
from ontarget.report.measured import Measured

__all__ = ["binned", "said_bins"]

_MANY: Final = 100  # episodes, from which ten bins hold enough each


def said_bins(found: Measured) -> int:
    """How many bins the table and the figure of what came true have: ten, or five of few runs."""
    return 10 if found.met.size >= _MANY else 5


def binned(found: Measured) -> Reliability:
    """How often each forecast came true over all steps, in the bins of the table."""
    pooled = pool(found.p, found.met)
    return reliability(pooled.p, pooled.met, said_bins(found), episode=pooled.episode)
