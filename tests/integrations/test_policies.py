from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import InputError
from ontarget.integrations import ModelPolicy, record
from ontarget.integrations.recorder import actor_of
from refusals import refuses
from tests.integrations.toys import Scripted

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.HorizonWarning")


class Recurrent:
    """Counts its steps since the last start in its hidden state, as sb3-contrib's models do."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int, bool]] = []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        count = 0 if state is None or episode_start[0] else state + 1
        self.seen.append((float(observation[0]), count, deterministic))
        return 0, count


def test_a_models_hidden_state_lives_as_long_as_the_run() -> None:
    model = Recurrent()
    record(Scripted(terminate_after=3), model, 2, progress=False)
    assert model.seen == [(float(t), t, True) for t in (0, 1, 2, 0, 1, 2)]


def test_observations_are_normalised_as_in_training() -> None:
    model = Recurrent()
    policy = ModelPolicy(model, deterministic=False, normalize=lambda seen: seen + 100.0)
    record(Scripted(terminate_after=2), policy, 1, progress=False)
    assert model.seen == [(100.0, 0, False), (101.0, 1, False)]


def test_in_a_batch_each_run_starts_by_itself() -> None:
    starts = []

    class Model:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            starts.append(episode_start.tolist())
            return np.zeros(3, dtype=int), "hidden"

    actor = actor_of(Model())
    actor.begin(np.ones(3, dtype=bool))
    actor(np.zeros((3, 2)))
    actor(np.zeros((3, 2)))
    actor.begin(np.array([False, True, False]))
    actor(np.zeros((3, 2)))
    assert starts == [[True] * 3, [False] * 3, [False, True, False]]


def test_a_model_needs_predict() -> None:
    with refuses(InputError, "model", "int"):
        ModelPolicy(3)
