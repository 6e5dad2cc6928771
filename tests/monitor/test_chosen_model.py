"""A model may be named, or chosen by the learning episodes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.episodes import Split
from ontarget.errors import InputError
from ontarget.fitting import _choosing
from ontarget.fitting._choosing import best_model, candidates
from ontarget.models import DistributionRegression
from tests.outside.nearest_outcomes import NearestOutcomes


def walks(n: int, seed: int = 0) -> Episodes:
    """Runs whose outcome is linear in the first state, so that a regression tells it best."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 4, 2))
    ids = np.arange(n) + 10_000 * seed
    return Episodes.from_arrays(states, states[:, :, 0] + 0.2 * rng.normal(size=(n, 4)), ids=ids)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice between a model that may learn from the states and one that hardly may."""
    found = {"held": DistributionRegression(1e9), "free": DistributionRegression()}
    monkeypatch.setattr(_choosing, "candidates", lambda: found)


@pytest.mark.usefixtures("two")
def test_the_model_that_tells_held_out_outcomes_best_is_taken_and_told(tmp_path: Path) -> None:
    monitor = GoalMonitor("auto").fit(walks(150), progress=False)
    assert {one.penalty for one in monitor.fitted.models} == {1.0}
    best, other = monitor.fitted.trained.chosen.models
    assert (best.name, other.name) == ("free", "held")
    assert best.crps < other.crps - 2.0 * other.error
    monitor.save(tmp_path / "one.ontarget")
    again = GoalMonitor.load(tmp_path / "one.ontarget")
    assert again.fitted.trained.chosen == monitor.fitted.trained.chosen
    assert again.model == "auto"  # and would choose again


@pytest.mark.usefixtures("two")
def test_the_choice_never_looks_at_assure() -> None:
    learn = walks(150)
    found = [
        GoalMonitor("auto").fit(split=Split(learn, other, None), progress=False).fitted
        for other in (walks(40, seed=1), walks(40, seed=2))
    ]
    assert found[0].trained.chosen.models == found[1].trained.chosen.models
    assert found[0].ranks.values.tolist() != found[1].ranks.values.tolist()


def test_at_most_2_000_episodes_choose_the_same_ones_for_the_same_seed() -> None:
    many, asked = walks(2_100), []

    def losses(model: Any, some: Episodes) -> np.ndarray:
        asked.append(some.ids.tolist())
        return np.full((len(some), 1), 1.0 if isinstance(model, DistributionRegression) else 2.0)

    model, trials = best_model(many, losses, seed=3, progress=False)
    assert isinstance(model, DistributionRegression)
    assert [one.crps for one in trials] == [1.0, *[2.0] * (len(trials) - 1)]
    best_model(many, losses, seed=3, progress=False)
    assert len(asked[0]) == 2_000
    assert all(one == asked[0] for one in asked)
    best_model(many, losses, seed=4, progress=False)
    assert asked[-1] != asked[0]


def test_models_are_compared_where_all_of_them_have_answered() -> None:
    one, other = np.array([[1.0, 5.0], [1.0, np.nan]]), np.array([[2.0, np.nan], [4.0, 3.0]])
    best, worse = _choosing._ranked({"other": other, "one": one})
    assert (best.name, best.crps, best.error) == ("one", 1.0, 0.0)
    assert (worse.name, worse.crps) == ("other", 3.0)
    assert worse.error == pytest.approx(1.0 / np.sqrt(2.0))


def test_few_episodes_keep_the_default() -> None:
    def losses(model: Any, some: Episodes) -> np.ndarray:
        raise AssertionError("chance would choose")

    model, trials = best_model(walks(99), losses, seed=0, progress=False)
    assert type(model).__name__ == "StackedForest"
    assert trials == ()


@pytest.mark.parametrize("installed", [False, True])
def test_a_network_is_tried_where_pytorch_is_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_choosing, "find_spec", lambda name: object() if installed else None)
    assert ("quantile_network" in candidates()) == installed
    assert {"stacked_forest", "quantile_forest"} < candidates().keys()


def test_a_name_stands_for_a_model_with_its_defaults() -> None:
    monitor = GoalMonitor("distribution_regression").fit(walks(60), progress=False)
    assert isinstance(monitor.fitted.models[0], DistributionRegression)
    with pytest.raises(InputError, match=r"`model` needs one of auto, .*, got 'forst'"):
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
