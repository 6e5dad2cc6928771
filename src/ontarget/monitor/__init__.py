"""The product: a calibrated distribution per step, live watches, alarms and model files."""

from typing import TYPE_CHECKING

from ontarget.lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.monitor.alarm import AlarmRule, PromisedAlarms
    from ontarget.monitor.drift import DriftGuard, DriftReading
    from ontarget.monitor.evaluation import Evaluation
    from ontarget.monitor.fleet import FleetWatch
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.monitor.state import Change, Outlook, Outlooks, State
    from ontarget.monitor.target_calibration import TargetCalibration
    from ontarget.monitor.watch import Watch

__all__ = [
    "AlarmRule",
    "Change",
    "DriftGuard",
    "DriftReading",
    "Evaluation",
    "FleetWatch",
    "GoalMonitor",
    "Outlook",
    "Outlooks",
    "PromisedAlarms",
    "State",
    "TargetCalibration",
    "Watch",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AlarmRule": "ontarget.monitor.alarm",
        "Change": "ontarget.monitor.state",
        "DriftGuard": "ontarget.monitor.drift",
        "DriftReading": "ontarget.monitor.drift",
        "Evaluation": "ontarget.monitor.evaluation",
        "FleetWatch": "ontarget.monitor.fleet",
        "GoalMonitor": "ontarget.monitor.monitor",
        "Outlook": "ontarget.monitor.state",
        "Outlooks": "ontarget.monitor.state",
        "PromisedAlarms": "ontarget.monitor.alarm",
        "State": "ontarget.monitor.state",
        "TargetCalibration": "ontarget.monitor.target_calibration",
        "Watch": "ontarget.monitor.watch",
    },
)
