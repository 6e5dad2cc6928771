"""Figures that show how good forecasts are, each a `matplotlib.figure.Figure`.

matplotlib is loaded when a figure is drawn. pyplot is not used, and matplotlib's settings stay as
they are. `figure_bytes` returns the content of a file, `svg_of` inline SVG.
"""

from ontarget.evaluation.figures._style import theme_css
from ontarget.evaluation.figures.calibration import (
    came_true_chart,
    ece_chart,
    pit_chart,
    reliability_diagram,
)
from ontarget.evaluation.figures.comparison import bias_chart, methods_chart
from ontarget.evaluation.figures.curves import Curve
from ontarget.evaluation.figures.decisions import IntervalCurve, alarm_chart, interval_chart
from ontarget.evaluation.figures.explanation import explanation_chart
from ontarget.evaluation.figures.paths import path_chart
from ontarget.evaluation.figures.probability import episodes_chart, mean_chart, outcome_fan
from ontarget.evaluation.figures.svg import figure_bytes, svg_of

__all__ = [
    "Curve",
    "IntervalCurve",
    "alarm_chart",
    "bias_chart",
    "came_true_chart",
    "ece_chart",
    "episodes_chart",
    "explanation_chart",
    "figure_bytes",
    "interval_chart",
    "mean_chart",
    "methods_chart",
    "outcome_fan",
    "path_chart",
    "pit_chart",
    "reliability_diagram",
    "svg_of",
    "theme_css",
]
