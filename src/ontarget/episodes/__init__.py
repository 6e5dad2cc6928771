"""Recorded episodes: reading them, choosing what they are judged by, and splitting them."""

from ontarget._keyed import uniform_by_id
from ontarget.episodes.behavior import Behavior, Translation
from ontarget.episodes.builtin_behaviors import (
    Column,
    DiscountedSum,
    FirstStep,
    Last,
    Max,
    Mean,
    Min,
    ShareOfSteps,
    Sum,
    behavior_of,
)
from ontarget.episodes.episodes import Episodes, PaperSplit, Split
from ontarget.episodes.look import Caution, ColumnFacts, FileOrder, Look
from ontarget.episodes.schema import Feature, Schema
from ontarget.episodes.step import Step

__all__ = [
    "Behavior",
    "Caution",
    "Column",
    "ColumnFacts",
    "DiscountedSum",
    "Episodes",
    "Feature",
    "FileOrder",
    "FirstStep",
    "Last",
    "Look",
    "Max",
    "Mean",
    "Min",
    "PaperSplit",
    "Schema",
    "ShareOfSteps",
    "Split",
    "Step",
    "Sum",
    "Translation",
    "behavior_of",
    "uniform_by_id",
]
