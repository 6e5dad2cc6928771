"""Models that predict the distribution of the outcome from features; all follow one protocol."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget._threads import n_threads
    from ontarget.models.base import ConditionalDistribution
    from ontarget.models.forest.estimator import QuantileForest
    from ontarget.models.guided.estimator import GuidedForest
    from ontarget.models.linear import LinearQuantiles
    from ontarget.models.marginal import Marginal
    from ontarget.models.network.estimator import QuantileNetwork
    from ontarget.models.pipeline import PipelineDistribution
    from ontarget.models.quantiles import RegressorQuantiles
    from ontarget.models.registry import register
    from ontarget.models.regression.estimator import DistributionRegression
    from ontarget.models.stacked.estimator import StackedForest

__all__ = [
    "ConditionalDistribution",
    "DistributionRegression",
    "GuidedForest",
    "LinearQuantiles",
    "Marginal",
    "PipelineDistribution",
    "QuantileForest",
    "QuantileNetwork",
    "RegressorQuantiles",
    "StackedForest",
    "n_threads",
    "register",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ConditionalDistribution": "ontarget.models.base",
        "DistributionRegression": "ontarget.models.regression.estimator",
        "GuidedForest": "ontarget.models.guided.estimator",
        "LinearQuantiles": "ontarget.models.linear",
        "Marginal": "ontarget.models.marginal",
        "PipelineDistribution": "ontarget.models.pipeline",
        "QuantileForest": "ontarget.models.forest.estimator",
        "QuantileNetwork": "ontarget.models.network.estimator",
        "RegressorQuantiles": "ontarget.models.quantiles",
        "StackedForest": "ontarget.models.stacked.estimator",
        "n_threads": "ontarget._threads",
        "register": "ontarget.models.registry",
    },
)
