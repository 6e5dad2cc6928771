"""Recorded episodes: reading them, choosing the number they are judged by, splitting them."""

from typing import TYPE_CHECKING

from ontarget._keyed import uniform_by_id
from ontarget._lazy import lazy_names
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
from ontarget.episodes.look import Look
from ontarget.episodes.looking._caution import Caution
from ontarget.episodes.looking._columns import ColumnFacts
from ontarget.episodes.looking._order import FileOrder
from ontarget.episodes.schema import Feature, Schema
from ontarget.episodes.step import Step

if TYPE_CHECKING:
    from ontarget.episodes.prepared.prepared import PreparedEpisodes
    from ontarget.episodes.prepared.preparing import prepare

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
    "PreparedEpisodes",
    "Schema",
    "ShareOfSteps",
    "Split",
    "Step",
    "Sum",
    "Translation",
    "behavior_of",
    "prepare",
    "uniform_by_id",
]

# Reading prepared episodes needs polars, which takes long to import.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "PreparedEpisodes": "ontarget.episodes.prepared.prepared",
        "prepare": "ontarget.episodes.prepared.preparing",
    },
)
