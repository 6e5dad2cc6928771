from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import GoalMonitor, Target
from ontarget.drift import Following
from ontarget.errors import InputError, ModelFileError
from ontarget.models import QuantileForest
from tests.walks import replay, walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(400), progress=False)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")


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
    with pytest.raises(InputError, match="made with this very rule"):
        rule.learn_from(watch)
    with pytest.raises(InputError, match="a run that is over, this one is PENDING"):
        rule.learn_from(MONITOR.watch(GOAL, alarm=rule))
    with pytest.raises(InputError, match="a fleet has one alarm for all"):
        MONITOR.fleet(GOAL, 3, alarm=rule)
    with pytest.raises(InputError, match=r"threshold needs a number from 0 to 1, got 1\.5"):
        Following(0.1, threshold=1.5)
    with pytest.raises(InputError, match="pace needs a number from 0 to 1, got 0"):
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
        with pytest.raises(ModelFileError, match=r"no alarm that follows|format 1 is needed"):
            Following.load(tmp_path / "rule.json")
