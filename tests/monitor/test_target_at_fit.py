"""A target named at `fit`: the default of every method, kept in the model file."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.errors import InputError
from ontarget.modelfile.several import inspect_any
from ontarget.models import QuantileForest
from tests.walks import shifted, walks

WANTED = Target(0.1, 1 / 3, closed="left") | Target.at_least(0.7)
OTHER = Target.at_least(0.0)
GOAL = Goal.parse("gain >= 0.1 & spent <= 2.2 | gain > 3")


def unfitted() -> GoalMonitor:
    return GoalMonitor(QuantileForest(n_trees=10, min_leaf=5))


def several(n: int = 200, seed: int = 0) -> Episodes:
    rng = np.random.default_rng(seed)
    gain, spent = rng.normal(size=(2, n, 3))
    signals = {"reward": gain, "energy": spent}
    behavior = {"gain": "sum", "spent": "sum:energy"}
    return Episodes.from_arrays(rng.normal(size=(n, 3, 1)), signals, behavior=behavior)


@pytest.fixture(scope="module")
def plain() -> GoalMonitor:
    return unfitted().fit(walks(), progress=False)


@pytest.fixture(scope="module")
def aimed() -> GoalMonitor:
    return unfitted().fit(walks(), target=WANTED, assure=0.2, progress=False)


@pytest.fixture(scope="module")
def joint() -> GoalMonitor:
    return unfitted().fit(several(), target=GOAL, progress=False)


CALLS: dict[str, Any] = {
    "outlook": lambda m, *t: m.outlook(2, np.zeros((3, 2)), 0.2, *t).arrays(),
    "explain": lambda m, *t: m.explain(2, [0.1, 0.0], 0.2, *t).p,
    "watch": lambda m, *t: m.watch(*t).step([0.1, 0.0]),
    "fleet": lambda m, *t: m.fleet(*t, agents=2).step(np.zeros((2, 2))).arrays(),
    "sessions": lambda m, *t: m.sessions(*t).answer({"agent": "a", "state": [0.1, 0.0]}),
    "alarm_curve": lambda m, *t: m.alarm_curve(*t),
    "harm_guard": lambda m, *t: m.harm_guard(*t).observe(shifted(60, 5, -0.2)),
    "drift": lambda m, *t: m.drift(shifted(60, 5, -0.2), *t),
    "evaluate": lambda m, *t: m.evaluate(walks(60, seed=7), *t, resamples=5).summary(),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_target_named_at_fit_is_the_default_of_every_method(
    name: str, plain: GoalMonitor, aimed: GoalMonitor
) -> None:
    call = CALLS[name]
    assert repr(call(aimed)) == repr(call(plain, WANTED))
    assert repr(call(aimed, OTHER)) == repr(call(plain, OTHER))
    with pytest.raises(InputError, match="`target` is needed, because none was named at fit"):
        call(plain)


def test_the_model_file_keeps_the_target(aimed: GoalMonitor, tmp_path: Path) -> None:
    path = tmp_path / "aimed.ontarget"
    aimed.save(path)
    again = GoalMonitor.load(path)
    assert again.target == WANTED
    assert inspect_any(path)["target"] == str(WANTED)
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


def test_a_fit_without_a_target_writes_none(plain: GoalMonitor, tmp_path: Path) -> None:
    path = tmp_path / "plain.ontarget"
    plain.save(path)
    assert GoalMonitor.load(path).target is None
    assert "target" not in inspect_any(path)


def test_a_goal_is_kept_as_a_target_is(joint: GoalMonitor, tmp_path: Path) -> None:
    path = tmp_path / "joint.ontarget"
    joint.save(path)
    again = GoalMonitor.load(path)
    assert again.target == GOAL
    assert inspect_any(path)["target"] == str(GOAL)
    new = several(50, seed=3)
    found = again.evaluate(new, resamples=5).summary()
    assert found == joint.evaluate(new, GOAL, resamples=5).summary()
    assert again.fleet(agents=2).agents == joint.fleet(GOAL, 2).agents
    assert joint.only("gain").target is None


def test_copies_and_monitors_made_from_it_keep_the_target(
    aimed: GoalMonitor, joint: GoalMonitor
) -> None:
    for monitor, new in ((aimed, walks(60, seed=8)), (joint, several(60, seed=8))):
        copied = (copy.copy(monitor), copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor)))
        for twin in (*copied, monitor.recalibrate(new)):
            assert twin.target == monitor.target
    both = Episodes.concat([walks(), walks(40, seed=8)])
    assert GoalMonitor().fit(both, warm=aimed, progress=False).target == WANTED
    assert GoalMonitor().fit(both, warm=aimed, target=OTHER, progress=False).target == OTHER


@pytest.mark.parametrize(
    ("episodes", "target", "words"),
    [
        (walks(), "0:", "needs a Target"),
        (walks(), GOAL, "needs a Target"),
        (several(), WANTED, "needs a Goal"),
        (several(), Goal.parse("speed > 1"), "needs behaviors among"),
        (several(), Goal.where(lambda gain, spent: gain > spent), "without a function"),
    ],
)
def test_a_target_that_cannot_be_kept_is_refused_before_the_fit(
    episodes: Episodes, target: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        unfitted().fit(episodes, target=target, progress=False)
