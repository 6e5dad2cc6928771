"""A monitor's file: the same answers, the same bytes, and one kind of error from damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import Target
from ontarget.errors import ModelFileError
from ontarget.modelfile.file import inspect_file
from ontarget.models import DistributionRegression, Marginal, QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from refusals import refuses
from tests.outside.first_loss import FirstLoss
from tests.walks import walks

TARGETS = [Target.at_least(0.2), Target(-0.5, 0.3)]
MODELS = {
    "forest": QuantileForest(n_trees=8, min_leaf=10),
    "marginal": Marginal(),
    "regression": DistributionRegression(),
}


def fitted(model=None, **options) -> GoalMonitor:
    episodes = walks(options.pop("n", 120), **options)
    monitor = GoalMonitor(model or Marginal(), steps_per_model=2, min_calibration=5)
    return monitor.fit(episodes, progress=False)


def answers(monitor: GoalMonitor) -> np.ndarray:
    """Every number that the monitor gives on some probes, at every step."""
    probes = walks(6, seed=8)
    found = []
    for t in range(6):
        step = probes.at(t)
        outlook = monitor.outlook(t, step.states, step.behavior, TARGETS)
        found += [outlook.low, outlook.p, outlook.high, outlook.plausibility, outlook.assurance]
    return np.array(found)


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_monitor_gives_the_same_answers_to_the_last_bit(name: str, tmp_path: Path) -> None:
    monitor = fitted(MODELS[name])
    monitor.save(tmp_path / "a.ontarget")
    loaded = GoalMonitor.load(tmp_path / "a.ontarget")
    np.testing.assert_array_equal(answers(loaded), answers(monitor))
    rules = [m.watch(TARGETS[0], false_alarm_rate=0.2).trigger for m in (monitor, loaded)]
    assert rules[0] == rules[1]
    loaded.save(tmp_path / "b.ontarget")
    assert (tmp_path / "a.ontarget").read_bytes() == (tmp_path / "b.ontarget").read_bytes()


def test_the_same_fit_gives_the_same_bytes_whatever_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, threads in (("a", "1"), ("b", "2"), ("c", "3")):
        monkeypatch.setenv("ONTARGET_THREADS", threads)
        fitted(MODELS["forest"]).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("behavior", ["max", "min"])
def test_assure_episodes_keep_what_was_still_to_come(behavior: str, tmp_path: Path) -> None:
    monitor = fitted(behavior=behavior, ragged=True)
    monitor.save(tmp_path / "a.ontarget")
    loaded = GoalMonitor.load(tmp_path / "a.ontarget")
    assert monitor.fitted.assure is not None
    assert loaded.fitted.assure is not None
    for t in range(1, 6):  # at 0 the outcome is all to come
        before, after = monitor.fitted.assure.at(t), loaded.fitted.assure.at(t)
        assert before.remaining.tolist() == after.remaining.tolist() != after.outcomes.tolist()


def test_groups_ragged_episodes_and_text_survive(tmp_path: Path) -> None:
    episodes = walks(240, ragged=True, groups=2)
    monitor = GoalMonitor(Marginal(), group="group", min_calibration=5, policy="robot 7")
    monitor.fit(episodes, progress=False).save(tmp_path / "a.ontarget")
    loaded = GoalMonitor.load(tmp_path / "a.ontarget")
    assert loaded.fitted.groups == ("0", "1")
    assert loaded.policy == "robot 7"
    for group in "01":
        one = monitor.watch(TARGETS[0], false_alarm_rate=0.2, group=group).trigger
        assert one == loaded.watch(TARGETS[0], false_alarm_rate=0.2, group=group).trigger


def test_a_behavior_of_ones_own_is_passed_to_load(tmp_path: Path) -> None:
    path = tmp_path / "a.ontarget"
    monitor = fitted(behavior=FirstLoss())
    monitor.save(path)
    loaded = GoalMonitor.load(path, behavior=FirstLoss())
    np.testing.assert_array_equal(answers(loaded), answers(monitor))
    with refuses(ModelFileError, None, path, "GoalMonitor.load", "behavior=FirstLoss(limit=-0.3"):
        GoalMonitor.load(path)
    for other in (FirstLoss(limit=-0.5), "sum"):
        with refuses(ModelFileError, None, path, "`behavior`"):
            GoalMonitor.load(path, behavior=other)
    assert inspect_file(path)["behavior"] == "own:FirstLoss(limit=-0.3, steps=6)"


def test_inspect_tells_what_a_file_holds(tmp_path: Path) -> None:
    fitted().save(tmp_path / "a.ontarget")
    found = inspect_file(tmp_path / "a.ontarget")
    assert found["sizes"] == {"learn": 96, "assure": 24}
    assert found["horizon"] == 6
    assert found["bytes"] == (tmp_path / "a.ontarget").stat().st_size


def survives(path: Path, expected: np.ndarray) -> bool:
    """Whether a damaged file answers as the whole one does; False where it is refused."""
    try:
        found = answers(GoalMonitor.load(path))
    except ModelFileError:
        return False
    np.testing.assert_array_equal(found, expected)
    return True


def mutate(path: Path, whole: bytes, n: int, seed: int) -> list[bool]:
    expected = answers_of(path, whole)
    rng = np.random.default_rng(seed)
    survived = []
    for _ in range(n):
        damaged = bytearray(whole)
        # Early bytes hold the header, so half of the damage goes there.
        span = len(whole) if rng.random() < 0.5 else min(4096, len(whole))
        for place in rng.integers(0, span, size=rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        survived.append(survives(path, expected))
    return survived


def answers_of(path: Path, whole: bytes) -> np.ndarray:
    path.write_bytes(whole)
    return answers(GoalMonitor.load(path))


@pytest.mark.parametrize("n", [150, pytest.param(5_000, marks=pytest.mark.slow)])
def test_a_mutated_file_answers_identically_or_is_refused(n: int, tmp_path: Path) -> None:
    path = tmp_path / "a.ontarget"
    fitted(MODELS["forest"], n=60).save(path)
    survived = mutate(path, path.read_bytes(), n, seed=n)
    assert sum(survived) < 0.05 * n


@pytest.mark.parametrize("stride", [131, pytest.param(1, marks=pytest.mark.slow)])
def test_every_truncation_is_refused(stride: int, tmp_path: Path) -> None:
    path = tmp_path / "a.ontarget"
    fitted(n=40).save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), stride), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            GoalMonitor.load(path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ontarget"
    path.write_text("hello")
    with pytest.raises(ModelFileError, match=r"a\.ontarget"):
        GoalMonitor.load(path)
    with pytest.raises(ModelFileError):
        GoalMonitor.load(tmp_path / "none.ontarget")
