from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, Target
from ontarget.drift import Following, FollowingInterval
from ontarget.errors import InputError, ModelFileError
from ontarget.models import QuantileForest
from tests.walks import replay, shifted, walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(400), progress=False)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

# One run of each number, for bounds that hold whatever a run is like.
NAMED = [
    Episodes.from_arrays(np.zeros((1, 6, 2)), np.zeros((1, 6)), ids=[i], horizon=6)
    for i in range(200)
]


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=300),
    st.floats(0.01, 0.5),
    st.floats(0, 1),
    st.floats(0.01, 1),
)
def test_the_share_of_false_alarms_keeps_to_its_bound_whatever_happens(
    lowest: list[float], rate: float, start: float, pace: float
) -> None:
    rule = Following(str(round(rate, 3)), threshold=start, pace=pace)
    for p in lowest:
        rule.observe(alarmed=p < rule.threshold, met=True)
        assert abs(rule.share - rule.rate) <= rule.within + 1e-9
        assert -pace <= rule.threshold <= 1.0 + pace


def test_a_fixed_threshold_breaks_the_bound_that_a_following_one_keeps() -> None:
    rng = np.random.default_rng(0)
    rule, fixed, false = Following(0.1, threshold=0.1, pace=0.02), 0.1, 0
    for j in range(4000):
        lowest = rng.beta(1.0, 9.0 if j > 500 else 1.0)  # the process changes after 500 runs
        false += lowest < fixed
        rule.observe(alarmed=lowest < rule.threshold, met=True)
    assert false / 4000 > 0.1 + rule.within
    assert abs(rule.share - 0.1) <= rule.within
    assert rule.within < 0.02


def test_a_watch_takes_the_threshold_that_stands_when_its_run_begins() -> None:
    rule, new = Following(0.1, threshold=0.9, pace=0.5), walks(30, seed=3)
    watch = MONITOR.watch(GOAL, alarm=rule)
    assert watch.regime == "follow"
    met = GOAL.contains(new.outcomes, new.grid)
    for i in np.flatnonzero(met)[:4].tolist():
        before = rule.threshold
        said = replay(watch, new, i)
        assert watch.trigger.threshold == before
        alarmed = any(one.p < before for one in said[:-1])
        assert rule.learn_from(watch) == before + 0.5 * (0.1 - alarmed)
    assert rule.n == 4


def test_runs_that_missed_or_were_taken_over_move_nothing() -> None:
    rule, new = Following(0.1, threshold=0.5), walks(30, seed=3)
    watch = MONITOR.watch(GOAL, alarm=rule)
    missed = int(np.flatnonzero(~GOAL.contains(new.outcomes, new.grid))[0])
    replay(watch, new, missed)
    assert rule.learn_from(watch) == 0.5
    watch.reset()
    watch.step(new.at(0).states[0])
    watch.intervene()
    watch.end(5.0)
    assert rule.learn_from(watch) == 0.5
    assert rule.n == 0


def test_what_cannot_be_learned_from_is_refused() -> None:
    rule, watch = Following(0.1, threshold=0.5), MONITOR.watch(GOAL)
    with pytest.raises(InputError, match="made with this same rule object"):
        rule.learn_from(watch)
    with pytest.raises(InputError, match="a run that is over, got one with status PENDING"):
        rule.learn_from(MONITOR.watch(GOAL, alarm=rule))
    with pytest.raises(InputError, match="all runs of a fleet share one threshold"):
        MONITOR.fleet(GOAL, 3, alarm=rule)
    with pytest.raises(InputError, match=r"`threshold` needs a number from 0 to 1, got 1\.5"):
        Following(0.1, threshold=1.5)
    with pytest.raises(InputError, match="`pace` needs a number above 0 and up to 1, got 0"):
        Following(0.1, threshold=0.5, pace=0)


def test_a_saved_rule_goes_on_where_it_was(tmp_path: Path) -> None:
    rule = Following(0.1, threshold=0.5, pace=0.1, for_steps=2)
    for alarmed in (True, False, True, True):
        rule.observe(alarmed=alarmed, met=True)
    rule.save(tmp_path / "rule.json")
    assert vars(Following.load(tmp_path / "rule.json")) == vars(rule)
    kept = json.loads((tmp_path / "rule.json").read_text())
    for spoilt in ({**kept, "threshold": 7}, {**kept, "format": 9}, {}, {**kept, "n": -1}):
        (tmp_path / "rule.json").write_text(json.dumps(spoilt))
        with pytest.raises(
            ModelFileError, match=r"not a file that Following.save wrote|the file needs format 1"
        ):
            Following.load(tmp_path / "rule.json")


def test_runs_too_short_for_an_alarm_leave_a_rule_that_can_be_stored(tmp_path: Path) -> None:
    rule = Following(0.1, threshold=0.3, pace=0.05, for_steps=9)
    for _ in range(1_000):
        rule.observe(alarmed=False, met=True)
    assert rule.threshold == 1.05
    rule.save(tmp_path / "rule.json")
    assert Following.load(tmp_path / "rule.json").threshold == 1.05


def test_intervals_follow_a_process_that_a_fixed_level_loses() -> None:
    follow = MONITOR.follow_interval(0.8, pace=0.1, window=50)
    changing = [shifted(60, 20 + k, by) for k, by in enumerate((0.0, -0.3, 0.4, -0.2))]
    fixed = 0
    for part in changing:
        rows = part.at(0, grid=MONITOR.grid)
        fixed += np.count_nonzero(
            ~MONITOR.interval(0, rows.states, rows.behavior, 0.8).contains(part.outcomes)
        )
        for i in range(len(part)):
            one, before = part.take([i]), follow.misses
            step = one.at(0, grid=MONITOR.grid)
            said = follow.interval(step.states, step.behavior)
            follow.observe(one)
            # What it says beforehand is what it is judged by.
            outcome = np.round(one.outcomes, 9)
            assert bool(said.contains(outcome)[0]) == (follow.misses == before)
        assert abs(follow.share - 0.2) <= follow.within
    assert follow.n == 240
    assert fixed / 240 - 0.2 > 2.0 * abs(follow.share - 0.2)


def test_saved_intervals_go_on_where_they_were(tmp_path: Path) -> None:
    path, asked = tmp_path / "interval.json", {"pace": 0.1, "window": 50}
    follow, runs = MONITOR.follow_interval(0.8, **asked), shifted(80, 20, -0.2)
    follow.observe(runs.take(range(40)))
    follow.save(path)
    again = MONITOR.follow_interval(0.8, **asked, resume=path)
    rows = runs.at(0, grid=MONITOR.grid)
    for one in (again, follow):
        one.observe(runs.take(range(40, 80)))
    assert (again.n, again.misses, again.depth) == (80, follow.misses, follow.depth)
    said, same = (one.interval(rows.states, rows.behavior) for one in (again, follow))
    assert np.array_equal(said.lower, same.lower)
    assert again.depth == sorted(again._scores)[again._sorted.index(again.depth)]
    with pytest.raises(InputError, match="the saved interval has the window 50, not 20"):
        MONITOR.follow_interval(0.8, pace=0.1, window=20, resume=path)
    with pytest.raises(InputError, match="the saved interval is for another level"):
        MONITOR.follow_interval(0.9, **asked, resume=path)
    kept = json.loads(path.read_text())
    for spoilt in ({"scores": [7]}, {"n": -1}, {"delta": None}, {"scores": []}):
        path.write_text(json.dumps(kept | spoilt))
        with pytest.raises(ModelFileError, match="the saved interval is damaged"):
            MONITOR.follow_interval(0.8, **asked, resume=path)


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.floats(0.02, 1))
def test_the_share_missed_keeps_to_its_bound_whatever_happens(
    extreme: list[bool], pace: float
) -> None:
    follow = FollowingInterval(MONITOR.fitted, 0.8, pace=pace, window=20)
    for i, far in enumerate(extreme):
        follow._noted = lambda _, far=far, i=i: {i: (1.0, 1.0) if far else (0.5, 0.5)}
        follow.observe(NAMED[i])
        assert abs(follow.share - 0.2) <= follow.within + 1e-9


def test_a_step_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(InputError, match="`pace` needs a number above 0 and up to 1, got 2"):
        MONITOR.follow_interval(0.8, pace=2)
    with pytest.raises(InputError, match="from 0 to 5, got 7"):
        MONITOR.follow_interval(0.8, t=7)
