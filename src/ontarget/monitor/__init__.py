"""`GoalMonitor`, the main class of the library."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.monitor.monitor import GoalMonitor

__all__ = ["GoalMonitor"]

__getattr__, __dir__ = lazy_names(__name__, {"GoalMonitor": "ontarget.monitor.monitor"})
