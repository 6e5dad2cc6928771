"""The product: a calibrated distribution per step, live watches, alarms and model files."""

from ontarget.monitor.alarm import AlarmCurve, AlarmRule
from ontarget.monitor.drift import DriftGuard, DriftReading
from ontarget.monitor.fleet import FleetWatch
from ontarget.monitor.monitor import GoalMonitor
from ontarget.monitor.state import Change, Outlook, Outlooks, State
from ontarget.monitor.watch import Watch

__all__ = [
    "AlarmCurve",
    "AlarmRule",
    "Change",
    "DriftGuard",
    "DriftReading",
    "FleetWatch",
    "GoalMonitor",
    "Outlook",
    "Outlooks",
    "State",
    "Watch",
]
