"""What happened: recorded episodes, what they are judged by, and how they are divided."""

from ontarget.episodes.behavior import (
    Behavior,
    Column,
    DiscountedSum,
    Last,
    Max,
    Mean,
    Min,
    Sum,
    behavior_of,
)
from ontarget.episodes.episodes import Episodes, Step
from ontarget.episodes.schema import Feature, Schema
from ontarget.episodes.splits import Split

__all__ = [
    "Behavior",
    "Column",
    "DiscountedSum",
    "Episodes",
    "Feature",
    "Last",
    "Max",
    "Mean",
    "Min",
    "Schema",
    "Split",
    "Step",
    "Sum",
    "behavior_of",
]
