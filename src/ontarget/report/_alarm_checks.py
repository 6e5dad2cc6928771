"""The checks of an alarm: the promise about false alarms, and the failures that it caught."""

from __future__ import annotations

import math
from typing import Final

from ontarget.errors import Argument, InputError
from ontarget.evaluation import AlarmQuality
from ontarget.report.check import Check, Mark, between, percent
from ontarget.report.facts import Facts, OfAlarm, counted_false
from ontarget.report.measured import RaisedAlarms

_LUCKY: Final = 2.0  # times as high as another recording's: a threshold that is much luck


def alarm_check(facts: Facts) -> Check:
    """Whether the alarm kept its promise about false alarms."""
    if facts.alarms is None:
        return Check("alarm", Mark.ACT, _no_alarm(facts), next=_use_of_alarm(facts))
    false, rate, state = facts.false_alarms, facts.promised_rate, facts.alarm
    marks = {OfAlarm.BROKEN: Mark.ACT, OfAlarm.KEPT: Mark.GOOD}
    said = f"{percent(false.value)} {_raised(facts)}, {_promised(facts)}"
    if rate is not None and false.value > rate and state is not OfAlarm.BROKEN:
        said += ", which is within chance" if false.low <= rate else ", which luck may explain"
    triggers = ", ".join(f"{trigger.threshold:.3g}" for trigger in facts.alarms.triggers)
    which = "" if facts.rule.of_all_runs else " that met the target"
    details = (
        f"alarm {facts.rule.relation} {facts.rule.compared_name} = {triggers}; false alarms in "
        f"{false.count:,} of {false.n:,} runs{which} ({between(false.low, false.high)})",
        _luck_of_the_promise(facts),
        useless(facts) if not facts.found.knows_both else "",
        threshold_luck(facts.alarms),
        _alarms_since(facts),
        f"{percent(1.0 - float(facts.found.met.mean()))} of runs miss this target, so an alarm is "
        "the normal state: look for the few runs without one, or choose a target that most runs "
        "meet"
        if facts.mostly_missed
        else "",
    )
    return Check(
        "alarm",
        marks.get(state, Mark.NEITHER),
        said,
        figure=false.value,
        interval=(false.low, false.high),
        next=_use_of_alarm(facts),
        details=tuple(filter(None, details)),
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
        return f"keep, {percent(false.value)} false alarms here, none promised"
    if facts.alarm is OfAlarm.BROKEN:
        return f"off, it raises far more false alarms than {percent(promised)}"
    if facts.changed:
        return "keep, but no rate is promised since the change"
    if facts.alarm is OfAlarm.ABOVE:
        return f"keep, expect {between(false.low, allowed)} false alarms"
    if facts.alarm is OfAlarm.FEW:
        return "keep, but too few runs can check its promise"
    caught = facts.alarms.quality.in_time
    few = f", but it catches only {percent(caught.value)} of failures in time"
    return "keep" + few * facts.catches_few


def _no_alarm(facts: Facts) -> str:
    """Why no alarm can be promised."""
    rate, missing = facts.asked_rate, facts.shortfall
    said = (
        f"no alarm{'' if rate is None else f' with {percent(rate)} false alarms'} can be promised"
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
        else f"{percent(now)} false alarms{_sure(facts)} can be promised now: pass "
        f"--false-alarm-rate {now:g}, or false_alarm_rate={now:g} in Python",
        f"for {percent(found.rate)}, fit on about {found.in_all:,} runs in all ({found.more:,} "
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
        return f"set for {percent(rate)}: measured, not promised"
    before = " before the change" * facts.changed
    return f"where at most {percent(rate)} were promised{_sure(facts)}{before}"


def _sure(facts: Facts, before: str = " ") -> str:
    sure = facts.confidence
    return "" if sure is None else f"{before}with {percent(sure)} confidence"


def useless(facts: Facts) -> str:
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
        f"the target, and so few can leave a true rate of up to {percent(allowed)}: only the "
        "average over many recordings is promised"
    )


def threshold_luck(alarms: RaisedAlarms) -> str:
    """How far the alarm's threshold depends on chance, with the remedy; empty if it does not."""
    behind = [one.promised or one.measured for one in alarms.triggers]
    found = [one.others for one in behind if one is not None and one.others is not None]
    told = [(f"{low:.3g}", f"{high:.3g}") for low, high in found]
    if all(low == high for low, high in told):
        return ""
    ends = ", ".join(f"{low} to {high}" for low, high in told)
    much = any(high > _LUCKY * low for low, high in found)
    return (
        f"another recording of this size would put the threshold at {ends} (9 in 10 times)"
        f"{': record more runs to leave less to luck' * much}"
    )


def _alarms_since(facts: Facts) -> str:
    """What the alarm did since the process changed; or that the runs may be mixed."""
    quality = facts.alarms_since
    if quality is None:
        return mixed(facts)
    false, caught = counted_false(facts.rule, quality), quality.in_time
    met, alarm = ("", "a false alarm") if facts.rule.of_all_runs else (" that met it", "an alarm")
    raised = (
        f"{false.count:,} of {false.n:,} runs{met} raised {alarm}, {percent(false.value)} "
        f"({between(false.low, false.high)})"
        if false.n
        else "no run met the target"
    )
    in_time = f", and {caught.count:,} of {caught.n:,} failing runs were caught in time"
    return f"since the change alone, {raised}{in_time * (caught.n > 0)}"


def mixed(facts: Facts) -> str:
    """That runs from before and after a change may be mixed; empty if they are not."""
    drift = facts.found.drifted
    if drift is None or not drift.changed or drift.since is not None:
        return ""
    return "when the change came is not known, so this may mix runs from before and after it"


def failures_check(facts: Facts) -> Check | None:
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
        f"{in_time.count:,} of {in_time.n:,} failures caught in time ({percent(in_time.value)}), "
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


def _argument_in_words(argument: Argument) -> str:
    """The name of an argument of the library, in words for people who call no function."""
    if argument.name != "false_alarm_rate" or not isinstance(argument.value, int | float | str):
        return f"{argument} (--{argument.name.replace('_', '-')})"
    return f"a promise of {percent(float(argument.value))} false alarms"
