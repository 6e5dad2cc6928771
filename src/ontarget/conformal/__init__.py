"""Conformal calibration of predicted distributions: PCQR, the methods it competes with, planning.

Planning says how many episodes a given accuracy needs.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.conformal.groups import GroupedPCQR
    from ontarget.conformal.pcqr import PCQR
    from ontarget.conformal.planning import (
        SizePlan,
        coverage_range,
        needed_for_cdf,
        needed_for_coverage,
        needed_successes,
        plan_sizes,
        uniform_margin,
    )
    from ontarget.conformal.predictive_system import ConformalPredictiveSystem
    from ontarget.conformal.results import Interval, Probability
    from ontarget.conformal.rivals import CQR, QuantileRegression, RawInverse, SplitConformal
    from ontarget.conformal.venn_abers import VennAbers

__all__ = [
    "CQR",
    "PCQR",
    "ConformalPredictiveSystem",
    "GroupedPCQR",
    "Interval",
    "Probability",
    "QuantileRegression",
    "RawInverse",
    "SizePlan",
    "SplitConformal",
    "VennAbers",
    "coverage_range",
    "needed_for_cdf",
    "needed_for_coverage",
    "needed_successes",
    "plan_sizes",
    "uniform_margin",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CQR": "ontarget.conformal.rivals",
        "ConformalPredictiveSystem": "ontarget.conformal.predictive_system",
        "GroupedPCQR": "ontarget.conformal.groups",
        "Interval": "ontarget.conformal.results",
        "PCQR": "ontarget.conformal.pcqr",
        "Probability": "ontarget.conformal.results",
        "QuantileRegression": "ontarget.conformal.rivals",
        "RawInverse": "ontarget.conformal.rivals",
        "SizePlan": "ontarget.conformal.planning",
        "SplitConformal": "ontarget.conformal.rivals",
        "VennAbers": "ontarget.conformal.venn_abers",
        "coverage_range": "ontarget.conformal.planning",
        "needed_for_cdf": "ontarget.conformal.planning",
        "needed_for_coverage": "ontarget.conformal.planning",
        "needed_successes": "ontarget.conformal.planning",
        "plan_sizes": "ontarget.conformal.planning",
        "uniform_margin": "ontarget.conformal.planning",
    },
)
