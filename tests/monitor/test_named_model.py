"""A model may be named, and one model may serve a whole run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.errors import InputError
from ontarget.models import DistributionRegression
from refusals import refuses
from tests.outside.nearest_outcomes import NearestOutcomes


def walks(n: int, seed: int = 0) -> Episodes:
    """Runs whose outcome is linear in the first state, so that a regression tells it best."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 4, 2))
    ids = np.arange(n) + 10_000 * seed
    return Episodes.from_arrays(states, states[:, :, 0] + 0.2 * rng.normal(size=(n, 4)), ids=ids)


def test_a_name_stands_for_a_model_with_its_defaults() -> None:
    monitor = GoalMonitor("distribution_regression").fit(walks(60), progress=False)
    assert isinstance(monitor.fitted.models[0], DistributionRegression)
    with refuses(InputError, "model", "'forst'"):
        GoalMonitor("forst").fit(walks(60), progress=False)


class Everywhere(NearestOutcomes):
    """A model of a user's own that is meant for all steps."""

    whole_run = True


@pytest.mark.parametrize(("steps_per_model", "blocks"), [(None, 1), ("auto", 1), (2, 2)])
def test_a_model_for_the_whole_run_has_one_block_unless_told_otherwise(
    steps_per_model: Any, blocks: int
) -> None:
    monitor = GoalMonitor(Everywhere(), steps_per_model=steps_per_model, min_calibration=5)
    assert len(monitor.fit(walks(60), progress=False).fitted.blocks) == blocks
