"""The results of an evaluation, in figures, in words and as one HTML page."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.report.evaluation import Evaluation
    from ontarget.report.measured import Measured, RaisedAlarms

__all__ = [
    "Evaluation",
    "Measured",
    "RaisedAlarms",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Evaluation": "ontarget.report.evaluation",
        "Measured": "ontarget.report.measured",
        "RaisedAlarms": "ontarget.report.measured",
    },
)
