"""`GoalMonitor`, the main class of the library, and the guard that notices drift."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.monitor.drift import DriftGuard, DriftReading
    from ontarget.monitor.monitor import GoalMonitor

__all__ = [
    "DriftGuard",
    "DriftReading",
    "GoalMonitor",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DriftGuard": "ontarget.monitor.drift",
        "DriftReading": "ontarget.monitor.drift",
        "GoalMonitor": "ontarget.monitor.monitor",
    },
)
