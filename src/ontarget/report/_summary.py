"""An evaluation in a few lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from ontarget._numerals import percent
from ontarget.episodes.schema import unknown_in_words
from ontarget.errors import Argument, InputError, OntargetError
from ontarget.evaluation import AlarmQuality, Estimate
from ontarget.goal import Goal
from ontarget.report._facts import Facts, p_in_words
from ontarget.report.measured import RaisedAlarms
from ontarget.report.verdict import luck_in_words, useless_alarm

Told: TypeAlias = Callable[[OntargetError], str]
_GAP: Final = " " * 11
_LUCKY: Final = 2.0  # times as high as another recording's: a threshold that is much luck


def summary_of(facts: Facts, told: Told = str) -> str:
    """An evaluation in lines of text: warnings first, then the measures, then what the alarm did.

    ``told`` turns a message that names arguments of the library into text.
    """
    found = facts.found
    ece, raw = found.ece(), found.ece("raw")
    recorded = facts.recorded_rate
    # Of a goal, what is compared is p without the goal's own map: each law is calibrated.
    plain = "common map" if isinstance(found.target, Goal) else "uncalibrated"
    before = "" if recorded is None else f", by {_percent(recorded)} of the assure episodes"
    lines = [
        *_cautions(facts),
        f"target     {found.target}: met by {_percent(float(found.met.mean()))} of "
        f"{found.met.size:,} episodes{before}",
        f"p          {p_in_words(found)}",
        *_unanswered(facts),
        f"ECE        {ece.value:.4f} [{ece.low:.4f}, {ece.high:.4f}], chance alone "
        f"{ece.floor:.4f}; {plain} {raw.value:.4f}",
        f"Brier      {_interval(found.brier())}; {plain} {found.brier('raw').value:.4f}",
        f"log loss   {_interval(found.log_loss())}; {plain} {found.log_loss('raw').value:.4f}",
        *_drift(facts),
        f"at 5 %     ruled out wrongly {found.ruled_out_wrongly()}; assured wrongly "
        f"{found.assured_wrongly()}",
        *_alarm(facts, told),
    ]
    return "\n".join(lines)


def _unanswered(facts: Facts) -> list[str]:
    found = facts.found.unanswered
    if not found.steps:
        return []
    lines = [f"no answer  {found}", f"{_GAP}the figures below are about the other steps"]
    if found.episodes:
        s = "s" * (found.episodes != 1)
        lines[1] += f"; {found.episodes:,} episode{s} got no answer at all"
    return lines


def _drift(facts: Facts) -> list[str]:
    found = facts.found.drifted
    if found is None:
        return []
    first, *rest = found.in_short
    return [f"drift      {first}", *(f"{_GAP}{one}" for one in rest)]


def failures_in_words(quality: AlarmQuality) -> str:
    """How many failing runs raised their alarm in time, too late and never.

    Examples
    --------
    >>> from ontarget.evaluation import alarm_quality
    >>> failures_in_words(alarm_quality([2, 6, -1], [0, 0, 0], [9, 9, 9], decided=[5, 5, 9]))
    '1 of 3 caught in time (33.3 %), 1 alarmed too late, 1 never'
    """
    in_time = quality.in_time
    return (
        f"{in_time.count:,} of {in_time.n:,} caught in time ({_percent(in_time.value)}), "
        f"{quality.too_late.count:,} alarmed too late, {quality.never.count:,} never"
    )


def lead_in_words(quality: AlarmQuality) -> str:
    """Words on how early the alarms came that were in time; empty if none was in time."""
    if not quality.in_time.count:
        return ""
    steps = quality.median_lead_in_time
    s = "s" * (steps != 1)
    return (
        f"half of those caught in time had at least {steps:g} step{s} left before the outcome was "
        "decided"
    )


def thirds_in_words(alarms: RaisedAlarms, last_p: float) -> str:
    """Words on failures by when they were certain, and on p just before; empty if unknown."""
    told = []
    if sum(one.n > 0 for one in alarms.by_third) > 1:
        named = zip(("first", "middle", "last"), alarms.by_third, strict=True)
        shares = ", ".join(f"{k} {one.count:,} of {one.n:,}" for k, one in named if one.n)
        told.append(f"caught by the third of the run in which the target was lost: {shares}")
    if not math.isnan(last_p):
        told.append(f"half of the failures had p up to {last_p:.2g} at the last step before")
    return "; ".join(told)


def late_in_words(quality: AlarmQuality) -> str:
    """Advice if most alarms come too late; empty if they do not."""
    if quality.too_late.count <= quality.in_time.count:
        return ""
    return (
        "most alarms came too late: if your steps are far apart, log rows in between, such as one "
        "for each day that passes"
    )


def _cautions(facts: Facts) -> list[str]:
    found, lines = facts.found, []
    if found.fitted_on.size:
        lines.append(
            f"caution    it was fitted on {found.fitted_on.size:,} of these {found.met.size:,} "
            "episodes, so the figures look better than they are; measure on new episodes"
        )
    if found.episodes.unseen:
        lines.append(
            f"caution    {found.episodes.unseen:,} readings are of categories that no training "
            f"episode had and count as missing: {unknown_in_words(found.episodes.strangers)}"
        )
    if found.one_sided:
        lines.append(f"caution    {found.one_sided}")
    return lines


def _alarm(facts: Facts, told: Told) -> list[str]:
    if facts.alarms is None:
        assert facts.no_alarms is not None
        return [f"alarm      none: {told(facts.no_alarms)}"]
    quality, rule, rate = facts.alarms.quality, facts.rule, facts.promised_rate
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in facts.alarms.triggers)
    sure = "" if facts.confidence is None else f" with {_percent(facts.confidence)} confidence"
    promised = "" if rate is None else f" (promised {_percent(rate)}{sure})"
    if facts.only_measured and facts.asked_rate is not None:
        promised = f" (set for {_percent(facts.asked_rate)}: measured, not promised)"
    lines = [
        f"alarm      {rule.relation} {rule.compared_name} = {below}: "
        f"{_percent(facts.false_alarms.value)} {facts.counted}{promised}"
    ]
    useless = "" if facts.found.knows_both else useless_alarm(facts)
    told_more = (useless, luck_in_words(facts), *_luck(facts.alarms))
    lines += [f"{_GAP}{one}" for one in told_more if one]
    if not quality.detections.n:
        return [*lines, "failures   none"]
    lines.append(f"failures   {failures_in_words(quality)}")
    more = (
        lead_in_words(quality),
        thirds_in_words(facts.alarms, facts.found.last_p),
        late_in_words(quality),
        past_the_end(facts, told),
    )
    return [*lines, *(f"{_GAP}{one}" for one in more if one)]


def _luck(alarms: RaisedAlarms) -> list[str]:
    """Lines on how far the alarm's threshold depends on chance; empty if it does not.

    They say where the threshold would be with another recording of the same size.
    """
    behind = [one.promised or one.measured for one in alarms.triggers]
    found = [one.others for one in behind if one is not None and one.others is not None]
    if not found:
        return []
    told = [(f"{low:.3g}", f"{high:.3g}") for low, high in found]
    if all(low == high for low, high in told):
        return []
    ends = ", ".join(f"{low} to {high}" for low, high in told)
    lines = [f"another recording of this size would put the threshold at {ends} (9 in 10 times)"]
    if any(high > _LUCKY * low for low, high in found):
        lines.append("that leaves much to luck: record more runs")
    return lines


def past_the_end(facts: Facts, told: Told = str) -> str:
    """Words on how many alarms only seem to be in time, and which reward bounds would show it.

    ``told`` turns a message that names arguments of the library into text.
    """
    found = facts.reward_side
    if found is None:
        return ""
    remedy = InputError(Argument("reward_bounds", found.bounds))
    return (
        f"but {found.past:,} of those alarms came when the total had already left the target; if "
        f"no reward can be {found.side} 0, fit with {told(remedy)} to count them as too late"
    )


def _percent(share: float) -> str:
    return percent(share, fixed=True)


def _interval(estimate: Estimate[float]) -> str:
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"
