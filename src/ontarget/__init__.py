"""ontarget: the calibrated probability, at every step of a run, that it ends inside your target."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget._version import __version__
    from ontarget.conformal.groups import GroupedPCQR
    from ontarget.conformal.pcqr import PCQR
    from ontarget.conformal.predictive_system import ConformalPredictiveSystem
    from ontarget.conformal.results import Interval, Probability
    from ontarget.conformal.rivals import CQR, QuantileRegression, RawInverse, SplitConformal
    from ontarget.conformal.venn_abers import VennAbers
    from ontarget.episodes.episodes import Episodes
    from ontarget.errors import OntargetError
    from ontarget.goal import Goal
    from ontarget.live.explanation import Explanation
    from ontarget.live.fleet import FleetWatch
    from ontarget.live.outlook import Outlook, Outlooks, Status
    from ontarget.live.rules import AlarmRule, Below, Promised, RuledOut
    from ontarget.live.runs import RunState
    from ontarget.live.sessions import Sessions
    from ontarget.live.watch import Watch
    from ontarget.models.forest.estimator import QuantileForest
    from ontarget.models.guided.estimator import GuidedForest
    from ontarget.models.linear import LinearQuantiles
    from ontarget.models.quantiles import RegressorQuantiles
    from ontarget.models.stacked.estimator import StackedForest
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.report.evaluation import Evaluation
    from ontarget.target import Target

__all__ = [
    "CQR",
    "PCQR",
    "AlarmRule",
    "Below",
    "ConformalPredictiveSystem",
    "Episodes",
    "Evaluation",
    "Explanation",
    "FleetWatch",
    "Goal",
    "GoalMonitor",
    "GroupedPCQR",
    "GuidedForest",
    "Interval",
    "LinearQuantiles",
    "OntargetError",
    "Outlook",
    "Outlooks",
    "Probability",
    "Promised",
    "QuantileForest",
    "QuantileRegression",
    "RawInverse",
    "RegressorQuantiles",
    "RuledOut",
    "RunState",
    "Sessions",
    "SplitConformal",
    "StackedForest",
    "Status",
    "Target",
    "VennAbers",
    "Watch",
    "__version__",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AlarmRule": "ontarget.live.rules",
        "Below": "ontarget.live.rules",
        "CQR": "ontarget.conformal.rivals",
        "ConformalPredictiveSystem": "ontarget.conformal.predictive_system",
        "Episodes": "ontarget.episodes.episodes",
        "Evaluation": "ontarget.report.evaluation",
        "Explanation": "ontarget.live.explanation",
        "FleetWatch": "ontarget.live.fleet",
        "Goal": "ontarget.goal",
        "GoalMonitor": "ontarget.monitor.monitor",
        "GroupedPCQR": "ontarget.conformal.groups",
        "GuidedForest": "ontarget.models.guided.estimator",
        "StackedForest": "ontarget.models.stacked.estimator",
        "Interval": "ontarget.conformal.results",
        "LinearQuantiles": "ontarget.models.linear",
        "OntargetError": "ontarget.errors",
        "Outlook": "ontarget.live.outlook",
        "Outlooks": "ontarget.live.outlook",
        "PCQR": "ontarget.conformal.pcqr",
        "Probability": "ontarget.conformal.results",
        "Promised": "ontarget.live.rules",
        "QuantileForest": "ontarget.models.forest.estimator",
        "QuantileRegression": "ontarget.conformal.rivals",
        "RawInverse": "ontarget.conformal.rivals",
        "RegressorQuantiles": "ontarget.models.quantiles",
        "RuledOut": "ontarget.live.rules",
        "RunState": "ontarget.live.runs",
        "Sessions": "ontarget.live.sessions",
        "SplitConformal": "ontarget.conformal.rivals",
        "Status": "ontarget.live.outlook",
        "Target": "ontarget.target",
        "VennAbers": "ontarget.conformal.venn_abers",
        "Watch": "ontarget.live.watch",
        "__version__": "ontarget._version",
    },
)
