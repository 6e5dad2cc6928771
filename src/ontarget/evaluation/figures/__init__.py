"""Figures of how good the forecasts are, as `matplotlib.figure.Figure`, for print and for pages.

matplotlib is loaded when a figure is drawn. Figures never touch pyplot nor leave any of
matplotlib's settings changed. ``figure.savefig(path)`` writes a file; `svg_of` gives inline SVG.
"""

from ontarget.evaluation.figures._style import theme_css
from ontarget.evaluation.figures.calibration import ece_chart, pit_chart, reliability_diagram
from ontarget.evaluation.figures.curves import Curve
from ontarget.evaluation.figures.decisions import IntervalCurve, alarm_chart, interval_chart
from ontarget.evaluation.figures.probability import episodes_chart, mean_chart, outcome_fan
from ontarget.evaluation.figures.svg import svg_of

__all__ = [
    "Curve",
    "IntervalCurve",
    "alarm_chart",
    "ece_chart",
    "episodes_chart",
    "interval_chart",
    "mean_chart",
    "outcome_fan",
    "pit_chart",
    "reliability_diagram",
    "svg_of",
    "theme_css",
]
