"""The guided forest: a quantile forest that also reads predictions of the mean."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.guided.estimator import GuidedForest

__all__ = [
    "GuidedForest",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GuidedForest": "ontarget.models.guided.estimator",
    },
)
