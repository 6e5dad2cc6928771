"""What a monitor was made with: kept in its file, given to scikit-learn, shared by copies."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from ontarget import GoalMonitor, QuantileForest, StackedForest, Target
from ontarget.errors import InputError, UnfittedError
from ontarget.models import Marginal
from refusals import refuses
from tests.walks import walks

EVERY = {
    "model": StackedForest(n_trees=4, min_leaf=4),
    "preset": "paper",
    "window": 1,
    "steps_per_model": 3,
    "group": "group",
    "min_calibration": 7,
    "reward_bounds": (None, 5.0),
    "policy": "robot 7",
    "unseen": "error",
    "history": 2,
}


def fitted() -> GoalMonitor:
    return GoalMonitor(**EVERY).fit(walks(120, groups=2), seed=3, progress=False)


def test_a_loaded_monitor_has_every_parameter_and_fits_the_same_again(tmp_path: Path) -> None:
    monitor = fitted()
    monitor.save(tmp_path / "a")
    loaded = GoalMonitor.load(tmp_path / "a")
    for name, value in EVERY.items():
        if name != "model":
            assert getattr(loaded, name) == value
    assert loaded.model.get_params() | {"experts": None} == (
        EVERY["model"].get_params() | {"experts": None}
    )
    loaded.fit(walks(120, groups=2), seed=3, progress=False).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_scikit_learn_can_clone_a_monitor() -> None:
    monitor = fitted()
    twin = clone(monitor)
    assert twin.get_params(deep=False).keys() == EVERY.keys()
    assert twin.model is not monitor.model
    assert twin.get_params()["model__n_trees"] == 4
    with pytest.raises(UnfittedError):
        _ = twin.horizon
    twin.set_params(window=0, model__n_trees=2)
    assert (twin.window, twin.model.n_trees, monitor.model.n_trees) == (0, 2, 4)
    with refuses(InputError, None, "'depth'", "model, preset"):
        twin.set_params(depth=3)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("origin", ["fitted", "loaded"])
def test_copies_answer_alike(how, origin: str, tmp_path: Path) -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=5)).fit(walks(150), progress=False)
    if origin == "loaded":
        monitor.save(tmp_path / "m")
        monitor = GoalMonitor.load(tmp_path / "m")
    twin = how(monitor)
    step = walks(10, seed=4).at(2)
    ask = (2, step.states, step.behavior, [Target.at_least(0.1), Target(-0.2, 0.2)])
    np.testing.assert_array_equal(monitor.outlook(*ask).p, twin.outlook(*ask).p)
    rate = {"false_alarm_rate": 0.2}
    assert twin.watch(ask[3][0], **rate).trigger == monitor.watch(ask[3][0], **rate).trigger
    monitor.save(tmp_path / "a")
    twin.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_deep_copy_shares_what_never_changes() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(100), progress=False)
    assert copy.deepcopy(monitor).fitted is monitor.fitted
    assert not isinstance(copy.deepcopy(GoalMonitor()), type(None))


def test_a_further_watch_shares_its_contract() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(100), progress=False)
    target = Target.at_least(0)
    first, second = monitor.watch(target), monitor.watch(Target.at_least(0.0))
    assert first.contract is second.contract
    assert monitor.fleet(target, 2)._contract is first.contract
    assert monitor.watch(target, alarm_below=0.5).contract is not first.contract


def test_assure_is_a_share_of_the_episodes_and_a_split_has_its_own() -> None:
    runs = walks(100)
    monitor = GoalMonitor(Marginal())
    assert monitor.fit(runs, assure=0.1, progress=False).sizes == {"learn": 90, "assure": 10}
    for wrong in (-0.1, 1.0, 20):
        with refuses(InputError, "assure", "below 1"):
            monitor.fit(runs, assure=wrong, progress=False)
    with refuses(InputError, "assure", "a split"):
        monitor.fit(split=runs.split(), assure=0.1, progress=False)
