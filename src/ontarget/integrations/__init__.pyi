from .goal import GoalWrapper as GoalWrapper
from .policies import ModelPolicy as ModelPolicy
from .recording import RecordEpisodes as RecordEpisodes
from .recording import record as record
from .stable_baselines3 import GoalCallback as GoalCallback
from .vector_goal import VectorGoalWrapper as VectorGoalWrapper
from .vector_recording import RecordVectorEpisodes as RecordVectorEpisodes
