"""What was not answered is counted by its reason, and what nothing was learned about is said."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Below, Episodes, GoalMonitor, Promised, Target
from ontarget.models import Marginal
from ontarget.report import Judgement, compare
from tests.walks import replay, walks

from .walked import monitor_of

TARGET = Target.at_least(0.3)
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")


def gapped(share: float, n: int = 300, seed: int = 5, horizon: int = 6) -> Episodes:
    """Walks in which this share of the readings of the first feature is missing."""
    same, rng = walks(n, horizon, seed=seed), np.random.default_rng(seed)
    states = np.stack([same.at(t).states for t in range(horizon)], axis=1)
    states[rng.random((n, horizon)) < share, 0] = np.nan
    rewards = np.stack([same.rewards_at(t) for t in range(horizon)], axis=1)
    return Episodes.from_arrays(states, rewards, ids=same.ids, horizon=horizon)


@cache
def evaluated(share: float):
    return monitor_of(1000).evaluate(gapped(share), TARGET, resamples=50)


def test_missing_readings_qualify_the_verdict() -> None:
    whole, gaps = evaluated(0.0), evaluated(0.3)
    assert whole.verdict().judgement is Judgement.HELD
    assert (whole.unanswered.steps, whole.unanswered.share) == (0, 0.0)
    found = gaps.unanswered
    assert found.share == pytest.approx(np.isnan(gaps.p).mean())
    assert found.reasons == {"bad_reading": found.steps}
    assert list(found.features) == ["x0"]
    assert gaps.verdict().judgement is not Judgement.HELD
    assert f"{100 * found.share:.3g}" in str(gaps.verdict())
    assert str(found) in gaps.summary()


def test_a_few_missing_readings_are_told_and_change_no_verdict() -> None:
    found = evaluated(0.005)
    assert 0.0 < found.unanswered.share < 0.01
    assert str(found.unanswered) in found.summary()
    assert found.verdict().judgement is Judgement.HELD
    assert "no answer" not in evaluated(0.0).summary()


def test_the_report_tells_what_was_not_answered(tmp_path: Path) -> None:
    texts = []
    for share in (0.0, 0.3):
        evaluated(share).report(tmp_path / "page.html")
        texts.append((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [text.count("no answer") > 0 for text in texts] == [False, True]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2]), st.booleans())
def test_every_step_has_an_answer_or_a_reason(seed: int, share: float, longer: bool) -> None:
    """Of ragged runs, some with gaps, some longer than every recorded one."""
    rng = np.random.default_rng(seed)

    def runs(n: int, most: int, gaps: float) -> Episodes:
        lengths = rng.integers(1, most + 1, size=n)
        states = [rng.normal(size=(k, 2)) for k in lengths]
        for one in states:
            one[rng.random(len(one)) < gaps, 1] = np.nan
        ids = rng.integers(0, 2**60, size=n)
        return Episodes.from_arrays(states, [rng.normal(size=k) for k in lengths], ids=ids)

    monitor = GoalMonitor(Marginal(), min_calibration=8).fit(runs(60, 6, 0.0), progress=False)
    new = runs(40, 9 if longer else 6, share)
    found = monitor.evaluate(new, Target.at_least(0.0), resamples=2)
    missing = found.unanswered
    assert sum(missing.reasons.values()) == missing.steps
    assert missing.of == new.lengths.sum()
    assert missing.of - missing.steps == np.count_nonzero(~np.isnan(found.p))
    late = int(np.maximum(new.lengths - monitor.horizon, 0).sum())
    assert missing.reasons.get("past_horizon", 0) == late
    assert 0.0 <= missing.share <= 1.0


def test_a_run_is_unknown_after_a_reward_outside_its_bounds_as_it_is_live() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5, reward_bounds=(-9.0, 9.0))
    monitor.fit(walks(), progress=False)
    same = walks(40, seed=4)
    rewards = np.stack([same.rewards_at(t) for t in range(6)], axis=1)
    rewards[7, 2] = 50.0
    states = np.stack([same.at(t).states for t in range(6)], axis=1)
    new = Episodes.from_arrays(states, rewards, ids=same.ids, horizon=6)
    found = monitor.evaluate(new, TARGET, resamples=2)
    assert found.unanswered.reasons == {"out_of_bounds": 3}
    watch = monitor.watch(TARGET, alarm_below=0.5)
    for i in (6, 7):
        live = [one.p for one in replay(watch, new, i)[:6]]
        np.testing.assert_array_equal(live, found.p[:, i])


def test_two_monitors_are_compared_where_both_answer_and_both_shares_are_told() -> None:
    new = gapped(0.3)
    states = np.stack([walks(300).at(t).states for t in range(6)], axis=1)
    rewards = np.stack([walks(300).rewards_at(t) for t in range(6)], axis=1)
    states[::10, :, 0] = np.nan  # so this one may miss it
    may_miss = GoalMonitor(Marginal(), min_calibration=5)
    may_miss.fit(Episodes.from_arrays(states, rewards, horizon=6), progress=False)
    pair = evaluated(0.3), may_miss.evaluate(new, TARGET, resamples=50)
    found = compare(*pair, Below(0.5))
    assert found.unanswered == (pair[0].unanswered.share, 0.0)
    assert found.forecasts == np.count_nonzero(~np.isnan(pair[0].p))
    assert found.to_json()["unanswered"] == list(found.unanswered)
    both = compare(*reversed(pair), Below(0.5))
    assert found.ece == both.ece[::-1]
    assert found.ece[1] != pair[1].ece().value  # which is over all steps
    assert found.ece[0] == pytest.approx(pair[0].ece().value)


@pytest.mark.parametrize("target", [Target.at_least(-1e3), Target.at_least(1e3)])
@pytest.mark.parametrize("rule", [Promised(0.05), Below(0.5)])
def test_nothing_is_held_of_a_target_that_all_learning_runs_met_or_missed(
    target: Target, rule, tmp_path: Path
) -> None:
    found = monitor_of(1000).evaluate(walks(300, seed=5), target, resamples=50)
    assert found.one_sided
    assert not found.knows_both
    verdict = found.verdict(rule)
    assert verdict.judgement is Judgement.TOO_FEW
    assert verdict.reason == found.one_sided
    assert found.one_sided in found.summary(rule)
    found.report(tmp_path / "page.html", rule)
    assert found.one_sided in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_failures_that_nothing_was_learned_about_are_not_held_and_get_the_reason() -> None:
    target = Target.at_least(float(monitor_of(1000).fitted.runs.outcomes.min()))
    same = walks(300, seed=5)
    states = np.stack([same.at(t).states for t in range(6)], axis=1)
    rewards = np.stack([same.rewards_at(t) for t in range(6)], axis=1)
    rewards[::3, -1] -= 50.0
    new = Episodes.from_arrays(states, rewards, ids=same.ids, horizon=6)
    verdict = monitor_of(1000).evaluate(new, target, resamples=50).verdict()
    assert verdict.judgement is Judgement.NOT_HELD
    assert monitor_of(1000).contracts.one_sided(target)[0] in verdict.aside


def test_new_runs_that_all_met_a_target_say_nothing_about_failures() -> None:
    new = walks(300, seed=5)
    best = new.take(np.flatnonzero(TARGET.contains(new.outcomes)))
    rare = Target.at_least(float(np.sort(monitor_of(1000).fitted.runs.outcomes)[5]))
    easy = new.take(np.flatnonzero(rare.contains(new.outcomes)))
    assert len(best) < len(easy)
    found = monitor_of(1000).evaluate(easy, rare, resamples=50)
    assert found.one_sided == ""
    assert found.verdict().aside
