"""The findings at the top of a report, in sentences: the verdict, and what it rests on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._numerals import percent
from ontarget.conformal.planning import needed_successes
from ontarget.drift.change import UNKNOWN_ORDER, DriftJudgement
from ontarget.evaluation import pool, reliability
from ontarget.report._facts import Facts
from ontarget.report._since import alarms_since, sure_since
from ontarget.report._summary import failures_in_words, late_in_words, lead_in_words, past_the_end
from ontarget.report._words import argument_in_words, between
from ontarget.report.measured import Measured
from ontarget.report.verdict import (
    COARSE,
    Judgement,
    above_the_promise,
    between_in_words,
    covers_both,
    doubtful,
    in_points,
    luck_in_words,
    shortfall_in_words,
    verdict_of,
)

__all__ = ["Statement", "verdict"]

_ASKED = (0.8, 0.7, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_REACH = 0.05
_ENOUGH = 30  # forecasts behind a headline
_VAGUE = 0.3  # an interval as wide as this confirms nothing
_USEFUL = 0.1  # by how much less a useful p errs than one answer for all


class Statement(NamedTuple):
    """A finding in one sentence, what it rests on, and whether it is good; None is neither."""

    headline: str
    detail: str
    good: bool | None


def verdict(facts: Facts) -> list[Statement]:
    """The findings that matter: the verdict first, then what it rests on."""
    found = facts.found
    drift = _drift(found)
    changed = any(one.good is False for one in drift)  # then it explains what follows
    said = [
        _overall(facts),
        *(drift if changed else []),
        _said(facts),
        _calibration(facts),
        _sharpness(facts),
        _alarm(facts),
        _sure(found),
        *([] if changed else drift),
        *_unseen(found),
    ]
    # What looks good on the runs of the fit is no finding, nor what does over a change.
    if found.fitted_on.size or changed:
        return [one._replace(good=None) if one.good else one for one in said]
    return said


def _unseen(found: Measured) -> list[Statement]:
    """That some readings are of categories that nobody has learned; nothing if none are."""
    if not found.episodes.unseen:
        return []
    return [
        Statement(
            f"{found.episodes.unseen:,} readings are of categories that no training episode had.",
            "They count as missing, so p there rests on the other features; below it is measured "
            "by itself. Fit again once there are enough runs with the new categories.",
            None,
        )
    ]


def _sharpness(facts: Facts) -> Statement:
    """How much p tells runs apart, which calibration alone does not show."""
    found = facts.found
    pooled = pool(found.p, found.met)
    rate = float(pooled.met.mean())
    always, ours = rate * (1.0 - rate), found.brier().value
    if not always:
        return Statement("All runs ended alike, so nothing could be told apart.", "", None)
    better = 1.0 - ours / always
    base = f"always saying {percent(rate)}, the share of forecasts whose run met the target"
    detail = f"The Brier score is {ours:.4f}, and {always:.4f} for {base}."
    if better >= _USEFUL:
        return Statement(
            f"It tells runs apart: its error is {percent(better, 0)} smaller than with the same "
            "answer for every run.",
            detail,
            _agreeing(facts, good=True),
        )
    cause = (
        "That is because p is off: see above."
        if facts.gap.beyond_chance
        else "Look for features that tell earlier how a run will end; more episodes alone will not "
        "change it much."
    )
    return Statement("It hardly tells runs apart.", f"{detail} {cause}", None)


def _drift(found: Measured) -> list[Statement]:
    """Whether the process has changed since it was recorded; nothing if that cannot be told."""
    drift = found.drifted
    if drift is None:
        return []
    lot = f"Their order is {drift.order}." if drift.order else ""
    if drift.order == UNKNOWN_ORDER:
        lot = "The runs were taken in random order: their order in the file plays no part."
    by_p = drift.changed and drift.strongest is drift.harm
    bet = (
        f"The evidence {'that p now promises too much' if by_p else 'of a change'} starts at 1 and "
        f"reached {drift.strongest.in_words}; {drift.strongest.limit:g} counts as a change."
    )
    figures = f"{drift.figures}{f' (95 % range: {drift.latest.reach} points)' * drift.latest.shows}"
    if drift.changed:
        both = "figures that do not say otherwise cover the runs before and after it together"
        told = (figures, both * drift.covers_both, *drift.suspect.split("; "), *drift.where)
        since = drift.when or "since the runs were recorded"
        headline = f"{drift.judgement} {since}: at step {drift.t}, {drift.headline}"
    elif drift.judgement is DriftJudgement.BUILDING:
        told = (
            f"at step {drift.t}, {drift.way}",
            "more runs will show whether something has changed",
            *drift.suspect.split("; "),
        )
        headline = f"{drift.judgement}: {drift.strongest.reached}"
    else:
        told = ()
        headline = "no sign that the process has changed since it was recorded"
    return [
        Statement(
            f"{_sentence(headline)}.",
            " ".join(filter(None, [_sentences(*told), bet, lot])),
            False if drift.changed else None,
        )
    ]


def _sentence(text: str) -> str:
    """The text with a capital letter in front."""
    return text[:1].upper() + text[1:]


def _sentences(*texts: str) -> str:
    """The texts as sentences, one after the other; empty ones are left out."""
    return " ".join(f"{_sentence(one)}." for one in texts if one)


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
            f"{np.unique(episodes).size:,} episodes; 95\u00a0% interval of what came true "
            f"{between(one.low, one.high)}.",
            _agreeing(facts, good=inside) if one.high - one.low <= _VAGUE or not inside else None,
        )
    return Statement(
        "It was nearly always sure of itself.",
        f"Too few forecasts between 5 and 95\u00a0% to say what came of them; "
        f"{percent(float(found.met.mean()))} of runs met the target.",
        None,
    )


def _agreeing(facts: Facts, *, good: bool) -> bool | None:
    """Whether a finding about p is good; None where it says no more than chance does.

    One that is good proves nothing while p as a whole is off, and none does with few runs.
    """
    gap = facts.gap
    hidden = good if gap.beyond_chance else gap.chance > COARSE
    return None if hidden else good


def _overall(facts: Facts) -> Statement:
    found = verdict_of(facts)
    good = {**dict.fromkeys(Judgement), Judgement.HELD: True, Judgement.NOT_HELD: False}
    but = doubtful(facts) or facts.alarms is None
    return Statement(
        f"{str(found.judgement).capitalize()}: {found.reason}.",
        _sentences(found.aside, *found.advice.split("; ")),
        None if found.judgement is Judgement.HELD and but else good[found.judgement],
    )


def _calibration(facts: Facts) -> Statement:
    found, gap = facts.found, facts.gap
    ece, raw, unclear = found.ece(), found.ece("raw"), facts.unclear
    headline = f"{found.met.size:,} new episodes show no sign of miscalibration."
    if gap.beyond_chance:
        both = " over the runs before and after the change" * covers_both(found)
        headline = f"p is off by {in_points(gap.off)} on average{both}, more than chance explains."
    elif gap.chance > COARSE:
        headline = f"{found.met.size:,} new episodes cannot tell whether p is off."
        if facts.lean.shows:
            headline = (
                f"p is probably {facts.lean.way}. With so few recorded episodes that can be chance."
            )
    elif unclear is not None and unclear.beyond_chance:
        headline = f"p is right on average, but {between_in_words(unclear)}."
    detail = (
        f"Chance alone could put it off by {in_points(gap.chance)}: {100 * gap.new_runs:.1f} for "
        f"the luck of these runs and {100 * gap.calibration:.1f} for that of {gap.n:,} recorded "
        "episodes behind a typical forecast (the two may cancel, so together they make less than "
        "their sum). Expected calibration error "
        f"{ece.value:.4f} (95\u00a0% interval {ece.low:.4f} to {ece.high:.4f}); before calibration "
        f"{raw.value:.4f}."
    )
    if raw.value < ece.value and not gap.beyond_chance:
        detail += " Calibrating a model that is right already costs a little, by chance."
    if gap.beyond_chance:
        detail += f" {_direction(facts)}"
    if unclear is not None:
        detail += (
            f" Judged mostly on clear cases: only {percent(unclear.share)} of forecasts, in "
            f"{unclear.runs:,} of {found.met.size:,} runs, had p between 10 and 90\u00a0%."
        )
    good = _agreeing(facts, good=not gap.beyond_chance)
    doubted = unclear is not None and unclear.beyond_chance
    return Statement(headline, detail, None if good and doubted else good)


def _direction(facts: Facts) -> str:
    """Which way p errs, and how these runs compare with the recorded ones."""
    gap, recorded = facts.gap, facts.recorded_rate
    way = "high" if gap.too_high > 0.0 else "low"
    said = f"On average p is {in_points(abs(gap.too_high))} too {way}."
    if recorded is None:
        return said
    return (
        f"{said} {percent(float(facts.found.met.mean()))} of these runs met the target, and "
        f"{percent(recorded)} of the recorded assure episodes."
    )


def _alarm(facts: Facts) -> Statement:
    if facts.alarms is None:
        rate = "" if facts.asked_rate is None else f" with {percent(facts.asked_rate)} false alarms"
        said = f"No alarm{rate} can be promised."
        return Statement(said, _sentences(*_no_alarm(facts)), False)
    quality, triggers = facts.alarms.quality, facts.alarms.triggers
    false, caught, promise = facts.false_alarms, quality.in_time, facts.asked_rate
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in triggers)
    which = "" if facts.rule.of_all_runs else " that met the target"
    kept = (
        f"Alarm {facts.rule.relation} {facts.rule.compared_name} = {below}. False alarms: "
        f"{false.count:,} of {false.n:,} runs{which}, {percent(false.value)} "
        f"({between(false.low, false.high)}). "
    )
    luck = luck_in_words(facts)
    kept += f"{_sentence(luck)}. " * bool(luck)
    if not caught.n:
        return Statement("No run failed, so no alarm was needed.", kept, None)
    kind = "The alarm" if promise is None else f"An alarm set for {percent(promise)} false alarms"
    told = (
        failures_in_words(quality),
        lead_in_words(quality),
        late_in_words(quality),
        past_the_end(facts),
    )
    since = alarms_since(facts)
    return Statement(
        f"{kind} caught {percent(caught.value)} of failing runs in time.",
        f"{kept}Of the failing runs, {'; '.join(filter(None, told))}.{since.text}",
        False if since.broken else _worth(facts),
    )


def _no_alarm(facts: Facts) -> list[str]:
    """Why no alarm can be promised, and what to do."""
    missing = facts.shortfall
    if missing is None:
        assert facts.no_alarms is not None
        return [facts.no_alarms.told(argument_in_words)]
    sure = "" if facts.confidence is None else f" with {percent(facts.confidence)} confidence"
    return [
        f"a promise of {percent(missing.rate)} false alarms{sure} needs at least "
        f"{missing.needed:,} assure episodes that met the target, and there are {missing.has:,}",
        *shortfall_in_words(facts),
    ]


def _worth(facts: Facts) -> bool | None:
    """Whether the alarm keeps its promise; None if it comes late, or few good runs check it."""
    assert facts.alarms is not None
    quality, allowed, false = facts.alarms.quality, facts.allowed_rate, facts.false_alarms
    if allowed is not None and false.low > allowed:
        return False
    rate = facts.promised_rate
    checked = rate is None or false.n >= needed_successes(rate)
    likely = allowed is None or false.value <= allowed
    checked = checked and likely and not above_the_promise(facts)
    useful = quality.in_time.value >= 0.5 and facts.one_sided is None
    return True if checked and useful else None


def _sure(found: Measured) -> Statement:
    out, sure = found.ruled_out_wrongly(), found.assured_wrongly()
    ruled_out = int(np.count_nonzero(np.fmin.reduce(found.plausibility, axis=0) <= 0.05))
    assured = int(np.count_nonzero(np.fmax.reduce(found.assurance, axis=0) >= 0.95))
    if not ruled_out and not assured:
        return Statement(
            "It never ruled the target out, and never assured it.",
            "Both need much evidence. With more assure episodes they come more often.",
            None,
        )
    since = sure_since(found)
    kept = None if found.met.size < needed_successes(0.05) else max(out.low, sure.low) <= 0.05
    return Statement(
        f"It ruled the target out for {ruled_out:,} runs and was wrong for {out.count:,}; it "
        f"assured it for {assured:,} and was wrong for {sure.count:,}.",
        "Of all runs, at most 5\u00a0% may get a wrong call, on average over recordings; here "
        f"{percent(out.value)} and {percent(sure.value)} did.{since.text}",
        False if since.broken else kept,
    )
