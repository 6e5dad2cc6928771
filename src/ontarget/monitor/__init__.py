"""`GoalMonitor`, the main class of the library, and `Upkeep`, which restarts it after drift."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.monitor.upkeep import Upkeep

__all__ = ["GoalMonitor", "Upkeep"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"GoalMonitor": "ontarget.monitor.monitor", "Upkeep": "ontarget.monitor.upkeep"},
)
