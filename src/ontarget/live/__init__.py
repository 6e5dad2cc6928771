"""Runs as they happen: one run, a fleet of them, and what each step says."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.live.alarms import AlarmRule, PromisedAlarms
    from ontarget.live.fleet import FleetWatch
    from ontarget.live.outlook import Change, Outlook, Outlooks, State
    from ontarget.live.watch import Watch

__all__ = [
    "AlarmRule",
    "Change",
    "FleetWatch",
    "Outlook",
    "Outlooks",
    "PromisedAlarms",
    "State",
    "Watch",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AlarmRule": "ontarget.live.alarms",
        "Change": "ontarget.live.outlook",
        "FleetWatch": "ontarget.live.fleet",
        "Outlook": "ontarget.live.outlook",
        "Outlooks": "ontarget.live.outlook",
        "PromisedAlarms": "ontarget.live.alarms",
        "State": "ontarget.live.outlook",
        "Watch": "ontarget.live.watch",
    },
)
