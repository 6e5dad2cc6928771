"""Conformal calibration of conditional distributions: PCQR, its inverse, and their rivals."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.conformal.groups import GroupedPCQR
    from ontarget.conformal.pcqr import PCQR
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
    "SplitConformal",
    "VennAbers",
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
        "SplitConformal": "ontarget.conformal.rivals",
        "VennAbers": "ontarget.conformal.venn_abers",
    },
)
