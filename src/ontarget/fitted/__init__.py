"""What a fit leaves behind: the law of each step, its ranks, and the episodes that assure it."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitted.blocks import Block
    from ontarget.fitted.fitted import Calibrated
    from ontarget.fitted.guarantee import Threshold
    from ontarget.fitted.law import StepDistribution
    from ontarget.fitted.target_calibration import TargetCalibration

__all__ = [
    "Block",
    "Calibrated",
    "StepDistribution",
    "TargetCalibration",
    "Threshold",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Block": "ontarget.fitted.blocks",
        "Calibrated": "ontarget.fitted.fitted",
        "StepDistribution": "ontarget.fitted.law",
        "TargetCalibration": "ontarget.fitted.target_calibration",
        "Threshold": "ontarget.fitted.guarantee",
    },
)
