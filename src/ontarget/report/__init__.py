"""The results of an evaluation, in figures, in words and as one HTML page.

With `page` and the pieces of a page (`section`, `paragraph`, `points`, `figure`, `pair`, `Table`),
you can make your own pages in the same style; `write_whole` writes a file that appears whole or not
at all.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget._numerals import percent
    from ontarget._whole_file import write_whole
    from ontarget.report._html import Table, figure, page, pair, paragraph, points, section
    from ontarget.report.comparison import Comparison, compare
    from ontarget.report.evaluation import Evaluation, GoalEvaluation, OwnEvaluation
    from ontarget.report.measured import Measured, RaisedAlarms
    from ontarget.report.parts import Part
    from ontarget.report.unanswered import Unanswered
    from ontarget.report.verdict import Judgement, Verdict

__all__ = [
    "Comparison",
    "Evaluation",
    "GoalEvaluation",
    "Judgement",
    "Measured",
    "OwnEvaluation",
    "Part",
    "RaisedAlarms",
    "Table",
    "Unanswered",
    "Verdict",
    "compare",
    "figure",
    "page",
    "pair",
    "paragraph",
    "percent",
    "points",
    "section",
    "write_whole",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Comparison": "ontarget.report.comparison",
        "Evaluation": "ontarget.report.evaluation",
        "GoalEvaluation": "ontarget.report.evaluation",
        "Judgement": "ontarget.report.verdict",
        "Measured": "ontarget.report.measured",
        "OwnEvaluation": "ontarget.report.evaluation",
        "Part": "ontarget.report.parts",
        "RaisedAlarms": "ontarget.report.measured",
        "Table": "ontarget.report._html",
        "Unanswered": "ontarget.report.unanswered",
        "Verdict": "ontarget.report.verdict",
        "compare": "ontarget.report.comparison",
        "figure": "ontarget.report._html",
        "page": "ontarget.report._html",
        "pair": "ontarget.report._html",
        "paragraph": "ontarget.report._html",
        "percent": "ontarget._numerals",
        "points": "ontarget.report._html",
        "section": "ontarget.report._html",
        "write_whole": "ontarget._whole_file",
    },
)
