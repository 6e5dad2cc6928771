"""Alarm scores: what they say where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import FewEpisodesError
from ontarget.fitted.guarantee import alarm_scores
from refusals import refuses


@pytest.mark.parametrize("shape", [(3, 2), (3, 0)])
def test_a_rate_without_a_known_step_says_so(shape: tuple[int, int]) -> None:
    with refuses(FewEpisodesError, None, "known p", "min_calibration="):
        alarm_scores(np.full(shape, np.nan))


def test_an_episode_without_known_steps_never_alarms_below_any_threshold() -> None:
    scores = alarm_scores(np.array([[0.4, np.nan], [0.2, np.nan]]))
    assert scores.tolist() == [0.2, np.inf]
