from __future__ import annotations

import copy
import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, Target
from ontarget.drift import DriftBet, DriftGuard
from ontarget.drift.bets import CELLS, Bag
from ontarget.errors import (
    CalibrationError,
    EpisodesError,
    GroupError,
    InputError,
    ModelFileError,
)
from ontarget.models import Marginal, QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from tests.walks import shifted, walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(Marginal()).fit(walks(400), progress=False)


def test_evidence_stays_low_on_runs_like_those_recorded_and_rises_on_others() -> None:
    same = MONITOR.drift_guard().observe(walks(150, seed=3))
    assert same.n == 150
    assert not same.alarm
    rng = np.random.default_rng(0)
    worse = Episodes.from_arrays(rng.normal(size=(150, 6, 2)), rng.normal(-0.3, 0.2, (150, 6)))
    assert MONITOR.drift_guard().observe(worse).alarm


def test_early_finishers_are_held_back_until_those_before_them_are_in() -> None:
    runs = walks(5, seed=4)
    in_order, held = MONITOR.drift_guard(), MONITOR.drift_guard()
    for i in range(5):
        held.begin(runs.ids[i])
        in_order.observe(runs.take([i]))
    for i in (4, 2, 1):
        assert held.observe(runs.take([i])).n == 0
    assert held.observe(runs.take([0])).n == 3
    assert held.observe(runs.take([3])) == in_order.reading


def test_a_run_that_will_never_be_observed_is_withdrawn_and_nobody_waits_for_it() -> None:
    runs = walks(5, seed=4)
    in_order, held = MONITOR.drift_guard(), MONITOR.drift_guard()
    for name in runs.ids.tolist():
        held.begin(name)
    assert held.observe(runs.take([1, 2, 3])).n == 0  # all wait for the first
    for one in ("never announced", runs.ids[2]):
        with pytest.raises(InputError, match="announced by begin and not observed"):
            held.withdraw(one)
    assert held.withdraw(runs.ids[0]) == in_order.observe(runs.take([1, 2, 3]))
    assert held.observe(runs.take([4])) == in_order.observe(runs.take([4]))
    with pytest.raises(InputError):
        held.observe(runs.take([0]))  # it was taken back


def test_episodes_are_announced_all_or_none_and_once() -> None:
    guard, runs = MONITOR.drift_guard(), walks(3, seed=5)
    guard.begin(runs.ids[0])
    with pytest.raises(InputError, match="was not announced"):
        guard.observe(runs.take([1]))
    with pytest.raises(InputError, match="already begun"):
        guard.begin(runs.ids[0])


def test_all_stay_announced_once_one_was() -> None:
    guard, runs = MONITOR.drift_guard(), walks(2, seed=5)
    guard.begin(runs.ids[0])
    assert guard.observe(runs.take([0])).n == 1
    with pytest.raises(InputError, match="was not announced"):
        guard.observe(runs.take([1]))


def test_nobody_waits_for_an_episode_that_ended_before_the_guarded_step() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5)
    guard = monitor.fit(walks(400, ragged=True), progress=False).drift_guard(t=3)
    runs = walks(6, seed=2, ragged=True)
    early = runs.lengths <= 3
    assert early.any()
    assert not early.all()
    for episode_id in runs.ids:
        guard.begin(episode_id)
    assert guard.observe(runs).n == np.count_nonzero(~early)
    short = Episodes.from_arrays(np.zeros((1, 2, 2)), np.zeros((1, 2)), ids=["short"])
    guard.begin("short")
    assert guard.observe(short).n == np.count_nonzero(~early)


def test_only_episodes_like_the_monitors_are_observed() -> None:
    with pytest.raises(EpisodesError, match="behavior sum, got max"):
        MONITOR.drift_guard().observe(walks(3, seed=5, behavior="max"))
    grouped = GoalMonitor(Marginal(), group="group").fit(walks(400, groups=2), progress=False)
    guard, runs = grouped.drift_guard(group="0"), walks(4, seed=5, groups=2)
    assert guard.observe(runs.take([0, 2])).n == 2
    with pytest.raises(GroupError, match="make a guard for each group"):
        guard.observe(runs.take([1]))


def test_a_step_that_cannot_be_guarded_is_refused() -> None:
    few = GoalMonitor(Marginal(), steps_per_model=1, min_calibration=30).fit(
        walks(100, ragged=True), progress=False
    )
    with pytest.raises(CalibrationError, match="step 5 cannot be guarded"):
        few.drift_guard(t=5)
    with pytest.raises(InputError, match="from 0 to 5, got 6"):
        MONITOR.drift_guard(t=6)


def test_an_alarm_stays_raised() -> None:
    bet = DriftBet(np.linspace(0.01, 0.99, 99), level=0.95)
    readings = [bet.observe(0.995) for _ in range(40)]
    first = next(i for i, reading in enumerate(readings) if reading.alarm)
    assert readings[first].evidence >= 20
    assert all(reading.alarm for reading in readings[first:])
    for j in range(400):
        last = bet.observe((j % 97) / 97)
    assert last.alarm
    assert math.isfinite(last.evidence)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_stored_guard_goes_on_where_it_was(again: Callable[[DriftGuard], DriftGuard]) -> None:
    runs, guard = walks(40, seed=6), MONITOR.drift_guard(t=2)
    for episode_id in runs.ids.tolist():
        guard.begin(episode_id)
    guard.observe(runs.take(range(10, 20)))  # held back for the first ten
    stored = again(guard)
    for part in (runs.take(range(10)), runs.take(range(20, 40))):
        assert stored.observe(part) == guard.observe(part)
    assert guard.reading.n == 40
    alone = again(guard)
    alone.begin("other")  # a copy shares nothing that changes
    guard.begin("other")


def test_a_saved_guard_goes_on_where_it_was(tmp_path: Path) -> None:
    runs, guard = walks(40, seed=6), MONITOR.drift_guard(t=2)
    for episode_id in runs.ids.tolist():
        guard.begin(episode_id)
    guard.observe(runs.take(range(10, 20)))  # held back for the first ten
    guard.save(tmp_path / "guard.json")
    again = MONITOR.drift_guard(t=2, resume=tmp_path / "guard.json")
    for part in (runs.take(range(10)), runs.take(range(20, 40))):
        assert again.observe(part) == guard.observe(part)
    assert again.reading.n == 40
    with pytest.raises(InputError, match="observed or withdrawn already"):
        again.observe(runs.take([3]))


def test_a_guard_is_resumed_only_as_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "guard.json"
    MONITOR.drift_guard().save(path)
    with pytest.raises(InputError, match="another t, 0, not 1"):
        MONITOR.drift_guard(t=1, resume=path)
    with pytest.raises(InputError, match=r"another level, '0\.99', not '0\.9'"):
        MONITOR.drift_guard(level=0.9, resume=path)
    with pytest.raises(InputError, match="another kind, 'drift', not 'harm'"):
        MONITOR.harm_guard(GOAL, resume=path)
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        MONITOR.drift_guard(resume=tmp_path / "none.json")
    other = GoalMonitor(Marginal()).fit(walks(200, seed=1), progress=False)
    with pytest.raises(InputError, match="another monitor"):
        other.drift_guard(resume=path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda kept: [], "not a file that the save method of a guard wrote"),
        (lambda kept: {**kept, "format": 2}, "the file needs format 1, got 2"),
        (lambda kept: {**kept, "bet": {**kept["bet"], "bag": [[70_000], [1]]}}, "damaged: a bag"),
        (lambda kept: {**kept, "bet": {**kept["bet"], "jumpers": [[1, 1, 1, 0]] * 2}}, "sum to 1"),
        (lambda kept: {**kept, "reading": [1, 2]}, "the saved guard is damaged"),
        (lambda kept: {name: kept[name] for name in kept if name != "seen"}, "damaged: 'seen'"),
    ],
)
def test_a_damaged_guard_is_refused(tmp_path: Path, spoil, message: str) -> None:
    path = tmp_path / "guard.json"
    MONITOR.drift_guard().save(path)
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    with pytest.raises(ModelFileError, match=message):
        MONITOR.drift_guard(resume=path)


def test_a_guard_with_ids_that_json_lacks_is_not_saved(tmp_path: Path) -> None:
    guard = MONITOR.drift_guard()
    guard.begin((1, 2))
    with pytest.raises(InputError, match=r"texts or whole numbers, got \(1, 2\)"):
        guard.save(tmp_path / "guard.json")
    assert not list(tmp_path.iterdir())


def test_the_harm_guard_is_silent_where_runs_end_better_and_fires_where_they_end_worse() -> None:
    forest = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(1000), progress=False)
    better, worse = (forest.harm_guard(GOAL).observe(shifted(300, 4, by)) for by in (0.1, -0.1))
    assert (better.alarm, worse.alarm) == (False, True)
    assert forest.drift_guard().observe(shifted(300, 4, 0.1)).alarm


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0, 1))
def test_a_bag_counts_as_a_sorted_list_of_cells_does(scores: list[float], score: float) -> None:
    cells = [min(int(one * CELLS), CELLS - 1) for one in scores]
    own = min(int(score * CELLS), CELLS - 1)
    place = Bag(scores).place(score)
    assert place == (sum(c < own for c in cells), cells.count(own), len(cells))
    assert Bag.from_json(Bag(scores).to_json()).place(score) == place


def test_what_a_guard_compares_may_be_noted_without_the_episode() -> None:
    new = shifted(40, 4, -0.1)
    found = MONITOR.evaluate(new, GOAL, resamples=2)
    whole, noted = MONITOR.harm_guard(GOAL), MONITOR.harm_guard(GOAL)
    for name, p, met in zip(new.ids.tolist(), found.p[0], found.met, strict=True):
        noted.note(name, float(p - met))
    assert noted.reading.n == whole.observe(new).n == 40
    assert noted.reading.evidence == pytest.approx(whole.reading.evidence)
    with pytest.raises(InputError, match="each run counts once"):
        noted.note(new.ids[0], 0.5)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names on Windows")
def test_a_guard_is_not_resumed_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "guard.json")
    for name in ("guard.json", "a\0b", "x" * 5_000):
        with pytest.raises(ModelFileError):
            MONITOR.drift_guard(resume=tmp_path / name)


def alarmed(*, announced: bool) -> tuple[DriftGuard, Episodes, int]:
    """A guard just after its alarm, the changed runs, and which of them raised it."""
    guard, worse = MONITOR.drift_guard(), shifted(200, 3, -0.3)
    for name in worse.ids.tolist() if announced else ():
        guard.begin(name)
    last = next(i for i in range(200) if guard.observe(worse.take([i])).alarm)
    assert guard.since_alarm == ()
    return guard, worse, last


def test_runs_after_the_alarm_are_those_to_recalibrate_on() -> None:
    guard, worse, last = alarmed(announced=False)
    later = worse.take(range(last + 1, last + 61))
    guard.observe(later)
    assert list(guard.since_alarm) == later.ids.tolist()
    renewed = MONITOR.recalibrate(later)
    assert not renewed.drift_guard().observe(shifted(60, 4, -0.3)).alarm


@pytest.mark.parametrize("announced", [False, True])
def test_many_runs_at_once_are_told_apart_like_one_by_one(announced: bool) -> None:
    one_by_one, worse, last = alarmed(announced=announced)
    one_by_one.observe(worse.take(range(last + 1, 200)))
    at_once = MONITOR.drift_guard()
    for name in worse.ids.tolist() if announced else ():
        at_once.begin(name)
    at_once.observe(worse)
    assert at_once.since_alarm == one_by_one.since_alarm
    assert len(at_once.since_alarm) == (0 if announced else 199 - last)


def test_runs_that_were_under_way_at_the_alarm_are_left_out() -> None:
    guard, worse, last = alarmed(announced=True)
    later = shifted(7, 4, -0.3)
    for name in later.ids.tolist():
        guard.begin(name)
    guard.observe(later)
    assert guard.since_alarm == ()  # they wait for those that began before them
    guard.observe(worse.take(range(last + 2, 200)))
    guard.withdraw(worse.ids[last + 1])
    assert list(guard.since_alarm) == later.ids.tolist()


def test_the_first_to_start_come_first_and_not_the_first_to_end() -> None:
    guard, worse, last = alarmed(announced=True)
    guard.observe(worse.take(range(last + 1, 200)))
    later = shifted(9, 4, -0.3)
    for name in later.ids.tolist():
        guard.begin(name)
    guard.observe(later.take([8, 7, 4, 3, 2, 1]))
    assert guard.since_alarm == ()
    guard.withdraw(later.ids[0])  # it broke down
    assert list(guard.since_alarm) == later.ids[1:5].tolist()
    guard.observe(later.take([5]))
    assert list(guard.since_alarm) == later.ids[1:6].tolist()


def test_a_run_that_ends_before_the_guarded_step_is_recalibrated_on_too() -> None:
    guard = MONITOR.drift_guard(t=4)
    assert guard.observe(shifted(200, 3, -0.3)).alarm
    before = len(guard.since_alarm)
    short = Episodes.from_arrays(np.zeros((1, 2, 2)), np.zeros((1, 2)), ids=["short"], horizon=6)
    n = guard.reading.n
    assert guard.observe(short).n == n
    assert guard.since_alarm[before:] == ("short",)


@pytest.mark.parametrize("announced", [False, True])
def test_a_guard_saved_after_every_run_knows_the_runs_since_its_alarm(
    tmp_path: Path, announced: bool
) -> None:
    path, worse = tmp_path / "guard.json", shifted(60, 3, -0.3)
    one = again = MONITOR.drift_guard(level=0.9)
    names = worse.ids.tolist()
    for i in range(60):
        for guard in {id(one): one, id(again): again}.values():
            if announced:
                for name in names[i + 3 : i + 4] if i else names[:4]:  # four at a time
                    guard.begin(name)
            guard.observe(worse.take([i]))
        again.save(path)
        again = MONITOR.drift_guard(level=0.9, resume=path)
        assert again.since_alarm == one.since_alarm
    assert 5 < len(one.since_alarm) < 60


def test_a_guard_saved_by_0_2_trusts_only_runs_that_begin_from_now_on(tmp_path: Path) -> None:
    guard, worse, last = alarmed(announced=True)
    path = tmp_path / "guard.json"
    guard.save(path)
    kept = json.loads(path.read_text())
    del kept["under_way"], kept["since_alarm"]
    path.write_text(json.dumps(kept))
    again = MONITOR.drift_guard(resume=path)
    again.begin("later")
    again.observe(worse.take(range(last + 1, 200)))
    assert again.since_alarm == ()
    again.note("later", 0.4, 0.5)
    assert again.since_alarm == ("later",)
