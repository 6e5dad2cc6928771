"""One huge reward changes nobody's side, and whoever rounding would move is named (method M1)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.errors import EpisodesWarning, TargetError
from ontarget.live.outlook import Status
from refusals import refuses

HORIZON = 6


def rewards(n: int, seed: int, decimals: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(0.2, 1.0, (n, HORIZON)) * (1 if decimals else 3), decimals)


def runs(earned: np.ndarray, first: int = 0, behavior: str = "sum") -> Episodes:
    states = np.random.default_rng(9).normal(size=(*earned.shape, 1))
    ids = np.arange(first, first + len(earned))
    return Episodes.from_arrays(states, earned, ids=ids, behavior=behavior)


def hit(earned: np.ndarray, which: Iterable[int], value: float) -> np.ndarray:
    changed = earned.copy()
    changed[list(which), 2] = value
    return changed


def fitted(episodes: Episodes) -> GoalMonitor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpisodesWarning)
        return GoalMonitor().fit(episodes, progress=False)


def parts(n: int = 160) -> tuple[list[int], list[int]]:
    split = runs(np.zeros((n, HORIZON))).split()
    assert split.assure is not None
    return split.learn.ids.tolist(), split.assure.ids.tolist()


LEARN, ASSURE = parts()


@pytest.mark.parametrize(
    ("decimals", "value", "kind"),
    [
        (0, -1e9, np.float64),
        (2, -1e9, np.float64),
        (2, 1e9, np.float64),
        (2, -1e9, np.float32),
    ],
)
@pytest.mark.parametrize(
    ("old", "new"), [(LEARN[:4], range(4)), (ASSURE[:2], ()), ((), range(3)), (LEARN[:1], ())]
)
def test_a_huge_reward_changes_nobody_elses_side(
    decimals: int, value: float, kind: type, old: Iterable[int], new: Iterable[int]
) -> None:
    known = hit(rewards(160, 0, decimals), old, value)
    later = hit(rewards(80, 1, decimals), new, value)
    monitor = fitted(runs(known.astype(kind)))
    target = Target.at_least(3)
    found = monitor.evaluate(runs(later.astype(kind), 1000), target, resamples=5)
    exact = np.rint(later * 100).sum(axis=1) >= 300
    assert found.met.tolist() == exact.tolist()
    assert monitor.grid <= 10.0**-decimals


def test_a_single_huge_reward_hardly_moves_p() -> None:
    target, asked = Target.at_least(3), (1, np.zeros((1, 1)), 0.5)
    plain = fitted(runs(rewards(160, 0))).outlook(*asked, target).p
    found = fitted(runs(hit(rewards(160, 0), LEARN[:1], 1e9))).outlook(*asked, target).p
    assert abs(found - plain) < 0.1


@pytest.mark.parametrize("behavior", ["mean", "discounted:0.9", "max", "last", "share:>0"])
def test_every_behavior_keeps_its_sides(behavior: str) -> None:
    later = hit(rewards(80, 1), range(3), -1e9)
    monitor = fitted(runs(hit(rewards(160, 0), LEARN[:4], -1e9), behavior=behavior))
    new = runs(later, 1000, behavior=behavior)
    bound = float(np.median(new.outcomes)) + 0.0005
    found = monitor.evaluate(new, Target.at_least(bound), resamples=5)
    assert found.met.tolist() == (new._unsnapped_outcomes >= bound).tolist()


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_whoever_would_change_sides_is_named_and_refused() -> None:
    earned = hit(rewards(160, 0), LEARN[:1], 1e15)
    monitor, target = fitted(runs(earned)), Target.at_least(3)
    totals = earned.sum(axis=1)
    assert monitor.grid > 1.0
    first = next(i for i in ASSURE if (totals[i] >= 3) != (totals[i] >= monitor.grid / 2))
    for asked in (
        lambda: monitor.watch(target),
        lambda: monitor.fleet(target, 2, calibration="common"),
        lambda: monitor.sessions(target),
        lambda: monitor.alarm_curve(target),
        lambda: monitor.outlook(1, np.zeros((1, 1)), 0.0, target),
        lambda: monitor.outlook(1, np.zeros((1, 1)), 0.0, [target], calibration="common"),
        lambda: monitor.explain(1, [0.0], 0.0, target),
        lambda: monitor.evaluate(runs(rewards(80, 1), 1000), target),
        lambda: monitor.drift(runs(rewards(80, 1), 1000), target),
        lambda: monitor.harm_guard(target),
    ):
        with refuses(TargetError, None, f"episode {first} "):
            asked()
    # A target far from everybody's outcome is answered.
    assert monitor.watch(Target.at_least(-1e6)).step([0.0]).p > 0.9


def test_a_loaded_monitor_refuses_as_well(tmp_path: Path) -> None:
    monitor = fitted(runs(hit(rewards(160, 0), LEARN[:1], 1e15)))
    monitor.save(tmp_path / "m.ontarget")
    with pytest.raises(TargetError) as refused:  # a file has no ids of assure episodes
        GoalMonitor.load(tmp_path / "m.ontarget").watch(Target.at_least(3))
    assert "episode" not in str(refused.value).partition(";")[0]


def test_learning_runs_count_where_nobody_is_held_out() -> None:
    earned = hit(rewards(60, 0), [0], 1e15)
    with pytest.warns(EpisodesWarning):
        monitor = GoalMonitor().fit(runs(earned), assure=0, progress=False)
    with pytest.raises(TargetError):
        monitor.watch(Target.at_least(3))


def test_a_goal_refuses_only_who_changes_the_whole_answer() -> None:
    earned, other = hit(rewards(160, 0), LEARN[:1], 1e15), rewards(160, 5)
    states = np.random.default_rng(9).normal(size=(160, HORIZON, 1))
    signals = {"reward": earned, "energy": other}
    episodes = Episodes.from_arrays(states, signals, behavior={"gain": "sum", "use": "sum:energy"})
    monitor = fitted(episodes)
    assert monitor.only("use").grid <= 0.01
    assert monitor.only("gain").grid > 1.0
    with pytest.raises(TargetError):
        monitor.watch(Goal(gain=Target.at_least(3), use=Target.at_least(1)))
    with pytest.raises(TargetError):
        monitor.watch(Goal.where(lambda gain, use: (gain >= 3) & (use > 1)), alarm_below=0.5)
    assert monitor.watch(Goal(use=Target.at_least(1)), alarm_below=0.5).step([0.0], {}).p > 0.0
    far = Goal(gain=Target.at_least(-1e6), use=Target.at_least(1.005))
    assert monitor.watch(far, alarm_below=0.5).step([0.0], {}).p > 0.0


def test_fit_and_look_name_outcomes_that_dwarf_the_others() -> None:
    episodes = runs(hit(rewards(160, 0), [7], -1e9))
    (caution,) = [one for one in episodes.look().cautions if one.kind == "outliers"]
    assert "episode 7 (" in str(caution)
    with pytest.warns(EpisodesWarning, match=r"episode 7\b"):
        GoalMonitor().fit(episodes, progress=False)
    assert not [one for one in runs(rewards(160, 0)).look().cautions if one.kind == "outliers"]


def test_look_says_when_rounding_hides_the_answer() -> None:
    earned = hit(rewards(160, 0), [7], 1e15)
    found = runs(earned).look(Target.at_least(3))
    assert [one.kind for one in found.cautions][:2] == ["outliers", "rounding"]
    assert found.met == np.count_nonzero(earned.sum(axis=1) >= 3)


def test_nothing_of_the_grid_comes_from_assure() -> None:
    plain = fitted(runs(rewards(160, 0)))
    earned = rewards(160, 0)
    earned[ASSURE, 1] += 0.0005
    finer = runs(earned)
    for episodes in (finer, finer.compact(), finer.take(np.arange(160)), finer.sample(160)):
        assert fitted(episodes).grid == plain.grid
    split = finer.split()
    again = type(split)(finer.take(LEARN), finer.take(ASSURE), None)
    assert GoalMonitor().fit(split=again, progress=False).grid == plain.grid


def test_finer_rewards_in_new_runs_are_judged_as_they_are_live_and_recorded() -> None:
    monitor, target = fitted(runs(rewards(160, 0, decimals=0))), Target.at_least(3)
    later = rewards(40, 1, decimals=0)
    later[4] = [3.0, 0.0, 0.0, 0.0, 0.0, -0.4]  # 2.6, which would be 3 as a whole number
    later[5] = [2.0, 0.0, 1.5, 0.0, 0.0, -0.4999]
    new = runs(later, 1000)
    found = monitor.evaluate(new, target, resamples=5)
    assert found.met[[4, 5]].tolist() == [False, True]
    for i in (4, 5):
        watch = monitor.watch(target, alarm_below=0.1)
        for t in range(HORIZON):
            said = watch.step(new.take([i]).at(t).states[0], later[i, t - 1] if t else 0.0)
            assert said.p == found.p[t, i]
        assert watch.end(later[i, -1]).p == float(found.met[i])


def test_noise_of_sums_and_float32_is_no_change_of_sides() -> None:
    monitor = fitted(runs(np.full((160, HORIZON), 0.1) * np.arange(1, 161)[:, None]))
    target = Target.at_least(0.1 * HORIZON * 40)
    assert monitor.watch(target, alarm_below=0.5).step([0.0]).p > 0.0
    single = np.round(rewards(160, 0), 1).astype(np.float32)
    monitor = fitted(runs(single))
    for bound in (0.7, 1.1, 2.3):
        watch = monitor.watch(Target.at_least(bound), alarm_below=0.5)
        watch.step([0.0])
        assert watch.step([0.0], np.float32(0.7)).status is not Status.UNKNOWN


def test_a_target_at_a_recorded_outcome_is_answered_whatever_its_digits() -> None:
    earned = np.random.default_rng(3).normal(size=(160, HORIZON))
    for behavior in ("sum", "min", "mean"):
        episodes = runs(earned, behavior=behavior)
        monitor = fitted(episodes)
        for outcome in episodes.at(0, grid=monitor.grid).outcomes[:20].tolist():
            found = monitor.outlook(0, np.zeros((1, 1)), 0.0, Target(outcome, outcome))
            assert found.p >= 0.0
