"""Measures and figures of how good probabilities and intervals are, computed from plain arrays.

Figures are in `ontarget.evaluation.figures`, which loads matplotlib when a figure is drawn.
"""

from ontarget.evaluation.alarms import (
    NO_ALARM,
    AlarmCurve,
    AlarmPoint,
    AlarmQuality,
    alarm_curve,
    alarm_quality,
    first_alarms,
    sustained,
)
from ontarget.evaluation.binomial import Rate, binomial_band, exact_interval
from ontarget.evaluation.calibration import Bin, Reliability, bin_of, ece, reliability
from ontarget.evaluation.comparison import (
    Difference,
    corrected_difference,
    paired_difference,
)
from ontarget.evaluation.distributions import crps, crps_of_points
from ontarget.evaluation.intervals import Band, Width, coverage, coverage_band, covered, width
from ontarget.evaluation.pit import PitHistogram, pit_histogram, rank_histogram
from ontarget.evaluation.resampling import (
    CalibrationEstimate,
    Estimate,
    Forecasts,
    Resampling,
    by_step,
    ece_by_step,
    mean_by_step,
    pool,
    pooled_ece,
    pooled_mean,
    stack_steps,
)
from ontarget.evaluation.scores import (
    BrierParts,
    absolute_error,
    brier,
    excess_brier,
    excess_errors,
    log_loss,
    log_losses,
    murphy,
    sharpness,
    squared_errors,
)

__all__ = [
    "NO_ALARM",
    "AlarmCurve",
    "AlarmPoint",
    "AlarmQuality",
    "Band",
    "Bin",
    "BrierParts",
    "CalibrationEstimate",
    "Difference",
    "Estimate",
    "Forecasts",
    "PitHistogram",
    "Rate",
    "Reliability",
    "Resampling",
    "Width",
    "absolute_error",
    "alarm_curve",
    "alarm_quality",
    "bin_of",
    "binomial_band",
    "brier",
    "by_step",
    "corrected_difference",
    "coverage",
    "coverage_band",
    "covered",
    "crps",
    "crps_of_points",
    "ece",
    "ece_by_step",
    "exact_interval",
    "excess_brier",
    "excess_errors",
    "first_alarms",
    "log_loss",
    "log_losses",
    "mean_by_step",
    "murphy",
    "paired_difference",
    "pit_histogram",
    "pool",
    "pooled_ece",
    "pooled_mean",
    "rank_histogram",
    "reliability",
    "sharpness",
    "squared_errors",
    "stack_steps",
    "sustained",
    "width",
]
