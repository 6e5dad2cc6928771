"""The verdict: what chance may have done is not held against a monitor, and drift is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ontarget import Below, Episodes, Evaluation, Promised, Target
from ontarget.fitted._kernels import PLAUSIBILITY, P
from ontarget.live.assured import Contracts
from ontarget.models import Marginal
from ontarget.monitor import GoalMonitor
from ontarget.report import Judgement
from ontarget.report._facts import facts_of, gap_of
from ontarget.report._summary import summary_of
from ontarget.report.verdict import _kept, luck_in_words
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


def shifted(runs: Episodes, by: float) -> Episodes:
    """The same runs, each reward larger or smaller by an amount: a process that has changed."""
    states = np.stack([runs.at(t).states for t in range(runs.horizon)], axis=1)
    rewards = np.stack([runs.rewards_at(t) for t in range(runs.horizon)], axis=1)
    return Episodes.from_arrays(states, rewards + by, ids=runs.ids)


def test_runs_like_the_recorded_ones_hold() -> None:
    found = judged().verdict()
    assert found.judgement is Judgement.HELD
    false = judged().alarms(Promised()).quality.false_alarms.value
    assert f"{100 * false:.1f} % of good runs raised an alarm, where 5 %" in found.reason


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
    assert few.advice == "evaluate on more runs"
    none = walker().evaluate(walks(300, seed=5), Target.at_least(1e6), resamples=50).verdict()
    assert none.judgement is Judgement.TOO_FEW
    assert "none of the 300 new runs met the target" in none.reason


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
    assert luck_in_words(facts).startswith("that is within chance: the episodes that set the alarm")
    assert luck_in_words(facts) in summary_of(facts)
    fewer = facts_of(saying(P, np.maximum(p, 0.5)), Promised())
    assert "within chance" not in _kept(fewer) + luck_in_words(fewer)


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
        found = replace(judged(), contracts=Contracts(fitted), answers=answers)
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
    told = facts_of(found, Below(0.2)).one_sided
    first = found.alarms(Below(0.2)).first
    so_far = np.cumsum(days[600:], axis=1) - days[600:]
    alarmed = np.flatnonzero(~found.met & (first >= 0))
    assert told is not None
    assert told.past == sum(so_far[i, first[i]] > 6.0 for i in alarmed)
    assert told.bounds == (0.0, np.inf)
    assert f"but {told.past} of those alarms came when the total" in found.summary(Below(0.2))
    declared = GoalMonitor(Marginal(), reward_bounds=(0.0, None)).fit(past, progress=False)
    bounded = declared.evaluate(new, target, resamples=5)
    assert facts_of(bounded, Below(0.2)).one_sided is None
    quality = bounded.alarms(Below(0.2)).quality
    assert quality.too_late.count > 0
    assert "alarmed only once already lost" in bounded.summary(Below(0.2))
    # Whatever the rule, a run alarms once it is lost.
    assert "most alarms came too late" in bounded.summary(Below(0.0))
