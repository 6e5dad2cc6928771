"""`GoalMonitor`, the main class of the library, and `Upkeep`, which recalibrates it after drift."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.monitor.steady import AverageThreshold, average_threshold
    from ontarget.monitor.upkeep import Upkeep

__all__ = ["AverageThreshold", "GoalMonitor", "Upkeep", "average_threshold"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AverageThreshold": "ontarget.monitor.steady",
        "GoalMonitor": "ontarget.monitor.monitor",
        "Upkeep": "ontarget.monitor.upkeep",
        "average_threshold": "ontarget.monitor.steady",
    },
)
