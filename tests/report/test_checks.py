"""The checks and the verdict: right in each situation, and never against each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from ontarget import (
    Below,
    Episodes,
    Evaluation,
    GoalMonitor,
    Promised,
    QuantileForest,
    RuledOut,
    Target,
)
from ontarget.drift.change import DriftJudgement
from ontarget.evaluation import Rate
from ontarget.fitted.guarantee import promised_threshold
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.kernels import ASSURANCE, PLAUSIBILITY, P
from ontarget.live.contracts import Contracts
from ontarget.models import Marginal
from ontarget.report import Check, Judgement, Mark, Verdict
from ontarget.report._alarm_checks import threshold_luck
from ontarget.report.checks import checks_of
from ontarget.report.facts import COARSE, Facts, Gap, OfAlarm, OfP, facts_of, gap_of, lean_of
from ontarget.report.parts import CHANGE, panels_of
from ontarget.report.verdict import verdict_of
from tests.walks import walks

from .walked import monitor_of

TARGET = Target.at_least(0.2)
NEW = walks(1_000, seed=5)


def walker() -> GoalMonitor:
    return monitor_of(3_000)


@cache
def judged() -> Evaluation:
    return walker().evaluate(NEW, TARGET, resamples=50)


def saying(which: int, values: np.ndarray, met: np.ndarray | None = None) -> Evaluation:
    """The evaluation with other numbers in one panel, and perhaps other outcomes."""
    said = judged().answers.said.copy()
    said[:, which] = np.broadcast_to(values, judged().p.shape).T.reshape(-1)
    ended = judged().met if met is None else met
    if met is not None:  # what was called certain of the true outcomes says nothing of these
        said[:, PLAUSIBILITY], said[:, ASSURANCE] = 1.0, 0.0
    return replace(judged(), answers=replace(judged().answers, said=said, met=ended))


def shifted(runs: Episodes, by: float | np.ndarray) -> Episodes:
    """The same runs, each reward larger or smaller by an amount: a process that has changed."""
    states = np.stack([runs.at(t).states for t in range(runs.horizon)], axis=1)
    rewards = np.stack([runs.rewards_at(t) for t in range(runs.horizon)], axis=1)
    return Episodes.from_arrays(states, rewards + np.reshape(by, (-1, 1)), ids=runs.ids)


@cache
def held() -> Facts:
    return facts_of(judged(), Promised())


@cache
def lowered() -> Facts:
    return facts_of(saying(P, np.clip(judged().p - 0.12, 0.0, 1.0)), Promised())


@cache
def changed() -> Facts:
    both = shifted(NEW, np.repeat([0.0, -0.3], 500))
    order = {"day": np.arange(1_000)}
    return facts_of(walker().evaluate(both, TARGET, order=order, resamples=50), Promised())


@cache
def few() -> Facts:
    return facts_of(monitor_of(60).evaluate(walks(40, seed=8), TARGET, resamples=50), Promised())


@cache
def rare() -> Facts:
    target = Target.at_least(float(np.quantile(NEW.outcomes, 0.99)))
    return facts_of(walker().evaluate(NEW, target, resamples=50), Promised(0.01))


@cache
def learned() -> Facts:
    again = walker().evaluate(walks(3_000).take(np.arange(200)), TARGET, resamples=5)
    return facts_of(again, Promised())


@cache
def unclear() -> Facts:
    """Clear cases are right but for their luck; in 15 runs p says 40 %, and all meet the target."""
    rng, n = np.random.default_rng(0), judged().met.size
    stated = np.where(rng.random(n) < 0.5, 0.95, 0.05)
    met = rng.random(n) < stated
    stated[:15], met[:15] = 0.4, True
    return facts_of(saying(P, stated, met), Below(0.1))


@cache
def none_met() -> Facts:
    found = monitor_of(3_000).evaluate(NEW.take(range(300)), Target.at_least(1e6), resamples=20)
    return facts_of(found, Promised())


@cache
def loud() -> Facts:
    low = np.where(judged().met & (np.arange(judged().met.size) % 4 == 0), 0.0, judged().p)
    return facts_of(saying(P, low), Promised())


@cache
def all_met() -> Facts:
    return facts_of(saying(P, np.ones_like(judged().p), np.ones_like(judged().met)), Promised())


CASES: dict[Callable[[], Facts], tuple[Judgement, Mark, Mark]] = {
    held: (Judgement.HELD, Mark.GOOD, Mark.GOOD),
    lowered: (Judgement.NOT_HELD, Mark.ACT, Mark.ACT),
    changed: (Judgement.NOT_HELD, Mark.ACT, Mark.NEITHER),
    few: (Judgement.TOO_FEW, Mark.NEITHER, Mark.ACT),
    rare: (Judgement.HELD, Mark.GOOD, Mark.ACT),
    learned: (Judgement.NOT_NEW, Mark.NEITHER, Mark.NEITHER),
    unclear: (Judgement.HELD, Mark.ACT, Mark.NEITHER),
    none_met: (Judgement.TOO_FEW, Mark.NEITHER, Mark.ACT),
    loud: (Judgement.NOT_HELD, Mark.ACT, Mark.ACT),
    all_met: (Judgement.HELD, Mark.GOOD, Mark.GOOD),
}
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


def check(facts: Facts, name: str) -> Check:
    """The check with this name."""
    (one,) = [one for one in checks_of(facts) if one.name == name]
    return one


@every_case
def test_each_situation_has_its_verdict_and_its_marks(case: Callable[[], Facts]) -> None:
    facts = case()
    found = verdict_of(facts).judgement, check(facts, "p").mark, check(facts, "alarm").mark
    assert found == CASES[case]


@every_case
def test_the_checks_agree_with_the_verdict(case: Callable[[], Facts]) -> None:
    facts, verdict = case(), verdict_of(case())
    found = checks_of(facts)
    acts = [one for one in found if one.mark is Mark.ACT]
    assert (check(facts, "p").next == "use it") <= (check(facts, "p").mark is Mark.GOOD)
    assert bool(acts) <= bool(verdict.advice)
    if verdict.judgement is Judgement.NOT_HELD:
        assert any(one.said in verdict.reason for one in acts)
    if facts.changed or facts.seen or not facts.found.knows_both:
        assert not any(one.mark is Mark.GOOD for one in found)
    if facts.shortfall is not None:  # the larger of what p and what the alarm needs
        fit = int(verdict.advice.partition("fit on about ")[2].split()[0].replace(",", ""))
        assert fit >= facts.shortfall.in_all


@every_case
def test_text_and_json_hold_every_check(case: Callable[[], Facts]) -> None:
    found, rule = case().found, case().rule
    text = found.summary(rule)
    for one in checks_of(case()):
        assert all(told in text for told in (one.said, one.next, *one.details))
        assert json.loads(json.dumps(one.to_json(), allow_nan=False))["mark"] == one.mark
    assert text.endswith(f"verdict    {verdict_of(case())}")
    assert found.checks(rule) == checks_of(case())


@every_case
def test_figures_lie_in_their_intervals(case: Callable[[], Facts]) -> None:
    for one in checks_of(case()):
        if one.interval is not None and np.isfinite(one.figure):
            assert one.interval[0] <= one.figure <= one.interval[1]


def test_what_is_concluded_is_named() -> None:
    assert (held().p, held().alarm) == (OfP.RIGHT, OfAlarm.KEPT)
    assert (lowered().p, lowered().alarm) == (OfP.OFF, OfAlarm.BROKEN)
    assert (few().p, few().alarm) == (OfP.COARSE, OfAlarm.NONE)
    assert (unclear().p, unclear().alarm) == (OfP.OFF_BETWEEN, OfAlarm.UNPROMISED)
    assert none_met().p is OfP.NONE_MET
    assert few().gap.chance > COARSE
    assert rare().mostly_missed
    assert not held().mostly_missed


def test_a_change_for_the_worse_comes_first() -> None:
    drift = changed().found.drifted
    assert drift is not None
    assert drift.judgement is DriftJudgement.WORSE
    assert checks_of(changed())[0].name == "drift"
    assert "runs that start from now on" in verdict_of(changed()).advice
    assert f"{len(drift.later)} runs since the change" in verdict_of(changed()).advice


def test_a_change_for_the_worse_does_not_hold_even_where_p_is_within_chance_over_all_runs() -> None:
    found = replace(judged())
    found.__dict__["drifted"] = changed().found.drifted
    facts = facts_of(found, Promised())
    assert facts.p is OfP.RIGHT
    assert verdict_of(facts).judgement is Judgement.NOT_HELD
    assert verdict_of(facts).reason == check(facts, "drift").said


def test_ruling_out_wrongly_is_counted_among_all_runs() -> None:
    # It is promised for all runs together: of the few that meet a rare target, it may fail most.
    good = np.flatnonzero(judged().met)
    lost = np.zeros(judged().p.shape, dtype=np.bool_)
    lost[:, good[: good.size // 7]] = True
    said = saying(PLAUSIBILITY, np.where(lost, 0.0, 1.0))
    facts = facts_of(said, RuledOut("0.1"))
    assert facts.false_alarms.n == judged().met.size
    assert facts.false_alarms.count == good.size // 7
    assert said.alarms(RuledOut("0.1")).quality.false_alarms.low > 0.1 > facts.false_alarms.value
    assert facts.alarm is OfAlarm.KEPT


def test_more_false_alarms_than_promised_may_be_chance() -> None:
    p = np.where(judged().met, np.maximum(judged().p, 0.5), judged().p)
    some = np.flatnonzero(judged().met)[: round(0.06 * judged().met.sum())]
    p[-1, some] = 0.0
    more = facts_of(saying(P, p), Promised())
    assert more.promised_rate < more.false_alarms.value < more.allowed_rate
    assert more.alarm is OfAlarm.KEPT
    assert len(check(more, "alarm").details) == 1 + len(
        check(facts_of(saying(P, np.maximum(p, 0.5)), Promised()), "alarm").details
    )


def test_an_interval_that_leaves_out_the_promise_is_not_called_chance() -> None:
    n = int(judged().met.sum())
    count = next(k for k in range(n) if Rate.of(k, n).low > 0.05)
    limit = judged().alarms(Promised()).triggers[0].threshold
    p = np.where(judged().met, np.maximum(judged().p, 1.001 * limit), judged().p)
    p[-1, np.flatnonzero(judged().met)[:count]] = 0.0
    facts = facts_of(saying(P, p), Promised())
    assert Rate.of(count, n).low <= facts.allowed_rate  # so that no promise is broken
    assert facts.alarm is OfAlarm.ABOVE
    assert check(facts, "alarm").mark is Mark.NEITHER
    assert "within chance" not in str(check(facts, "alarm"))
    assert verdict_of(facts).advice


def test_clear_cases_do_not_hide_what_the_others_show() -> None:
    lean = unclear().unclear
    assert lean is not None
    assert (lean.way, lean.runs) == ("too low", 15)
    assert lean.share == pytest.approx(15 / judged().met.size)
    assert lean.beyond_chance
    assert not unclear().gap.beyond_chance
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


def test_few_runs_say_which_way_p_leans() -> None:
    base = monitor_of(60).evaluate(walks(60, seed=8), TARGET, resamples=50)
    said = base.answers.said.copy()
    said[:, P] = (0.65 * np.clip(base.p, 0.05, 0.95)).T.reshape(-1)
    met = np.random.default_rng(1).random(60) < base.p.mean(axis=0)
    facts = facts_of(replace(base, answers=replace(base.answers, said=said, met=met)), Promised())
    assert facts.lean.shows
    assert facts.lean.way == "too low"
    for text in (check(facts, "p").said, check(facts, "p").next):
        assert "too low" in text
    assert facts.enough.fit > facts.recorded


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


def test_runs_since_a_change_are_judged_by_themselves() -> None:
    facts, found = changed(), changed().found
    later = np.array(found.drifted.later)
    off = float((found.p - found.met)[:, later].mean())
    assert facts.since is not None
    assert facts.since.too_high == pytest.approx(off)
    assert f"{later.size} runs since the change, p was {100 * off:.1f}" in str(check(facts, "p"))
    rows = {part.value: part for part in panels_of(found, {})[CHANGE]}
    assert rows["since the change"].too_high.value == pytest.approx(off)
    assert rows["all runs"].episodes == 1_000
    assert rows["since, step 0 alone"].forecasts == later.size
    assert CHANGE not in panels_of(judged(), {})
    raised = facts.alarms.first[later] >= 0
    assert facts.alarms_since.false_alarms.count == (raised & found.met[later]).sum()
    assert facts.sure_since[0].n == later.size
    assert held().since is held().alarms_since is held().sure_since is None


def test_a_target_called_certain_wrongly_too_often_does_not_hold() -> None:
    for panel, values in (
        (PLAUSIBILITY, np.where(judged().met, 0.01, judged().plausibility)),
        (ASSURANCE, np.where(judged().met, judged().assurance, 0.99)),
    ):
        found = saying(panel, values)
        assert found.verdict().judgement is Judgement.NOT_HELD
        assert check(facts_of(found, Promised()), "at 5 %").mark is Mark.ACT


def test_what_was_never_called_certain_gets_no_tick() -> None:
    said = judged().answers.said.copy()
    said[:, PLAUSIBILITY], said[:, ASSURANCE] = 1.0, 0.0
    quiet = replace(judged(), answers=replace(judged().answers, said=said))
    assert check(facts_of(quiet, Promised()), "at 5 %").mark is Mark.NEITHER


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
        counts = np.full(judged().fitted.curves.counts.shape, n)
        fitted = replace(judged().fitted, curves=replace(judged().fitted.curves, counts=counts))
        found = replace(saying(P, stated, met), contracts=Contracts(Joint.of(fitted)))
        inside.append(not gap_of(found).beyond_chance)
    assert np.mean(inside) >= 0.9


def test_a_blunt_model_is_told_from_a_sharp_one() -> None:
    blunt = facts_of(saying(P, np.full_like(judged().p, judged().met.mean())), Below(0.1))
    assert not blunt.useful
    assert check(blunt, "sharpness").mark is Mark.NEITHER
    assert check(held(), "sharpness").mark is Mark.GOOD
    assert all_met().better is None


def test_a_clock_alone_does_not_tell_runs_apart() -> None:
    p, met = judged().p, judged().met
    long = np.arange(met.size) % 3 > 0  # runs that meet the target last longer, and p sees only t
    alive = np.where(long | (np.arange(len(p))[:, None] < len(p) // 2), p, np.nan)
    share = np.nanmean(np.where(np.isnan(alive), np.nan, long), axis=1)
    clock = saying(P, np.where(np.isnan(alive), np.nan, share[:, None]), long)
    assert not facts_of(clock, Below(0.1)).useful


def test_a_promise_out_of_reach_says_what_can_be_promised_now() -> None:
    facts = rare()
    missing = facts.shortfall
    assert missing is not None
    assert missing.needed == 99 > missing.has
    assert missing.more >= 3_000 * (99 / missing.has - 1)
    assert missing.in_all == facts.recorded + missing.more
    rate = missing.possible
    assert rate is not None
    asked = walker().watch(facts.found.target, false_alarm_rate=rate)
    assert asked.trigger.promised is not None
    assert f"{rate:g}" in check(facts, "alarm").next


def test_a_rate_without_assure_episodes_is_measured() -> None:
    learned = GoalMonitor(QuantileForest(n_trees=20, min_leaf=3), min_calibration=5)
    learned.fit(split=walks(60).split(assure=0), progress=False)
    facts = facts_of(learned.evaluate(NEW, TARGET, resamples=20), Promised(0.1))
    assert (facts.asked_rate, facts.promised_rate) == (0.1, None)
    assert facts.alarm is OfAlarm.UNPROMISED
    assert facts.found.pit(2).is_flat
    assert "drift" not in [one.name for one in checks_of(facts)]


def test_alarms_past_the_target_are_told_where_no_bounds_were_declared() -> None:
    rng = np.random.default_rng(0)
    days = rng.exponential(size=(900, 5))
    runs = Episodes.from_arrays(np.cumsum(days, axis=1)[:, :, None] - days[:, :, None], days)
    past, new = runs.take(np.arange(600)), runs.take(np.arange(600, 900))
    target = Target.at_most(6.0)
    open_ended = GoalMonitor(Marginal()).fit(past, progress=False)
    found = open_ended.evaluate(new, target, resamples=5)
    facts = facts_of(found, Below(0.2))
    told, first = facts.reward_side, found.alarms(Below(0.2)).first
    so_far = np.cumsum(days[600:], axis=1) - days[600:]
    alarmed = np.flatnonzero(~found.met & (first >= 0))
    assert told is not None
    assert told.past == sum(so_far[i, first[i]] > 6.0 for i in alarmed)
    assert told.bounds == (0.0, np.inf)
    assert f"{told.past} of those alarms" in check(facts, "failures").details[-1]
    declared = GoalMonitor(Marginal(), reward_bounds=(0.0, None)).fit(past, progress=False)
    bounded = declared.evaluate(new, target, resamples=5)
    assert facts_of(bounded, Below(0.2)).reward_side is None
    assert bounded.alarms(Below(0.2)).quality.too_late.count > 0
    # Whatever the rule, a run alarms once it is lost.
    assert facts_of(bounded, Below(0.0)).mostly_late
    assert check(facts_of(bounded, Below(0.0)), "failures").next


def test_nine_in_ten_other_sets_put_the_threshold_where_it_says() -> None:
    rng = np.random.default_rng(0)
    scores, met = rng.random(200), np.ones(200, dtype=bool)
    low, high = promised_threshold(scores, met, 0.1).others
    drawn = [promised_threshold(rng.choice(scores, 200), met, 0.1).value for _ in range(2000)]
    inside = np.mean((np.array(drawn) >= low) & (np.array(drawn) <= high))
    assert 0.88 < inside < 0.96
    assert low < promised_threshold(scores, met, 0.1).value < high


def test_a_threshold_that_is_much_luck_asks_for_more_runs() -> None:
    def told(low: float, high: float) -> str:
        trigger = SimpleNamespace(promised=SimpleNamespace(others=(low, high)), measured=None)
        return threshold_luck(SimpleNamespace(triggers=[trigger]))

    assert told(0.2, 0.2) == ""
    assert [told(0.2, 0.4).endswith(")"), told(0.1, 0.4).endswith(")")] == [True, False]


def test_what_held_all_the_same_stands_in_brackets() -> None:
    found = Verdict(Judgement.NOT_HELD, "p was too high", "fit again", aside="alarms held")
    assert str(found) == f"{Judgement.NOT_HELD}: p was too high (alarms held); fit again"
