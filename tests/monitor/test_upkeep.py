from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import CensoredError, InputError, ModelFileError
from ontarget.models import Marginal
from ontarget.monitor.upkeep import Upkeep
from tests.walks import shifted, walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(Marginal()).fit(walks(400), progress=False)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")


def alarmed() -> tuple[Upkeep, int]:
    """An upkeep just after its alarm, and how many of the changed runs it took."""
    upkeep, worse = Upkeep(MONITOR, episodes_needed=50), shifted(200, 3, -0.3)
    for i in range(200):
        if upkeep.observe(worse.take([i])) == "restart":
            return upkeep, i
    raise AssertionError("no alarm")


def test_after_an_alarm_it_recalibrates_on_later_runs_alone() -> None:
    upkeep, last = alarmed()
    assert upkeep.watch(GOAL).regime == "restart"
    assert upkeep.missing == 50
    later = shifted(60, 4, -0.3)
    assert upkeep.observe(later.take(range(49))) == "restart"
    assert upkeep.monitor is MONITOR
    assert upkeep.observe(later.take([49])) == "exchangeable"
    assert sorted(upkeep.monitor.fitted.assure.ids.tolist()) == sorted(later.ids[:50].tolist())
    assert upkeep.watch(GOAL).regime == "exchangeable"
    assert upkeep.observe(later.take(range(50, 60))) == "exchangeable"
    assert last < 100


def test_runs_that_were_under_way_at_the_alarm_are_left_out() -> None:
    upkeep, worse = Upkeep(MONITOR, episodes_needed=5), shifted(200, 3, -0.3)
    for name in worse.ids.tolist():
        upkeep.begin(name)
    first = next(i for i in range(200) if upkeep.observe(worse.take([i])) == "restart")
    assert upkeep.observe(worse.take(range(first + 1, 200))) == "restart"
    assert upkeep.missing == 5
    later = shifted(7, 4, -0.3)
    for name in later.ids.tolist():
        upkeep.begin(name)
    assert upkeep.observe(later.take(range(5))) == "exchangeable"
    assert upkeep.observe(later.take(range(5, 7))) == "exchangeable"
    assert upkeep.guard.reading.n == 2


def test_it_recalibrates_on_the_runs_that_start_first_not_on_those_that_end_first() -> None:
    upkeep, worse = Upkeep(MONITOR, episodes_needed=5), shifted(200, 3, -0.3)
    for name in worse.ids.tolist():
        upkeep.begin(name)
    upkeep.observe(worse)
    later = shifted(9, 4, -0.3)
    for name in later.ids.tolist():
        upkeep.begin(name)
    assert upkeep.observe(later.take([8, 7, 4, 3, 2, 1])) == "restart"
    assert upkeep.missing == 1
    assert upkeep.withdraw(later.ids[0]) == "restart"  # it broke down, so the sixth counts
    assert upkeep.observe(later.take([5])) == "exchangeable"
    assert upkeep.monitor.fitted.assure.ids.tolist() == later.ids[1:6].tolist()
    assert upkeep.guard.reading.n == 0  # the seventh is still under way
    upkeep.observe(later.take([6]))
    assert upkeep.guard.reading.n == 3


def test_before_an_alarm_a_withdrawn_run_is_taken_back_from_the_guard() -> None:
    upkeep, runs = Upkeep(MONITOR, episodes_needed=5), walks(3, seed=9)
    for name in runs.ids.tolist():
        upkeep.begin(name)
    upkeep.observe(runs.take([1, 2]))
    assert upkeep.guard.reading.n == 0
    assert upkeep.withdraw(runs.ids[0]) == "exchangeable"
    assert upkeep.guard.reading.n == 2


def test_all_runs_are_announced_or_none() -> None:
    upkeep, _ = alarmed()
    upkeep.begin("one")
    with pytest.raises(InputError, match="announced by begin and not observed, got 'other'"):
        upkeep.withdraw("other")
    with pytest.raises(InputError, match="was not announced"):
        upkeep.observe(walks(1, seed=9))


def test_a_watch_made_before_the_alarm_says_that_its_promises_no_longer_hold() -> None:
    upkeep, worse = Upkeep(MONITOR, episodes_needed=5), shifted(200, 3, -0.3)
    watch = upkeep.watch(GOAL)
    upkeep.observe(worse.take([0]))
    assert watch.regime == "exchangeable"
    last = next(i for i in range(1, 200) if upkeep.observe(worse.take([i])) == "restart")
    assert watch.regime == "restart"
    watch.reset()
    assert watch.run_state.regime == "restart"
    assert upkeep.observe(worse.take(range(last + 1, last + 6))) == "exchangeable"
    assert watch.regime == "restart"  # it is the old monitor's
    assert upkeep.watch(GOAL).regime == "exchangeable"


@pytest.mark.parametrize("announced", [False, True])
def test_a_saved_upkeep_goes_on_where_it_was(tmp_path: Path, announced: bool) -> None:
    """Saved and loaded after every run, it does the same as one that lives on."""
    runs = [*map(shifted(45, 3, -0.3).take, ([i] for i in range(45)))]
    one = again = Upkeep(MONITOR, episodes_needed=12, level="0.9")
    found = []
    for part in runs:
        for upkeep in {id(one): one, id(again): again}.values():
            if announced:
                upkeep.begin(part.ids[0].item())
            upkeep.observe(part)
        again.save(tmp_path)
        again = Upkeep.load(tmp_path)
        kept, lived = (
            (upkeep.regime, upkeep.missing, upkeep.guard.reading.n, upkeep.guard.reading.evidence)
            for upkeep in (again, one)
        )
        assert kept == lived
        found.append(one.regime)
    assert "restart" in found
    assert one.monitor.sizes == again.monitor.sizes
    assert again.monitor.sizes["assure"] == 12  # it was recalibrated on the way
    assert len(list(tmp_path.glob("monitor-*"))) == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda kept: [], "not a file that Upkeep.save wrote"),
        (lambda kept: {**kept, "format": 9}, "the file needs format 1, got 9"),
        (lambda kept: {**kept, "guard": {}}, "the saved upkeep is damaged: 'bet'"),
        (lambda kept: {**kept, "monitor": "none.ontarget"}, "none.ontarget"),
        (lambda kept: {**kept, "fresh": 7}, "the saved upkeep is damaged"),
    ],
)
def test_a_damaged_upkeep_is_refused(tmp_path: Path, spoil, message: str) -> None:
    Upkeep(MONITOR).save(tmp_path)
    path = tmp_path / "upkeep.json"
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    with pytest.raises(ModelFileError, match=message):
        Upkeep.load(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        Upkeep.load(tmp_path / "elsewhere")


def test_runs_that_were_cut_off_are_refused_before_they_count() -> None:
    upkeep, _ = alarmed()
    states, rewards = np.zeros((2, 6, 2)), np.zeros((2, 6))
    cut = Episodes.from_arrays(
        [states[0, :3], states[1]],
        [rewards[0, :3], rewards[1]],
        ids=["x", "y"],
        horizon=6,
        truncated=[True, False],
        censored="worst-case",
    )
    with pytest.raises(CensoredError, match="episode 'x' was cut off, and a drift guard needs"):
        upkeep.observe(cut)
    assert upkeep.missing == 50
