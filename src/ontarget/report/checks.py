"""The checks of an evaluation: what was found, with figure and interval, and what to do about it.

Text, HTML and JSON render the same list. `ontarget.report.facts` decides each condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from ontarget import _numerals
from ontarget.conformal.planning import needed_successes
from ontarget.drift.change import UNKNOWN_ORDER
from ontarget.episodes.schema import unknown_in_words
from ontarget.errors import Argument, InputError
from ontarget.evaluation import AlarmQuality, pool, reliability
from ontarget.goal import Goal
from ontarget.report.facts import CERTAIN, Facts, OfAlarm, OfP, counted_false
from ontarget.report.measured import Measured, RaisedAlarms

_ONE_SIDED = "record runs of the other kind, or choose a target that only some runs meet"
_NEW_CATEGORIES = "fit again once there are enough runs with the new categories"
_AGAIN = "evaluate again once more runs have ended"
_ASKED = (0.8, 0.7, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_NEAR, _ENOUGH = 0.05, 30  # forecasts so near to the p that a sentence is about, and so many
_LUCKY: Final = 2.0  # times as high as another recording's: a threshold that is much luck


class Mark(StrEnum):
    """What a check says at a glance."""

    GOOD = "good"
    ACT = "act"
    NEITHER = "neither"


class Check(NamedTuple):
    """One thing that was checked on new runs.

    ``said`` and ``next`` are clauses: what was found, and what to do now (empty for nothing).
    ``details`` are more clauses about what was found.
    """

    name: str
    mark: Mark
    said: str
    figure: float | None = None
    interval: tuple[float, float] | None = None
    next: str = ""
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        ends = None if self.interval is None else [_known(end) for end in self.interval]
        return {
            "name": self.name,
            "mark": str(self.mark),
            "said": self.said,
            "figure": None if self.figure is None else _known(self.figure),
            "interval": ends,
            "next": self.next,
            "details": list(self.details),
        }


class Judgement(StrEnum):
    """The possible results of checking on new runs whether a monitor's p and promises held."""

    HELD = "held"
    HELD_IN_PART = "held where it answered"  # more than 1 % of the steps have no answer
    NOT_HELD = "not held"
    TOO_FEW = "too few runs to say"
    NOT_NEW = "cannot say"


@dataclass(frozen=True)
class Verdict:
    """Whether p and the promises held on new runs, and why; prints as one sentence.

    p is the probability of meeting the target.

    Examples
    --------
    >>> print(Verdict(Judgement.HELD, "p came true as often as it said"))
    held: p came true as often as it said
    """

    judgement: Judgement
    reason: str
    advice: str = ""
    aside: str = ""  # what held all the same, and what the reason leaves out

    def __str__(self) -> str:
        aside = f" ({self.aside})" * bool(self.aside)
        return f"{self.judgement}: {self.reason}{aside}{'; ' * bool(self.advice)}{self.advice}"


def checks_of(facts: Facts) -> list[Check]:
    """All checks, the most important first; those with nothing to tell are left out."""
    each = (
        _seen(facts),
        _one_sided(facts),
        *((_drift(facts), _p(facts)) if facts.changed else (_p(facts),)),
        _sharpness(facts),
        _alarm(facts),
        _failures(facts),
        _certain(facts),
        None if facts.changed else _drift(facts),
        _unanswered(facts),
        _categories(facts),
    )
    # What looks good on the runs of the fit is no finding, nor what does over a change.
    doubtful = facts.seen or facts.changed or not facts.found.knows_both
    return [
        one._replace(mark=Mark.NEITHER) if doubtful and one.mark is Mark.GOOD else one
        for one in each
        if one is not None
    ]


def verdict_of(facts: Facts) -> Verdict:
    """The verdict on p, on the promised alarm, and on targets that were called certain.

    What chance alone may explain does not count against the monitor: chance in the evaluated runs,
    and in the recorded ones that calibrated p or set the alarm.
    """
    judgement, reason, asides = _judged(facts)
    missing, advice = facts.found.unanswered, _advice(facts)
    if facts.many_unanswered:
        judgement = Judgement.HELD_IN_PART if judgement is Judgement.HELD else judgement
        asides.append(f"no answer at {_percent(missing.share)} of steps: {missing.why}")
        advice.append(missing.advice)
    return Verdict(judgement, reason, _joined(advice), _joined(asides))


def _judged(facts: Facts) -> tuple[Judgement, str, list[str]]:
    """The judgement, its reason, and what else is worth saying."""
    found, p, alarm, certain = facts.found, _p(facts), _alarm(facts), _certain(facts)
    if facts.seen:
        return Judgement.NOT_NEW, _fitted_on(facts), []
    off = facts.p is OfP.OFF or facts.worse
    loud = facts.alarm is OfAlarm.BROKEN
    broken = [p.said] * off + [alarm.said] * loud + [certain.said] * facts.sure_broken
    if broken:
        kept = "" if loud or facts.promised_rate is None else alarm.said
        return Judgement.NOT_HELD, ", and ".join(broken), [found.one_sided, kept]
    if not found.knows_both:
        useless = _useless(facts) if facts.alarms is not None else ""
        return Judgement.TOO_FEW, found.one_sided, ["nothing can be said about failures", useless]
    if facts.p in (OfP.NONE_MET, OfP.COARSE):
        return Judgement.TOO_FEW, p.said, []
    if facts.alarm is OfAlarm.FEW:
        return Judgement.TOO_FEW, _too_few(facts), []
    none = "no new run missed the target, so nothing can be said about failures"
    return Judgement.HELD, f"{p.said}, and {alarm.said}", [none] if found.met.all() else []


def _advice(facts: Facts) -> list[str]:
    """What to do next, the most important first; empty for nothing."""
    drift, seen = facts.found.drifted, facts.found.episodes.unseen
    if facts.seen:
        return ["evaluate it on new runs only"]
    if not facts.found.knows_both:
        return [_ONE_SIDED]
    if drift is not None and drift.changed:
        if drift.suspect:
            return ["compare with a monitor that was fitted with another seed"]
        renew = "recalibrate with renew_p=True (--renew-p)" if facts.moved else "recalibrate"
        n = len(drift.later) if drift.covers_both else 0
        which = f"the {n:,} runs since the change" if n else "runs since the change"
        return [
            f"{renew} or fit again, on runs that start from now on",
            f"{which} may teach p, but no promise may be based on runs that showed the change",
        ]
    broken = facts.p is OfP.OFF or facts.alarm is OfAlarm.BROKEN or facts.sure_broken
    if broken and facts.building:
        return ["the process may have changed, but that is no proof yet", _AGAIN]
    if broken:
        return [
            "these runs differ from those the monitor learned from, or the model is wrong: fit "
            "again on recent runs, or look for a missing feature"
            if drift is None
            else "no change of the process shows, so the model itself may be wrong: look for a "
            "missing feature, or fit on more runs"
        ]
    if facts.p is OfP.NONE_MET:
        return ["choose a target that some runs meet"]
    wanted = [_more_runs(facts), "" if facts.useful else _sharpness(facts).next]
    wanted += [_AGAIN * facts.building, _NEW_CATEGORIES * bool(seen)]
    if any(wanted) and facts.mostly_missed:
        wanted.insert(0, "choose a target that more runs meet")
    return wanted


def _more_runs(facts: Facts) -> str:
    """Advice to get more runs, and how many; empty if none are needed."""
    fit, evaluate = facts.enough if facts.p is OfP.COARSE else (0, 0)
    fit = max(fit, 0 if facts.shortfall is None else facts.shortfall.in_all)
    n = facts.found.met.size
    numbers = (
        f"fit on about {fit:,} runs in all ({fit - facts.recorded:,} more)" * (fit > 0),
        f"evaluate on about {evaluate:,} new runs in all ({evaluate - n:,} more)" * (evaluate > 0),
    )
    if any(numbers):
        return " and ".join(filter(None, numbers))
    if facts.alarm is OfAlarm.NONE:
        return "record more runs that meet the target"
    if facts.p is OfP.OFF_BETWEEN:
        return "fit on more runs"
    more = {OfAlarm.FEW: "evaluate on more runs", OfAlarm.ABOVE: "recalibrate on more runs"}
    return more.get(facts.alarm, "")


def _fitted_on(facts: Facts) -> str:
    n = facts.found.met.size
    return f"the monitor was fitted on {facts.found.fitted_on.size:,} of these {n:,} runs"


def _seen(facts: Facts) -> Check | None:
    if not facts.seen:
        return None
    said = f"{_fitted_on(facts)}, so all figures look better than they are"
    return Check("runs", Mark.ACT, said, next="evaluate it on new runs only")


def _one_sided(facts: Facts) -> Check | None:
    if not facts.found.one_sided:
        return None
    little = "a p close to 0 or 1 then says little about a new run, and neither does an alarm on p"
    return Check("learning", Mark.ACT, facts.found.one_sided, next=_ONE_SIDED, details=(little,))


def _p(facts: Facts) -> Check:
    """Whether p came true, over all forecasts together."""
    found, gap, lean, unclear = facts.found, facts.gap, facts.lean, facts.unclear
    both = ", over runs before and after the change" * facts.covers_both
    off = f"off by {in_points(gap.off)}"
    chance = f"chance alone explains {100 * gap.chance:.1f}"
    mark = Mark.NEITHER
    if facts.p is OfP.OFF or facts.worse:
        mark, said = Mark.ACT, f"p was {off} ({gap.way}) on average{both}; {chance}"
    elif facts.p is OfP.NONE_MET:
        said = f"none of the {found.met.size:,} new runs met the target"
    elif facts.p is OfP.COARSE:
        said = (
            f"chance alone could put p off by {in_points(gap.chance)}, with {found.met.size:,} new "
            f"runs, and {gap.n:,} recorded runs behind a typical forecast"
        )
        if lean.shows:
            said = f"p looks {in_points(abs(lean.too_high))} {lean.way} on average, but {said}"
    elif facts.p is OfP.OFF_BETWEEN and unclear is not None:
        mark = Mark.ACT
        said = (
            f"p was right on average ({off}; {chance}), but {in_points(abs(unclear.too_high))} "
            f"{unclear.way} where it lay between 10 and 90 %, more than chance explains"
        )
    else:
        mark = Mark.GOOD
        said = f"p came true as often as it said ({off} on average{both}; {chance})"
    return Check(
        "p",
        mark,
        said,
        figure=gap.off,
        interval=(found.ece().low, found.ece().high),
        next=_use_of_p(facts),
        details=tuple(filter(None, (_example(found), *_between(facts), *_ways(facts)))),
    )


def _use_of_p(facts: Facts) -> str:
    """What to do with p now."""
    found, drift, lean = facts.found, facts.found.drifted, facts.lean
    if facts.seen:
        return "not judged, for it learned from these runs"
    if not found.knows_both:
        return "do not use it, it has nothing to learn from"
    if facts.worse:
        return "do not use it, it is too high since the change"
    if facts.p is OfP.OFF:
        return f"do not use it yet, it is {facts.gap.way}"
    if facts.p is OfP.NONE_MET:
        return "not judged, for no run met the target"
    if facts.p is OfP.COARSE:
        way = f"it is probably {lean.way}" if lean.shows else "too few runs can judge it"
        return f"do not use it yet, {way}"
    if facts.moved and drift is not None:
        return f"read it as too {'high' if drift.latest.too_high > 0.0 else 'low'} since the change"
    if facts.p is OfP.OFF_BETWEEN and facts.unclear is not None:
        return f"read it as {facts.unclear.way} between 10 and 90 %"
    if not facts.useful:
        return "of little use, it hardly tells runs apart"
    if facts.many_unanswered:
        return (
            f"use it where it answers, {_percent(found.unanswered.share)} of steps have no answer"
        )
    return "use it"


def _example(found: Measured) -> str:
    """What came of forecasts of about 80 %, or of another p of which there are enough."""
    pooled = pool(found.p, found.met)
    for asked in _ASKED:
        near = np.abs(pooled.p - asked) <= _NEAR
        if np.count_nonzero(near) < _ENOUGH:
            continue
        episodes = pooled.episode[near]
        one = reliability(pooled.p[near], pooled.met[near], 1, episode=episodes).at(asked)
        return (
            f"when it said about {_percent(asked)}, {_percent(one.rate_met)} of runs met the "
            f"target (95 % interval {between(one.low, one.high)}; {one.n:,} forecasts in "
            f"{np.unique(episodes).size:,} runs)"
        )
    return ""


def _between(facts: Facts) -> Iterable[str]:
    """On forecasts between 10 and 90 %, if these are few."""
    unclear = facts.unclear
    if unclear is None or unclear.runs < 2:
        return
    yield (
        f"judged mostly on clear cases: {_percent(unclear.share)} of forecasts, in "
        f"{unclear.runs:,} of {facts.found.met.size:,} runs, had p between 10 and 90 %; there, p "
        f"was {100 * abs(unclear.too_high):.1f} points {unclear.way}, and chance alone explains "
        f"{100 * unclear.chance:.1f}"
    )


def _ways(facts: Facts) -> Iterable[str]:
    """On an error of p: over which runs it is, and what calibration did to it."""
    gap, raw = facts.gap, facts.found.ece("raw").value
    recorded = facts.recorded_rate
    since = facts.since
    if since is not None:
        yield (
            f"over all steps of the {since.runs:,} runs since the change, p was "
            f"{100 * abs(since.too_high):.1f} points {since.way} on average"
        )
    if facts.p is OfP.OFF and recorded is not None:
        yield (
            f"{_percent(float(facts.found.met.mean()))} of these runs met the target, and "
            f"{_percent(recorded)} of the assure runs"
        )
    if gap.off - raw > gap.chance:
        it = "the goal's own map" if isinstance(facts.found.target, Goal) else "calibration"
        yield f"{it} made p worse on these runs, by {in_points(gap.off - raw)}"


def _sharpness(facts: Facts) -> Check:
    """Whether p tells apart runs that meet the target and runs that miss it."""
    better, found = facts.better, facts.found
    if better is None:
        said = "all runs at the same step ended alike, so nothing could be told apart"
        return Check("sharpness", Mark.NEITHER, said)
    less = f"{_percent(abs(better), 0)} {'less' if better >= 0.0 else 'more'}"
    said = f"p errs {less} than if all runs at the same step got the same answer"
    rate = facts.error_of_the_rate
    mark, remedy = Mark.NEITHER, ""
    if facts.useful and facts.p in (OfP.RIGHT, OfP.OFF_BETWEEN):
        mark = Mark.GOOD
    elif not facts.useful:
        said = f"it hardly tells runs apart: {said}"
        if facts.p is not OfP.OFF:
            remedy = "look for features that tell earlier how a run will end"
    errors = f"Brier score {found.brier().value:.4f}, of the step's share alone {rate:.4f}"
    return Check("sharpness", mark, said, figure=better, next=remedy, details=(errors,))


def _alarm(facts: Facts) -> Check:
    """Whether the alarm kept its promise about false alarms."""
    if facts.alarms is None:
        return Check("alarm", Mark.ACT, _no_alarm(facts), next=_use_of_alarm(facts))
    false, rate, state = facts.false_alarms, facts.promised_rate, facts.alarm
    marks = {OfAlarm.BROKEN: Mark.ACT, OfAlarm.KEPT: Mark.GOOD}
    said = f"{_percent(false.value)} {_raised(facts)}, {_promised(facts)}"
    if rate is not None and false.value > rate and state is not OfAlarm.BROKEN:
        said += ", which is within chance" if false.low <= rate else ", which luck may explain"
    triggers = ", ".join(f"{trigger.threshold:.3g}" for trigger in facts.alarms.triggers)
    which = "" if facts.rule.of_all_runs else " that met the target"
    details = (
        f"alarm {facts.rule.relation} {facts.rule.compared_name} = {triggers}; false alarms in "
        f"{false.count:,} of {false.n:,} runs{which} ({between(false.low, false.high)})",
        _luck_of_the_promise(facts),
        _useless(facts) if not facts.found.knows_both else "",
        *threshold_luck(facts.alarms),
        _alarms_since(facts),
        f"{_percent(1.0 - float(facts.found.met.mean()))} of runs miss this target, so an alarm is "
        "the normal state: look for the few runs without one, or choose a target that most runs "
        "meet" * facts.mostly_missed,
    )
    return Check(
        "alarm",
        marks.get(state, Mark.NEITHER),
        said,
        figure=false.value,
        interval=(false.low, false.high),
        next=_use_of_alarm(facts),
        details=tuple(filter(None, details if facts.mostly_missed else details[:-1])),
    )


def _use_of_alarm(facts: Facts) -> str:
    """What to do with the alarm now."""
    if facts.alarms is None:
        return "; ".join(_instead(facts))
    if facts.seen:
        return "not judged"
    if not facts.found.knows_both:
        return "off, it is useless"
    false, promised, allowed = facts.false_alarms, facts.promised_rate, facts.allowed_rate
    if promised is None or allowed is None:
        return f"keep, {_percent(false.value)} false alarms here, none promised"
    if facts.alarm is OfAlarm.BROKEN:
        return f"off, it raises far more false alarms than {_percent(promised)}"
    if facts.changed:
        return "keep, but no rate is promised since the change"
    if facts.alarm is OfAlarm.ABOVE:
        return f"keep, expect {between(false.low, allowed)} false alarms"
    if facts.alarm is OfAlarm.FEW:
        return "keep, but too few runs can check its promise"
    caught = facts.alarms.quality.in_time
    few = f", but it catches only {_percent(caught.value)} of failures in time"
    return "keep" + few * facts.catches_few


def _no_alarm(facts: Facts) -> str:
    """Why no alarm can be promised."""
    rate, missing = facts.asked_rate, facts.shortfall
    said = (
        f"no alarm{'' if rate is None else f' with {_percent(rate)} false alarms'} can be promised"
    )
    if missing is None:
        assert facts.no_alarms is not None
        return f"{said}: {facts.no_alarms.told(_argument_in_words)}"
    return (
        f"{said}: it takes {missing.needed:,} assure runs that met the target"
        f"{_sure(facts, ', ')}, and there are {missing.has:,}"
    )


def _instead(facts: Facts) -> list[str]:
    """What to do if the alarm that was asked for cannot be promised."""
    found = facts.shortfall
    limit = (
        "set a limit on p of your own, which promises nothing: --alarm-below P, or alarm_below=P"
    )
    if found is None:
        return [limit]
    now = found.possible
    return [
        limit
        if now is None
        else f"{_percent(now)} false alarms{_sure(facts)} can be promised now: pass "
        f"--false-alarm-rate {now:g}, or false_alarm_rate={now:g} in Python",
        f"for {_percent(found.rate)}, fit on about {found.in_all:,} runs in all ({found.more:,} "
        "more)",
    ]


def _raised(facts: Facts) -> str:
    """Of which runs the false alarms are a share."""
    return (
        "of all runs raised a false alarm"
        if facts.rule.of_all_runs
        else "of good runs raised an alarm"
    )


def _promised(facts: Facts) -> str:
    """Which rate was promised, or set."""
    rate = facts.asked_rate
    if rate is None:
        return "and nothing was promised"
    if facts.promised_rate is None:
        return f"set for {_percent(rate)}: measured, not promised"
    before = " before the change" * facts.changed
    return f"where at most {_percent(rate)} were promised{_sure(facts)}{before}"


def _sure(facts: Facts, before: str = " ") -> str:
    sure = facts.confidence
    return "" if sure is None else f"{before}with {_percent(sure)} confidence"


def _too_few(facts: Facts) -> str:
    false, n, rate = facts.false_alarms, facts.found.met.size, facts.promised_rate
    assert rate is not None
    there = f"only {false.n:,} of the {n:,} new runs met the target"
    if facts.rule.of_all_runs:
        there = f"there are only {false.n:,} new runs"
    return (
        f"{there}, and it takes {needed_successes(rate):,} to check a promise of {_percent(rate)} "
        "false alarms"
    )


def _useless(facts: Facts) -> str:
    """That the alarm is useless, because p has nothing to learn from."""
    assert facts.alarms is not None
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in facts.alarms.triggers)
    return f"an alarm {facts.rule.relation} {facts.rule.compared_name} = {below} is useless"


def _luck_of_the_promise(facts: Facts) -> str:
    """How luck may explain more false alarms than promised; empty if it need not or cannot."""
    rate, allowed = facts.promised_rate, facts.allowed_rate
    if facts.alarms is None or rate is None or allowed is None or facts.changed:
        return ""
    if facts.alarm is OfAlarm.BROKEN or facts.false_alarms.value <= rate:
        return ""
    promises = [one.promised for one in facts.alarms.triggers if one.promised is not None]
    return (
        f"the threshold was set with only {min(one.m for one in promises):,} assure runs that met "
        f"the target, and so few can leave a true rate of up to {_percent(allowed)}: only the "
        "average over many recordings is promised"
    )


def threshold_luck(alarms: RaisedAlarms) -> list[str]:
    """How far the alarm's threshold depends on chance, with the remedy; empty if it does not."""
    behind = [one.promised or one.measured for one in alarms.triggers]
    found = [one.others for one in behind if one is not None and one.others is not None]
    told = [(f"{low:.3g}", f"{high:.3g}") for low, high in found]
    if all(low == high for low, high in told):
        return []
    ends = ", ".join(f"{low} to {high}" for low, high in told)
    lines = [f"another recording of this size would put the threshold at {ends} (9 in 10 times)"]
    if any(high > _LUCKY * low for low, high in found):
        lines.append("that leaves much to luck: record more runs")
    return lines


def _alarms_since(facts: Facts) -> str:
    """What the alarm did since the process changed; or that the runs may be mixed."""
    quality = facts.alarms_since
    if quality is None:
        return _mixed(facts)
    false, caught = counted_false(facts.rule, quality), quality.in_time
    met, alarm = ("", "a false alarm") if facts.rule.of_all_runs else (" that met it", "an alarm")
    raised = (
        f"{false.count:,} of {false.n:,} runs{met} raised {alarm}, {_percent(false.value)} "
        f"({between(false.low, false.high)})"
        if false.n
        else "no run met the target"
    )
    in_time = f", and {caught.count:,} of {caught.n:,} failing runs were caught in time"
    return f"since the change alone, {raised}{in_time * (caught.n > 0)}"


def _mixed(facts: Facts) -> str:
    drift = facts.found.drifted
    if drift is None or not drift.changed or drift.since is not None:
        return ""
    return "when the change came is not known, so this may mix runs from before and after it"


def _failures(facts: Facts) -> Check | None:
    """How many failures the alarm caught, and how early."""
    if facts.alarms is None:
        return None
    quality, last = facts.alarms.quality, facts.found.last_p
    if not quality.detections.n:
        return Check("failures", Mark.NEITHER, "no run failed, so no alarm was needed")
    steps = quality.median_lead_in_time
    thirds = zip(("first", "middle", "last"), facts.alarms.by_third, strict=True)
    shares = ", ".join(f"{k} {one.count:,} of {one.n:,}" for k, one in thirds if one.n)
    details = [
        f"half of those caught in time had at least {steps:g} step{'s' * (steps != 1)} left before "
        "the outcome was decided"
        if quality.in_time.count
        else "",
        f"caught by the third of the run in which the target was lost: {shares}"
        if "," in shares
        else "",
        ""
        if math.isnan(last)
        else f"half of the failures had p up to {last:.2g} at the last step before",
        past_the_end(facts),
    ]
    log = "if your steps are far apart, log rows in between, such as one for each day that passes"
    caught = quality.in_time
    good = not facts.catches_few and not facts.mostly_late
    return Check(
        "failures",
        Mark.GOOD if good else Mark.NEITHER,
        failures_in_words(quality),
        figure=caught.value,
        interval=(caught.low, caught.high),
        next=f"most alarms came too late: {log}" * facts.mostly_late,
        details=tuple(filter(None, details)),
    )


def failures_in_words(quality: AlarmQuality) -> str:
    """How many failing runs raised their alarm in time, too late and never.

    Examples
    --------
    >>> from ontarget.evaluation import alarm_quality
    >>> failures_in_words(alarm_quality([2, 6, -1], [0, 0, 0], [9, 9, 9], decided=[5, 5, 9]))
    '1 of 3 failures caught in time (33.3 %), 1 alarmed too late, 1 never'
    """
    in_time = quality.in_time
    return (
        f"{in_time.count:,} of {in_time.n:,} failures caught in time ({_percent(in_time.value)}), "
        f"{quality.too_late.count:,} alarmed too late, {quality.never.count:,} never"
    )


def past_the_end(facts: Facts) -> str:
    """How many alarms only seem to be in time, and which reward bounds would show it."""
    found = facts.reward_side
    if found is None:
        return ""
    low, high = (("" if math.isinf(end) else f"{end:g}") for end in found.bounds)
    remedy = InputError(Argument("reward_bounds", found.bounds))
    return (
        f"but {found.past:,} of those alarms came when the total had already left the target; if "
        f"no reward can be {found.side} 0, fit with {remedy} (--reward-bounds {low}:{high}) to "
        "count them as too late"
    )


def _certain(facts: Facts) -> Check:
    """Whether targets that were ruled out or assured were so at most once in twenty runs."""
    found, n = facts.found, facts.found.met.size
    ruled_out = int(np.count_nonzero(np.fmin.reduce(found.plausibility, axis=0) <= CERTAIN))
    assured = int(np.count_nonzero(np.fmax.reduce(found.assurance, axis=0) >= 1.0 - CERTAIN))
    worst = max(facts.sure, key=lambda one: one.value)
    out, sure = (f"{one.count:,}" for one in facts.sure)
    said = (
        f"target ruled out for {ruled_out:,} of {n:,} runs, wrongly for {out}; assured for "
        f"{assured:,}, wrongly for {sure} (at most 5 % of all runs may be wrong)"
    )
    if facts.sure_broken:
        said = f"called certain wrongly too often: {said}"
    since = facts.sure_since
    later = _mixed(facts)
    if since is not None:
        later = (
            f"since the change alone, wrongly for {since[0].count:,} and {since[1].count:,} of "
            f"{since[0].n:,} runs"
        )
    enough = n >= needed_successes(CERTAIN) and ruled_out + assured > 0
    mark = Mark.ACT if facts.sure_broken else Mark.GOOD if enough else Mark.NEITHER
    ends = (worst.low, worst.high)
    return Check("at 5 %", mark, said, worst.value, ends, details=(later,) if later else ())


def _drift(facts: Facts) -> Check | None:
    """Whether the process has changed since it was recorded; None if that cannot be told."""
    drift = facts.found.drifted
    if drift is None:
        return None
    first, *rest = drift.in_short
    if drift.changed:
        if drift.covers_both:
            rest.append(
                "figures that do not say otherwise cover the runs before and after it together"
            )
        rest += [drift.change.in_words, f"the test: {drift.change.test}"]
    if drift.order not in ("", UNKNOWN_ORDER) and not any(drift.order in one for one in rest):
        rest.append(f"the order of the runs is {drift.order}")
    return Check(
        "drift",
        Mark.ACT if drift.changed else Mark.NEITHER,
        first,
        figure=drift.latest.too_high,
        interval=(drift.latest.low, drift.latest.high),
        next=_AGAIN if facts.building else "",
        details=tuple(rest),
    )


def _unanswered(facts: Facts) -> Check | None:
    """At how many steps there was no answer, and why; None if every step has one."""
    missing = facts.found.unanswered
    if not missing.steps:
        return None
    n = missing.episodes
    details = ["all figures are about the other steps"]
    if n:
        details.append(f"{n:,} run{'s' * (n != 1)} got no answer at all")
    mark = Mark.ACT if facts.many_unanswered else Mark.NEITHER
    remedy = missing.advice if facts.many_unanswered else ""
    said = str(missing)
    return Check("no answer", mark, said, missing.share, next=remedy, details=tuple(details))


def _categories(facts: Facts) -> Check | None:
    """Which values are categories that the monitor does not know; None if there are none."""
    episodes = facts.found.episodes
    if not episodes.unseen:
        return None
    said = (
        f"{episodes.unseen:,} readings are of categories that no training run had: "
        f"{unknown_in_words(episodes.strangers)}"
    )
    missing = "they count as missing, so p there rests on the other features"
    return Check("categories", Mark.ACT, said, next=_NEW_CATEGORIES, details=(missing,))


def _argument_in_words(argument: Argument) -> str:
    """The name of an argument of the library, in words for people who call no function."""
    if argument.name != "false_alarm_rate" or not isinstance(argument.value, int | float | str):
        return str(argument)
    return f"a promise of {_percent(float(argument.value))} false alarms"


def between(low: float, high: float) -> str:
    """A range of shares as text, such as "3 % to 7 %"."""
    return f"{_percent(low)} to {_percent(high)}"


def in_points(share: float) -> str:
    """A share as text in percentage points."""
    return f"{100 * share:.1f} percentage points"


def _percent(share: float, digits: int = 1) -> str:
    """A percentage with an ordinary space, so that a text search finds it in terminals and logs."""
    return _numerals.percent(share, digits).replace("\u00a0", " ")


def _joined(told: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, told)))


def _known(value: float) -> float | None:
    """The number, or None if it is not finite (JSON has no NaN)."""
    return value if math.isfinite(value) else None
