"""The product: a calibrated distribution per step, live watches, alarms and model files."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitted.target_calibration import TargetCalibration
    from ontarget.live.alarms import AlarmRule, PromisedAlarms
    from ontarget.live.fleet import FleetWatch
    from ontarget.live.outlook import Change, Outlook, Outlooks, State
    from ontarget.live.watch import Watch
    from ontarget.monitor.drift import DriftGuard, DriftReading
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.report.evaluation import Evaluation

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
        "AlarmRule": "ontarget.live.alarms",
        "Change": "ontarget.live.outlook",
        "DriftGuard": "ontarget.monitor.drift",
        "DriftReading": "ontarget.monitor.drift",
        "Evaluation": "ontarget.report.evaluation",
        "FleetWatch": "ontarget.live.fleet",
        "GoalMonitor": "ontarget.monitor.monitor",
        "Outlook": "ontarget.live.outlook",
        "Outlooks": "ontarget.live.outlook",
        "PromisedAlarms": "ontarget.live.alarms",
        "State": "ontarget.live.outlook",
        "TargetCalibration": "ontarget.fitted.target_calibration",
        "Watch": "ontarget.live.watch",
    },
)
