"""The distribution regression: one logistic regression for all thresholds of the outcome."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.regression.estimator import DistributionRegression

__all__ = [
    "DistributionRegression",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DistributionRegression": "ontarget.models.regression.estimator",
    },
)
