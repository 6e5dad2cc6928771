"""Records and watches environments of Gymnasium and agents of Stable-Baselines3.

These packages are loaded only when they are used. If one is missing, the error says how to install
it.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.integrations.goal import GoalWrapper
    from ontarget.integrations.policies import ModelPolicy
    from ontarget.integrations.recording import RecordEpisodes, record
    from ontarget.integrations.stable_baselines3 import GoalCallback
    from ontarget.integrations.vector_goal import VectorGoalWrapper
    from ontarget.integrations.vector_recording import RecordVectorEpisodes

__all__ = [
    "GoalCallback",
    "GoalWrapper",
    "ModelPolicy",
    "RecordEpisodes",
    "RecordVectorEpisodes",
    "VectorGoalWrapper",
    "record",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GoalCallback": "ontarget.integrations.stable_baselines3",
        "GoalWrapper": "ontarget.integrations.goal",
        "ModelPolicy": "ontarget.integrations.policies",
        "record": "ontarget.integrations.recording",
        "RecordEpisodes": "ontarget.integrations.recording",
        "RecordVectorEpisodes": "ontarget.integrations.vector_recording",
        "VectorGoalWrapper": "ontarget.integrations.vector_goal",
    },
)
