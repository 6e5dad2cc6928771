"""The result of a fit: the predicted distributions of every step, and their calibration.

It also holds the assure episodes, the held-out runs that back the promises.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitted.blocks import Block, LawTable
    from ontarget.fitted.calibrating import calibrate_target, map_goal, map_target
    from ontarget.fitted.choices import Choices
    from ontarget.fitted.fitted import Fitted, Trained
    from ontarget.fitted.guarantee import Threshold
    from ontarget.fitted.joint.joint import GoalQuestion, Joint
    from ontarget.fitted.law import StepLaw
    from ontarget.fitted.paths.bands import PathBand
    from ontarget.fitted.question import Question
    from ontarget.fitted.ranks import RankTable
    from ontarget.fitted.recorded import RecordedRuns
    from ontarget.fitted.rehearsal import Rehearsal
    from ontarget.fitted.target_calibration import TargetCalibration
    from ontarget.fitted.target_map import TargetMap

__all__ = [
    "Block",
    "Choices",
    "Fitted",
    "GoalQuestion",
    "Joint",
    "LawTable",
    "PathBand",
    "Question",
    "RankTable",
    "RecordedRuns",
    "Rehearsal",
    "StepLaw",
    "TargetCalibration",
    "TargetMap",
    "Threshold",
    "Trained",
    "calibrate_target",
    "map_goal",
    "map_target",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Block": "ontarget.fitted.blocks",
        "Choices": "ontarget.fitted.choices",
        "Fitted": "ontarget.fitted.fitted",
        "GoalQuestion": "ontarget.fitted.joint.joint",
        "Joint": "ontarget.fitted.joint.joint",
        "LawTable": "ontarget.fitted.blocks",
        "PathBand": "ontarget.fitted.paths.bands",
        "Question": "ontarget.fitted.question",
        "RankTable": "ontarget.fitted.ranks",
        "RecordedRuns": "ontarget.fitted.recorded",
        "Rehearsal": "ontarget.fitted.rehearsal",
        "StepLaw": "ontarget.fitted.law",
        "TargetCalibration": "ontarget.fitted.target_calibration",
        "TargetMap": "ontarget.fitted.target_map",
        "Threshold": "ontarget.fitted.guarantee",
        "Trained": "ontarget.fitted.fitted",
        "calibrate_target": "ontarget.fitted.calibrating",
        "map_goal": "ontarget.fitted.calibrating",
        "map_target": "ontarget.fitted.calibrating",
    },
)
