"""The product: a calibrated distribution per step, live watches, alarms and model files."""

from ontarget.monitor.alarm import AlarmRule, PromisedAlarms
from ontarget.monitor.drift import DriftGuard, DriftReading
from ontarget.monitor.fleet import FleetWatch
from ontarget.monitor.monitor import GoalMonitor
from ontarget.monitor.state import Change, Outlook, Outlooks, State
from ontarget.monitor.watch import Watch

__all__ = [
    "AlarmRule",
    "Change",
    "DriftGuard",
    "DriftReading",
    "FleetWatch",
    "GoalMonitor",
    "Outlook",
    "Outlooks",
    "PromisedAlarms",
    "State",
    "Watch",
]
