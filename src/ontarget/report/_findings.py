"""The findings at the top of a report, in sentences: the verdict, and the reasons for it."""

from __future__ import annotations

import numpy as np

from ontarget._numerals import percent
from ontarget.conformal.planning import needed_successes
from ontarget.drift.change import DriftJudgement
from ontarget.episodes.schema import unknown_in_words
from ontarget.evaluation import pool, reliability
from ontarget.goal import Goal
from ontarget.report._action import (
    NEW_CATEGORIES,
    better_than_the_rate,
    error_of_the_rate,
    is_useful,
    mostly_missed,
)
from ontarget.report._changed import drift_statements
from ontarget.report._enough import COARSE
from ontarget.report._facts import Facts
from ontarget.report._since import alarms_since, sure_since
from ontarget.report._statement import Statement, no_tick, sentence, sentences
from ontarget.report._summary import (
    failures_in_words,
    late_in_words,
    lead_in_words,
    past_the_end,
    thirds_in_words,
)
from ontarget.report._words import argument_in_words, between
from ontarget.report.measured import Measured
from ontarget.report.verdict import (
    MANY_UNANSWERED,
    ONE_SIDED_ADVICE,
    Judgement,
    above_the_promise,
    between_in_words,
    covers_both,
    doubtful,
    in_points,
    luck_in_words,
    no_alarm_advice,
    no_alarm_in_words,
    useless_alarm,
    verdict_of,
)

_ASKED = (0.8, 0.7, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_REACH = 0.05
_ENOUGH = 30  # forecasts behind a headline
_VAGUE = 0.3  # an interval as wide as this confirms nothing


def verdict(facts: Facts) -> list[Statement]:
    """The findings that a report begins with: the worst news, the verdict, the reasons for it."""
    found = facts.found
    drift = drift_statements(facts)
    changed = any(one.good is False for one in drift)  # then it explains what follows
    said = [
        _said(facts),
        _calibration(facts),
        _sharpness(facts),
        _alarm(facts),
        _sure(found),
        *([] if changed else drift),
        *_unseen(found),
        *_unanswered(found),
        *_one_sided(found),
    ]
    # What looks good on the runs of the fit is no finding, nor what does over a change.
    why = ""
    if found.fitted_on.size:
        why = "the monitor was fitted on some of these runs, which flatters it"
    elif not found.knows_both:
        why = "p has nothing to learn from"
    elif changed:
        both = "these runs come from before and after the change"
        why = both if covers_both(found) else "the process has changed"
    said = [one._replace(good=None, why=no_tick(why)) if why and one.good else one for one in said]
    first = [_overall(facts), *(drift if changed else [])]
    worse = found.drifted is not None and found.drifted.judgement is DriftJudgement.WORSE
    if worse and not found.fitted_on.size:
        first.reverse()
    return _worst_first([*first, *said])


def _worst_first(said: list[Statement]) -> list[Statement]:
    """The findings; if any of them is bad news, the first is marked as bad news too."""
    act = any(one.good is False for one in said)
    return [said[0]._replace(good=False, why=""), *said[1:]] if act else said


def _unseen(found: Measured) -> list[Statement]:
    """A finding if some values are categories that the monitor does not know; else empty."""
    if not found.episodes.unseen:
        return []
    return [
        Statement(
            f"{found.episodes.unseen:,} readings are of categories that no training run had: "
            f"{unknown_in_words(found.episodes.strangers)}.",
            "They count as missing, so p there rests on the other features; below it is measured "
            f"by itself. {sentence(NEW_CATEGORIES)}.",
            False,
        )
    ]


def _unanswered(found: Measured) -> list[Statement]:
    """A finding on the steps without an answer; empty if every step has one."""
    missing = found.unanswered
    if not missing.steps:
        return []
    never = ""
    if missing.episodes:
        n = missing.episodes
        never = f" {n:,} run{'s' * (n != 1)} got no answer at all."
    few = missing.share <= MANY_UNANSWERED
    return [
        Statement(
            f"It had no answer at {percent(missing.share)} of steps.",
            f"{sentence(missing.why)}. All figures on this page are about the other "
            f"{missing.of - missing.steps:,} of {missing.of:,} steps.{never}",
            None if few else False,
            "No mark: these are few." * few,
        )
    ]


def _one_sided(found: Measured) -> list[Statement]:
    """A finding if all learning runs met the target, or all missed it; empty if not."""
    if not found.one_sided:
        return []
    headline = f"{sentence(found.one_sided)}."
    detail = "A p close to 0 or 1 then says little about a new run, and neither does an alarm on p."
    return [Statement(headline, f"{detail} {sentence(ONE_SIDED_ADVICE)}.", False)]


def _sharpness(facts: Facts) -> Statement:
    """A finding on how well p tells apart runs that meet the target and runs that miss it.

    p is the probability of meeting the target. Calibration alone does not show this.
    """
    better = better_than_the_rate(facts)
    if better is None:
        headline = "All runs ended alike, so nothing could be told apart."
        return Statement(headline, "", None, "No mark: there is nothing to judge.")
    detail = (
        f"The mean squared error of p (Brier score) is {facts.found.brier().value:.4f}. For an "
        "answer that only knows the step, the share of runs at this step that met the target, it "
        f"is {error_of_the_rate(facts):.4f}."
    )
    if is_useful(better):
        return Statement(
            f"It tells runs apart: its error is {percent(better, 0)} smaller than if all runs at "
            "the same step got the same answer.",
            detail,
            *_agreeing(facts, good=True),
        )
    cause = (
        "That is because p is off: see above."
        if facts.gap.beyond_chance
        else "Look for features that tell earlier how a run will end; more runs alone will not "
        "change it much."
    )
    why = "No mark: it breaks no promise, but p is of little use."
    return Statement("It hardly tells runs apart.", f"{detail} {cause}", None, why)


def _said(facts: Facts) -> Statement:
    found = facts.found
    pooled = pool(found.p, found.met)
    for asked in _ASKED:
        near = np.abs(pooled.p - asked) <= _REACH
        if np.count_nonzero(near) < _ENOUGH:
            continue
        episodes = pooled.episode[near]
        one = reliability(pooled.p[near], pooled.met[near], 1, episode=episodes).at(asked)
        inside = one.low <= one.mean_p <= one.high
        window = f"{percent(asked - _REACH)} to {percent(asked + _REACH)}"
        return Statement(
            f"When it said about {percent(asked)}, {percent(one.rate_met)} of runs met the target.",
            f"{one.n:,} forecasts from {window}, {percent(one.mean_p)} on average, in "
            f"{np.unique(episodes).size:,} runs, at any step; 95\u00a0% interval of what came "
            f"true {between(one.low, one.high)}.",
            *(
                (None, no_tick("the interval is too wide to tell"))
                if inside and one.high - one.low > _VAGUE
                else _agreeing(facts, good=inside)
            ),
        )
    return Statement(
        "It was nearly always sure of itself.",
        f"Too few forecasts between 5 and 95\u00a0% to say what came of them; "
        f"{percent(float(found.met.mean()))} of runs met the target.",
        None,
        "No mark: there is too little to judge.",
    )


def _agreeing(facts: Facts, *, good: bool) -> tuple[bool | None, str]:
    """The mark of a finding about p (True, False or None for neither), and why it is None.

    ``good`` is the mark that the finding would get by itself. It becomes None if it contradicts p
    as a whole: a good finding although p is off, or a bad one although p is not. It also becomes
    None if there are too few runs to tell whether p is off. p is the probability of meeting the
    target.
    """
    gap = facts.gap
    if gap.beyond_chance and good:
        return None, no_tick("p as a whole is off")
    if not gap.beyond_chance and gap.chance > COARSE:
        return None, "No mark: there are too few runs to tell."
    unclear = facts.unclear
    if not good and not gap.beyond_chance and not (unclear is not None and unclear.beyond_chance):
        return None, no_tick("this differs, but all forecasts together are within chance")
    return good, ""


def _overall(facts: Facts) -> Statement:
    found = verdict_of(facts)
    good = {**dict.fromkeys(Judgement), Judgement.HELD: True, Judgement.NOT_HELD: False}
    in_part = found.judgement is Judgement.HELD_IN_PART
    held = found.judgement is Judgement.HELD
    but = in_part or (held and (doubtful(facts) or facts.alarms is None))
    # What to do about an alarm that cannot be promised is told with that finding.
    elsewhere = [] if facts.shortfall is None else no_alarm_advice(facts)
    advice = [one for one in found.advice.split("; ") if one not in elsewhere]
    against = "some steps have no answer" if in_part else "something speaks against it"
    why = no_tick(against) if but else "No mark: these runs cannot tell."
    mark = None if but else good[found.judgement]
    return Statement(
        f"{str(found.judgement).capitalize()}: {found.reason}.",
        sentences(*found.aside.split("; "), *advice),
        mark,
        why if mark is None else "",
    )


def _calibration(facts: Facts) -> Statement:
    found, gap, unclear = facts.found, facts.gap, facts.unclear
    runs = f"{found.met.size:,} new runs"
    headline = f"Over all forecasts together, {runs} show no sign of miscalibration."
    if gap.beyond_chance:
        both = " over the runs before and after the change" * covers_both(found)
        headline = f"p is off by {in_points(gap.off)} on average{both}, more than chance explains."
    elif gap.chance > COARSE:
        headline = f"{found.met.size:,} new runs cannot tell whether p is off."
        if facts.lean.shows:
            headline = (
                f"p is probably {facts.lean.way}. With so few recorded runs that can be chance."
            )
    elif unclear is not None and unclear.beyond_chance:
        headline = f"p is right on average, but {between_in_words(unclear)}."
    ece = found.ece()
    detail = (
        f"Over all steps and runs, p is off by {in_points(gap.off)} on average, either way "
        f"(95\u00a0% interval {100 * ece.low:.1f} to {100 * ece.high:.1f}; this is the expected "
        "calibration error). "
        f"Chance alone could put it off by {100 * gap.chance:.1f}: {100 * gap.new_runs:.1f} for "
        f"the luck of these runs and {100 * gap.calibration:.1f} for that of {gap.n:,} recorded "
        "runs behind a typical forecast (the two may cancel, so together they make less than "
        f"their sum). {_before_calibration(facts)}"
    )
    if gap.beyond_chance:
        detail += f" {_direction(facts)}"
    if unclear is not None:
        detail += (
            f" Judged mostly on clear cases: only {percent(unclear.share)} of forecasts, in "
            f"{unclear.runs:,} of {found.met.size:,} runs, had p between 10 and 90\u00a0%."
        )
        if unclear.runs > 1:
            off, chance = 100 * abs(unclear.too_high), 100 * unclear.chance
            detail += (
                f" There, p was {off:.1f} points {unclear.way}, and chance alone explains "
                f"{chance:.1f}."
            )
    good, why = _agreeing(facts, good=not gap.beyond_chance)
    if good and unclear is not None and unclear.beyond_chance:
        good, why = False, ""
    return Statement(headline, detail, good, why)


def _before_calibration(facts: Facts) -> str:
    """How far the model's own p, before calibration, is off; and whether calibration helped.

    p is the probability of meeting the target.
    """
    gap, raw = facts.gap, facts.found.ece("raw").value
    if isinstance(facts.found.target, Goal):
        before, it = (
            f"With the map for all goals it is {100 * raw:.1f} points",
            "the goal's own map",
        )
    else:
        before, it = f"Before calibration it was {100 * raw:.1f} points", "calibration"
    more = gap.off - raw
    if more <= 0.0:
        return f"{before}."
    if more <= gap.chance:
        return (
            f"{before}: on these runs {it} did not help, but the difference is within chance, so "
            "this is no reason to leave it out."
        )
    return (
        f"{before}: on these runs {it} made p worse, by more than chance explains. It was learned "
        "from recorded runs that these differ from: fit again on recent ones."
    )


def _direction(facts: Facts) -> str:
    """Whether p is too high or too low, and the share of runs that met the target.

    The share is given for the evaluated and for the recorded runs. p is the probability of meeting
    the target.
    """
    recorded = facts.recorded_rate
    said = f"p is {facts.gap.way}."
    if recorded is None:
        return said
    return (
        f"{said} {percent(float(facts.found.met.mean()))} of these runs met the target, and "
        f"{percent(recorded)} of the recorded assure runs."
    )


def _alarm(facts: Facts) -> Statement:
    if facts.alarms is None:
        said = f"{sentence(no_alarm_in_words(facts))}."
        return Statement(said, f"{_mostly_missed(facts)}{sentences(*_no_alarm(facts))}", False)
    quality, triggers = facts.alarms.quality, facts.alarms.triggers
    false, caught = facts.false_alarms, quality.in_time
    by_p = facts.rule.compared_name == "p"
    limits = (trigger.threshold for trigger in triggers)
    below = ", ".join(percent(one) if by_p else f"{one:.3g}" for one in limits)
    which = "" if facts.rule.of_all_runs else " that met the target"
    kept = (
        f"Alarm {facts.rule.relation} {facts.rule.compared_name} = {below}. False alarms: "
        f"{false.count:,} of {false.n:,} runs{which}, {percent(false.value)} "
        f"({between(false.low, false.high)}). "
    )
    luck = luck_in_words(facts)
    kept += f"{sentence(luck)}. " * bool(luck)
    if not facts.found.knows_both:
        kept += f"{sentence(useless_alarm(facts))}. "
    if not caught.n:
        why = "No mark: there is nothing to judge."
        return Statement("No run failed, so no alarm was needed.", kept, None, why)
    told = (
        failures_in_words(quality),
        lead_in_words(quality),
        thirds_in_words(facts.alarms, facts.found.last_p),
        late_in_words(quality),
        past_the_end(facts),
    )
    since = alarms_since(facts)
    return Statement(
        f"Alarm: {percent(false.value)} {facts.counted}{_promised(facts)}, {percent(caught.value)} "
        "of failures caught in time.",
        f"{_mostly_missed(facts)}{kept}Of the failing runs, {'; '.join(filter(None, told))}."
        f"{since.text}",
        *((False, "") if since.broken else _worth(facts)),
    )


def _mostly_missed(facts: Facts) -> str:
    """That an alarm is nothing special where most runs miss the target; empty if they do not."""
    if not mostly_missed(facts):
        return ""
    share = float(facts.found.met.mean())
    return (
        f"{percent(1.0 - share)} of runs miss this target, so an alarm is the normal state; look "
        "for the few runs without one, or choose a target that most runs meet. "
    )


def _promised(facts: Facts) -> str:
    """Which rate was promised, or set, in brackets after the measured one; empty if none was."""
    rate, confidence = facts.asked_rate, facts.confidence
    if rate is None:
        return ""
    if facts.promised_rate is None:
        return f" (set for {percent(rate)}, not promised)"
    how = "on average" if confidence is None else f"with {percent(confidence)} confidence"
    drift = facts.found.drifted
    if drift is not None and drift.changed:
        how = "before the change"
    return f" ({percent(rate)} promised {how})"


def _no_alarm(facts: Facts) -> list[str]:
    """Why the alarm that was asked for cannot be promised, and what to do, as sentences."""
    missing = facts.shortfall
    if missing is None:
        assert facts.no_alarms is not None
        return [facts.no_alarms.told(argument_in_words)]
    sure = "" if facts.confidence is None else f" with {percent(facts.confidence)} confidence"
    return [
        f"a promise of {percent(missing.rate)} false alarms{sure} needs at least "
        f"{missing.needed:,} assure runs that met the target, and there are {missing.has:,}",
        *no_alarm_advice(facts),
    ]


def _worth(facts: Facts) -> tuple[bool | None, str]:
    """The mark of the finding about the alarm: True if it kept its promise, False if it did not.

    None, with the reason, if that cannot be said or if the alarm is of little use.
    """
    assert facts.alarms is not None
    quality, allowed, false = facts.alarms.quality, facts.allowed_rate, facts.false_alarms
    if allowed is not None and false.low > allowed:
        return False, ""
    rate = facts.promised_rate
    needed = 0 if rate is None else needed_successes(rate)
    reasons = {
        "there are more false alarms than promised": above_the_promise(facts)
        or (allowed is not None and false.value > allowed),
        f"it takes {needed:,} runs that met the target to check the promise, and there are "
        f"{false.n:,}": false.n < needed,
        "fewer than half of the failing runs were caught in time": quality.in_time.value < 0.5,
        "some alarms came when the total had already left the target": facts.reward_side
        is not None,
    }
    why = next((one for one, holds in reasons.items() if holds), "")
    return (None, no_tick(why)) if why else (True, "")


def _sure(found: Measured) -> Statement:
    out, sure = found.ruled_out_wrongly(), found.assured_wrongly()
    ruled_out = int(np.count_nonzero(np.fmin.reduce(found.plausibility, axis=0) <= 0.05))
    assured = int(np.count_nonzero(np.fmax.reduce(found.assurance, axis=0) >= 0.95))
    if not ruled_out and not assured:
        return Statement(
            "It never ruled the target out, and never assured it.",
            "Both need much evidence. With more assure runs they come more often.",
            None,
            "No mark: there is nothing to judge.",
        )
    since, needed = sure_since(found), needed_successes(0.05)
    few = found.met.size < needed
    why = no_tick(f"it takes {needed} runs to check 5\u00a0%, and there are {found.met.size}")
    kept = None if few else max(out.low, sure.low) <= 0.05
    return Statement(
        f"It ruled the target out for {ruled_out:,} runs and was wrong for {out.count:,}; it "
        f"assured it for {assured:,} and was wrong for {sure.count:,}.",
        "Of all runs, at most 5\u00a0% may get a wrong call, on average over recordings; here "
        f"{percent(out.value)} and {percent(sure.value)} did.{since.text}",
        False if since.broken else kept,
        why * (few and not since.broken),
    )
