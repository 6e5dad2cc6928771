"""For the time after a fit: has the process changed, does that do harm, and what to do then."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.drift.bets import DriftBet, DriftReading, HarmBet
    from ontarget.drift.change import Bias, Drift, DriftJudgement, Evidence
    from ontarget.drift.follow import Following, FollowingInterval
    from ontarget.drift.guard import DriftGuard

__all__ = [
    "Bias",
    "Drift",
    "DriftBet",
    "DriftGuard",
    "DriftJudgement",
    "DriftReading",
    "Evidence",
    "Following",
    "FollowingInterval",
    "HarmBet",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Bias": "ontarget.drift.change",
        "Drift": "ontarget.drift.change",
        "DriftBet": "ontarget.drift.bets",
        "DriftGuard": "ontarget.drift.guard",
        "DriftJudgement": "ontarget.drift.change",
        "DriftReading": "ontarget.drift.bets",
        "Evidence": "ontarget.drift.change",
        "Following": "ontarget.drift.follow",
        "FollowingInterval": "ontarget.drift.follow",
        "HarmBet": "ontarget.drift.bets",
    },
)
