"""Everything for Gymnasium in one place: record environments, and watch them live.

Needs the extra ``gym``: ``pip install 'ontarget[gym]'``.
"""

from ontarget.integrations.goal import GoalWrapper
from ontarget.integrations.policies import ModelPolicy
from ontarget.integrations.recording import RecordEpisodes, record
from ontarget.integrations.vector_goal import VectorGoalWrapper
from ontarget.integrations.vector_recording import RecordVectorEpisodes

__all__ = [
    "GoalWrapper",
    "ModelPolicy",
    "RecordEpisodes",
    "RecordVectorEpisodes",
    "VectorGoalWrapper",
    "record",
]
