"""The quantile forest: its scikit-learn interface, and the kernels that grow and use its trees."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.forest.estimator import QuantileForest, SplitRule

__all__ = [
    "QuantileForest",
    "SplitRule",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "QuantileForest": "ontarget.models.forest.estimator",
        "SplitRule": "ontarget.models.forest.estimator",
    },
)
