"""Watches runs while they happen: one run, many runs at once, or runs of agents known by name."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.live.alarms import PromisedAlarms
    from ontarget.live.answers import Answers
    from ontarget.live.contract import Contract
    from ontarget.live.explanation import Contribution, Explanation, Precedent
    from ontarget.live.fleet import FleetWatch
    from ontarget.live.goals.contract import GoalContract
    from ontarget.live.goals.fleet import GoalFleet
    from ontarget.live.goals.watch import GoalWatch
    from ontarget.live.outlook import Change, Outlook, Outlooks, Status
    from ontarget.live.own_targets import OwnWatch
    from ontarget.live.rules import AlarmRule, Below, Promised, RuledOut, Trigger
    from ontarget.live.runs import RunState
    from ontarget.live.sessions import Sessions
    from ontarget.live.watch import Watch

__all__ = [
    "AlarmRule",
    "Answers",
    "Below",
    "Change",
    "Contract",
    "Contribution",
    "Explanation",
    "FleetWatch",
    "GoalContract",
    "GoalFleet",
    "GoalWatch",
    "Outlook",
    "Outlooks",
    "OwnWatch",
    "Precedent",
    "Promised",
    "PromisedAlarms",
    "RuledOut",
    "RunState",
    "Sessions",
    "Status",
    "Trigger",
    "Watch",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AlarmRule": "ontarget.live.rules",
        "Answers": "ontarget.live._batch",
        "Below": "ontarget.live.rules",
        "Change": "ontarget.live.outlook",
        "Contract": "ontarget.live.contract",
        "Contribution": "ontarget.live.explanation",
        "Explanation": "ontarget.live.explanation",
        "FleetWatch": "ontarget.live.fleet",
        "GoalContract": "ontarget.live.goals.contract",
        "GoalFleet": "ontarget.live.goals.fleet",
        "GoalWatch": "ontarget.live.goals.watch",
        "Outlook": "ontarget.live.outlook",
        "Outlooks": "ontarget.live.outlook",
        "OwnWatch": "ontarget.live.own_targets",
        "Precedent": "ontarget.live.explanation",
        "Promised": "ontarget.live.rules",
        "PromisedAlarms": "ontarget.live.alarms",
        "RuledOut": "ontarget.live.rules",
        "RunState": "ontarget.live.runs",
        "Sessions": "ontarget.live.sessions",
        "Status": "ontarget.live.outlook",
        "Trigger": "ontarget.live.rules",
        "Watch": "ontarget.live.watch",
    },
)
