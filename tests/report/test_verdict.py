"""The verdict: what chance may have done is not held against a monitor, and drift is."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ontarget import Below, Episodes, Evaluation, Promised, RuledOut, Target
from ontarget.evaluation import Rate
from ontarget.fitted._kernels import PLAUSIBILITY, P
from ontarget.fitted.joint.joint import Joint
from ontarget.live._assured import Contracts
from ontarget.models import Marginal
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report import Judgement
from ontarget.report._facts import Gap, facts_of, gap_of, lean_of
from ontarget.report._findings import verdict
from ontarget.report._summary import summary_of
from ontarget.report.parts import CHANGE, panels_of
from ontarget.report.verdict import (
    Verdict,
    _cautions,
    _kept,
    doubtful,
    luck_in_words,
    verdict_of,
)
from tests.walks import walks

from .walked import monitor_of

TARGET = Target.at_least(0.2)


def walker() -> GoalMonitor:
    return monitor_of(3_000)


@cache
def judged() -> Evaluation:
    return walker().evaluate(walks(1_000, seed=5), TARGET, resamples=50)


def saying(which: int, values: np.ndarray) -> Evaluation:
    """The evaluation with other numbers in one panel."""
    said = judged().answers.said.copy()
    said[:, which] = np.broadcast_to(values, judged().p.shape).T.reshape(-1)
    return replace(judged(), answers=replace(judged().answers, said=said))


def shifted(runs: Episodes, by: float | np.ndarray) -> Episodes:
    """The same runs, each reward larger or smaller by an amount: a process that has changed."""
    states = np.stack([runs.at(t).states for t in range(runs.horizon)], axis=1)
    rewards = np.stack([runs.rewards_at(t) for t in range(runs.horizon)], axis=1)
    return Episodes.from_arrays(states, rewards + np.reshape(by, (-1, 1)), ids=runs.ids)


def test_runs_like_the_recorded_ones_hold() -> None:
    found = judged().verdict()
    assert found.judgement is Judgement.HELD
    false = judged().alarms(Promised()).quality.false_alarms.value
    assert f"{100 * false:.1f} % of good runs raised an alarm, where 5 %" in found.reason


def test_ruling_out_wrongly_is_counted_among_all_runs() -> None:
    # It is promised for all runs together: of the few that meet a rare target, it may fail most.
    good = np.flatnonzero(judged().met)
    lost = np.zeros(judged().p.shape, dtype=np.bool_)
    lost[:, good[: good.size // 7]] = True
    said = saying(PLAUSIBILITY, np.where(lost, 0.0, 1.0))
    rule = RuledOut("0.1")
    facts = facts_of(said, rule)
    assert facts.false_alarms.n == judged().met.size
    assert facts.false_alarms.count == good.size // 7
    assert said.alarms(rule).quality.false_alarms.low > 0.1 > facts.false_alarms.value
    assert "false alarms among all runs (promised 10.0 %)" in summary_of(facts)
    found = said.verdict(rule)
    assert found.judgement is not Judgement.NOT_HELD
    assert "of all runs raised a false alarm" in found.reason


def test_a_process_that_changed_does_not_hold() -> None:
    found = walker().evaluate(shifted(walks(1_000, seed=5), -0.1), TARGET, resamples=50)
    verdict = found.verdict()
    assert verdict.judgement is Judgement.NOT_HELD
    assert "p was off by" in verdict.reason
    assert "these runs differ from those the monitor learned from" in verdict.advice
    assert gap_of(found).too_high > 0.0
    assert str(found.verdict(Below(0.5))).startswith("not held: p was off by")


def test_few_runs_say_nothing() -> None:
    few = walker().evaluate(walks(30, seed=5), TARGET, resamples=50).verdict()
    assert few.judgement is Judgement.TOO_FEW
    told = re.search(r"^evaluate on about (\d+) new runs in all \((\d+) more\): ch", few.advice)
    assert told is not None
    assert int(told[1]) == 30 + int(told[2])
    none = walker().evaluate(walks(300, seed=5), Target.at_least(1e6), resamples=50).verdict()
    assert none.judgement is Judgement.TOO_FEW


def test_a_broken_promise_of_false_alarms_does_not_hold() -> None:
    low = np.where(judged().met & (np.arange(judged().met.size) % 4 == 0), 0.0, judged().p)
    reason = saying(P, low).verdict().reason
    assert "of good runs raised an alarm where at most 5 % were promised" in reason


def test_more_false_alarms_than_promised_are_told_with_what_chance_explains() -> None:
    p = np.where(judged().met, np.maximum(judged().p, 0.5), judged().p)
    some = np.flatnonzero(judged().met)[: round(0.06 * judged().met.sum())]
    p[-1, some] = 0.0
    facts = facts_of(saying(P, p), Promised())
    told = "6 % of good runs raised an alarm, where 5 % were promised (within chance)"
    assert told in _kept(facts)
    assert luck_in_words(facts).startswith("that is within chance: the runs that set the alarm")
    assert luck_in_words(facts) in summary_of(facts)
    fewer = facts_of(saying(P, np.maximum(p, 0.5)), Promised())
    assert "within chance" not in _kept(fewer) + luck_in_words(fewer)


def test_an_interval_that_leaves_out_the_promise_is_not_called_chance() -> None:
    n = int(judged().met.sum())
    count = next(k for k in range(n) if Rate.of(k, n).low > 0.05)
    limit = judged().alarms(Promised()).triggers[0].threshold
    p = np.where(judged().met, np.maximum(judged().p, 1.001 * limit), judged().p)
    p[-1, np.flatnonzero(judged().met)[:count]] = 0.0
    facts = facts_of(saying(P, p), Promised())
    assert facts.allowed_rate is not None
    assert Rate.of(count, n).low <= facts.allowed_rate  # so that no promise is broken
    assert f", but {100 * count / n:.1f} % of good runs raised an alarm" in _kept(facts)
    told = luck_in_words(facts)
    assert told.startswith("these runs alone show 5.")
    assert "more than was promised" in told
    assert ": expect 5." in _cautions(facts)[1]
    assert "within chance" not in f"{verdict_of(facts)}{told}"
    assert doubtful(facts)
    (alarm,) = [one for one in verdict(facts) if one.headline.startswith("Alarm: ")]
    assert alarm.good is None


def test_clear_cases_do_not_hide_what_the_others_show() -> None:
    """Clear cases are right but for their luck; in 15 runs p says 40 %, and all meet the target."""
    rng, n = np.random.default_rng(0), judged().met.size
    stated = np.where(rng.random(n) < 0.5, 0.95, 0.05)
    met = rng.random(n) < stated
    stated[:15], met[:15] = 0.4, True
    other = saying(P, stated)
    facts = facts_of(replace(other, answers=replace(other.answers, met=met)), Below(0.1))
    unclear = facts.unclear
    assert unclear is not None
    assert (unclear.way, unclear.runs) == ("too low", 15)
    assert unclear.share == pytest.approx(15 / n)
    assert unclear.beyond_chance
    assert not facts.gap.beyond_chance
    assert _kept(facts) == "p was right on average, but too low between 10 and 90 %"
    average, between, remedy = _cautions(facts)
    assert average.startswith(
        f"p was off by {100 * facts.gap.off:.1f} percentage points on average"
    )
    text = "where it lay between 10 and 90 %, it was 60.0 percentage points too low"
    assert between.startswith(text)
    assert remedy == "read p there as too low, and fit on more runs"
    assert doubtful(facts)
    (calibration,) = [one for one in verdict(facts) if "expected calibration" in one.detail]
    assert calibration.good is False
    assert verdict(facts)[0].good is False
    assert "Judged mostly on clear cases: only 1.5" in calibration.detail
    assert facts_of(judged(), Below(0.1)).unclear is None  # p lies between often enough


def test_runs_of_unequal_weight_lean_as_their_mean_does() -> None:
    """Against a bootstrap over runs: the forecasts of a run share its outcome."""
    found, rng = judged(), np.random.default_rng(0)
    where = (found.p > 0.3) & (found.p < 0.7)
    lean = lean_of(found, where)
    off = np.where(where, found.p - found.met, 0.0)
    assert lean.too_high == pytest.approx(off.sum() / where.sum())
    draws = rng.integers(found.met.size, size=(400, found.met.size))
    again = [off[:, one].sum() / where[:, one].sum() for one in draws]
    assert lean.new_runs == pytest.approx(1.96 * np.std(again), rel=0.15)


def test_few_runs_say_which_way_p_leans_and_how_many_would_be_enough() -> None:
    monitor = monitor_of(60)
    runs = walks(60, seed=8)
    base = monitor.evaluate(runs, TARGET, resamples=50)
    said = base.answers.said.copy()
    said[:, P] = (0.65 * np.clip(base.p, 0.05, 0.95)).T.reshape(-1)
    met = np.random.default_rng(1).random(60) < base.p.mean(axis=0)
    facts = facts_of(replace(base, answers=replace(base.answers, said=said, met=met)), Promised())
    found = verdict_of(facts)
    assert found.judgement is Judgement.TOO_FEW
    assert facts.lean.way == "too low"
    assert facts.lean.shows
    assert found.reason.startswith("p looks ")
    assert "too low on average" in found.reason
    assert "but" not in found.reason
    assert found.advice.startswith(
        "expect p to be too low until you fit on more runs; fit on about"
    )
    assert "more assure runs must meet the target: fit on about" in found.advice
    # All counts are of runs in all, with what is missing beside them.
    counts = re.findall(r"about ([\d,]+) (?:new )?runs in all \((\d+) more\)", found.advice)
    assert len(counts) == 3
    assert all(int(whole) - int(more) == 60 for whole, more in counts)


@pytest.mark.parametrize(
    ("too_high", "way"),
    [
        (0.1, "too high"),
        (-0.095, "too low"),
        (0.06, "mostly too high"),
        (-0.01, "too high in places, too low in others"),
    ],
)
def test_an_error_has_one_number_and_its_direction_in_words(too_high: float, way: str) -> None:
    assert Gap(0.1, 0.01, 0.01, too_high, 50).way == way


def test_an_error_over_a_change_names_its_runs_and_steps() -> None:
    both = shifted(walks(1_000, seed=5), np.repeat([0.0, -0.3], 500))
    found = walker().evaluate(both, TARGET, order={"day": np.arange(1_000)}, resamples=50)
    facts = facts_of(found, Promised())
    later = np.array(found.drifted.later)
    off = float((found.p - found.met)[:, later].mean())
    assert facts.since is not None
    assert facts.since.too_high == pytest.approx(off)
    told = f"over all steps of the {later.size:,} runs since then, p was {100 * off:.1f} points too"
    assert told in verdict_of(facts).aside
    assert verdict_of(facts).aside.startswith("that is over all steps of all 1,000 runs, before")
    (changed,) = [one for one in verdict(facts) if one.headline.startswith("Changed")]
    assert (
        f"Over all steps of these {later.size:,} runs, p was {100 * off:.1f} poi" in changed.detail
    )
    rows = {part.value: part for part in panels_of(found, {})[CHANGE]}
    assert rows["since the change"].too_high.value == pytest.approx(off)
    assert rows["all runs"].episodes == 1_000
    assert rows["since, step 0 alone"].forecasts == later.size
    assert CHANGE not in panels_of(judged(), {})


def test_alarms_after_a_change_are_counted_by_themselves() -> None:
    """p is far too high since the change, and good runs raise alarms that none did before."""
    new = walks(400, seed=5)
    changed = np.repeat([0.0, -0.3], 200)
    both = shifted(new, changed)
    found = walker().evaluate(both, TARGET, order={"day": np.arange(400)}, resamples=50)
    drift = found.drifted
    assert drift is not None
    assert drift.covers_both
    assert drift.since is not None
    assert drift.later == tuple(range(drift.since, 400))
    facts = facts_of(found, Promised())
    told = verdict(facts)
    assert not any(one.good for one in told)
    (alarm,) = [one for one in told if one.headline.startswith("Alarm: ")]
    later = np.array(drift.later)
    good = found.met[later]
    raised = facts.alarms.first[later][good] >= 0
    assert f"Since the change alone, {raised.sum()} of {good.sum()} runs that met" in alarm.detail
    (sure,) = [one for one in told if one.headline.startswith("It ruled the target out")]
    assert f"of {later.size} runs (" in sure.detail


def test_a_target_ruled_out_wrongly_too_often_does_not_hold() -> None:
    found = saying(PLAUSIBILITY, np.where(judged().met, 0.01, judged().plausibility)).verdict()
    assert found.judgement is Judgement.NOT_HELD
    assert "the target was ruled out wrongly for" in found.reason


def test_the_runs_of_the_fit_give_no_verdict() -> None:
    again = walker().evaluate(walks(3_000).take(np.arange(200)), TARGET, resamples=5)
    assert again.verdict().judgement is Judgement.NOT_NEW


@pytest.mark.parametrize("n", [100, 400])
def test_chance_in_the_calibration_episodes_is_counted(n: int) -> None:
    """Forecasts that are right but for the luck of n calibration episodes stay within chance."""
    rng = np.random.default_rng(n)
    inside = []
    for _ in range(40):
        truth = rng.uniform(0.2, 0.8, size=judged().met.size)
        luck = rng.normal() / np.sqrt(n + 2.0)
        met = rng.random(truth.size) < truth
        stated = np.clip(truth + luck * np.sqrt(truth * (1.0 - truth)), 0.0, 1.0)
        said = judged().answers.said.copy()
        said[:, P] = np.broadcast_to(stated, judged().p.shape).T.reshape(-1)
        counts = np.full(judged().fitted.curves.counts.shape, n)
        fitted = replace(judged().fitted, curves=replace(judged().fitted.curves, counts=counts))
        answers = replace(judged().answers, said=said, met=met)
        found = replace(judged(), contracts=Contracts(Joint.of(fitted)), answers=answers)
        inside.append(not gap_of(found).beyond_chance)
    assert np.mean(inside) >= 0.9


def test_alarms_past_the_target_are_told_where_no_bounds_were_declared() -> None:
    rng = np.random.default_rng(0)
    days = rng.exponential(size=(900, 5))
    runs = Episodes.from_arrays(np.cumsum(days, axis=1)[:, :, None] - days[:, :, None], days)
    past, new = runs.take(np.arange(600)), runs.take(np.arange(600, 900))
    target = Target.at_most(6.0)
    open_ended = GoalMonitor(Marginal()).fit(past, progress=False)
    found = open_ended.evaluate(new, target, resamples=5)
    told = facts_of(found, Below(0.2)).reward_side
    first = found.alarms(Below(0.2)).first
    so_far = np.cumsum(days[600:], axis=1) - days[600:]
    alarmed = np.flatnonzero(~found.met & (first >= 0))
    assert told is not None
    assert told.past == sum(so_far[i, first[i]] > 6.0 for i in alarmed)
    assert told.bounds == (0.0, np.inf)
    assert f"but {told.past} of those alarms came when the total" in found.summary(Below(0.2))
    declared = GoalMonitor(Marginal(), reward_bounds=(0.0, None)).fit(past, progress=False)
    bounded = declared.evaluate(new, target, resamples=5)
    assert facts_of(bounded, Below(0.2)).reward_side is None
    quality = bounded.alarms(Below(0.2)).quality
    assert quality.too_late.count > 0
    assert "alarmed too late" in bounded.summary(Below(0.2))
    # Whatever the rule, a run alarms once it is lost.
    assert "most alarms came too late" in bounded.summary(Below(0.0))


def test_what_held_all_the_same_stands_in_brackets() -> None:
    found = Verdict(Judgement.NOT_HELD, "p was too high", "fit again", aside="alarms held")
    assert str(found) == f"{Judgement.NOT_HELD}: p was too high (alarms held); fit again"
    assert found.aside == "alarms held"
