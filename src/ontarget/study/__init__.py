"""Compares a monitor with the classifiers that you could write instead, on your own log.

`run_study` compares them on random splits of a log. `study_beside` compares them on the new
episodes of an evaluation.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.study.classifiers import RIVALS, boosted, logistic
    from ontarget.study.compared import Compared, Trial
    from ontarget.study.measures import Scores, score
    from ontarget.study.rows import Rows, rows_of
    from ontarget.study.running import expected_seconds, run_study, study_beside
    from ontarget.study.study import Study
    from ontarget.study.verdict import RivalVerdict, Standing

__all__ = [
    "RIVALS",
    "Compared",
    "RivalVerdict",
    "Rows",
    "Scores",
    "Standing",
    "Study",
    "Trial",
    "boosted",
    "expected_seconds",
    "logistic",
    "rows_of",
    "run_study",
    "score",
    "study_beside",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "RIVALS": "ontarget.study.classifiers",
        "Compared": "ontarget.study.compared",
        "RivalVerdict": "ontarget.study.verdict",
        "Rows": "ontarget.study.rows",
        "Scores": "ontarget.study.measures",
        "Standing": "ontarget.study.verdict",
        "Study": "ontarget.study.study",
        "Trial": "ontarget.study.compared",
        "boosted": "ontarget.study.classifiers",
        "expected_seconds": "ontarget.study.running",
        "logistic": "ontarget.study.classifiers",
        "rows_of": "ontarget.study.rows",
        "run_study": "ontarget.study.running",
        "score": "ontarget.study.measures",
        "study_beside": "ontarget.study.running",
    },
)
