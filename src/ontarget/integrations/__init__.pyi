from .goal import GoalWrapper as GoalWrapper
from .goal import VectorGoalWrapper as VectorGoalWrapper
from .recorder import ModelPolicy as ModelPolicy
from .recording import RecordEpisodes as RecordEpisodes
from .recording import RecordVectorEpisodes as RecordVectorEpisodes
from .recording import record as record
from .stable_baselines3 import GoalCallback as GoalCallback
