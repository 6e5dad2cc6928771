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
    from ontarget.models.forest.estimator import QuantileForest
    from ontarget.models.guided.estimator import GuidedForest
    from ontarget.models.linear import LinearQuantiles
    from ontarget.models.quantiles import RegressorQuantiles
    from ontarget.monitor.monitor import GoalMonitor
    from ontarget.target import Target

__all__ = [
    "CQR",
    "PCQR",
    "ConformalPredictiveSystem",
    "Episodes",
    "GoalMonitor",
    "GroupedPCQR",
    "GuidedForest",
    "Interval",
    "LinearQuantiles",
    "OntargetError",
    "Probability",
    "QuantileForest",
    "QuantileRegression",
    "RawInverse",
    "RegressorQuantiles",
    "SplitConformal",
    "Target",
    "VennAbers",
    "__version__",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "__version__": "ontarget._version",
        "ConformalPredictiveSystem": "ontarget.conformal.predictive_system",
        "CQR": "ontarget.conformal.rivals",
        "Episodes": "ontarget.episodes.episodes",
        "GoalMonitor": "ontarget.monitor.monitor",
        "GroupedPCQR": "ontarget.conformal.groups",
        "GuidedForest": "ontarget.models.guided.estimator",
        "Interval": "ontarget.conformal.results",
        "LinearQuantiles": "ontarget.models.linear",
        "OntargetError": "ontarget.errors",
        "PCQR": "ontarget.conformal.pcqr",
        "Probability": "ontarget.conformal.results",
        "QuantileForest": "ontarget.models.forest.estimator",
        "QuantileRegression": "ontarget.conformal.rivals",
        "RawInverse": "ontarget.conformal.rivals",
        "RegressorQuantiles": "ontarget.models.quantiles",
        "SplitConformal": "ontarget.conformal.rivals",
        "Target": "ontarget.target",
        "VennAbers": "ontarget.conformal.venn_abers",
    },
)
