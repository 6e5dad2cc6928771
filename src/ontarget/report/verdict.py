"""The verdict on a monitor, and an evaluation as text and as JSON: all from its checks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ontarget import _text
from ontarget.conformal.levels import needed_successes
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import CalibrationEstimate, Estimate
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule
from ontarget.report._alarm_checks import useless
from ontarget.report.check import Mark, percent
from ontarget.report.checks import (
    AGAIN,
    FEATURES,
    NEW_CATEGORIES,
    ONE_SIDED,
    checks_of,
    fitted_on,
)
from ontarget.report.facts import Facts, OfAlarm, OfP, facts_of
from ontarget.report.measured import Measured


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


def verdict_of(facts: Facts) -> Verdict:
    """The verdict on p, on the promised alarm, and on targets that were called certain."""
    judgement, reason, asides = _judged(facts)
    missing, advice = facts.found.unanswered, _advice(facts)
    if facts.many_unanswered:
        judgement = Judgement.HELD_IN_PART if judgement is Judgement.HELD else judgement
        asides.append(f"no answer at {percent(missing.share)} of steps: {missing.why}")
        advice.append(missing.advice)
    return Verdict(judgement, reason, _joined(advice), _joined(asides))


def _judged(facts: Facts) -> tuple[Judgement, str, list[str]]:
    """The judgement, its reason, and what else is worth saying."""
    found, named = facts.found, {one.name: one for one in checks_of(facts)}
    p, alarm, certain = named["p"], named["alarm"], named["at 5 %"]
    if facts.seen:
        return Judgement.NOT_NEW, fitted_on(facts), []
    off, loud = facts.p is OfP.OFF, facts.alarm is OfAlarm.BROKEN
    broken = [p.said] if off else [named["drift"].said] if facts.worse else []
    broken += [alarm.said] * loud + [certain.said] * facts.sure_broken
    if broken:
        kept = "" if loud or facts.promised_rate is None else alarm.said
        return Judgement.NOT_HELD, ", and ".join(broken), [found.one_sided, kept]
    if not found.knows_both:
        alarmed = useless(facts) if facts.alarms is not None else ""
        return Judgement.TOO_FEW, found.one_sided, ["nothing can be said about failures", alarmed]
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
        return [ONE_SIDED]
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
        return ["the process may have changed, but that is no proof yet", AGAIN]
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
    wanted = [_more_runs(facts), "" if facts.useful else FEATURES]
    wanted += [AGAIN * facts.building, NEW_CATEGORIES * bool(seen)]
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


def _too_few(facts: Facts) -> str:
    false, n, rate = facts.false_alarms, facts.found.met.size, facts.promised_rate
    assert rate is not None
    there = f"only {false.n:,} of the {n:,} new runs met the target"
    if facts.rule.of_all_runs:
        there = f"there are only {false.n:,} new runs"
    return (
        f"{there}, and it takes {needed_successes(rate):,} to check a promise of {percent(rate)} "
        "false alarms"
    )


def _joined(told: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, told)))


_MARKS = {Mark.GOOD: "✓ ", Mark.ACT: "! ", Mark.NEITHER: ""}


def text_of(facts: Facts) -> str:
    """An evaluation in lines of text: the target, each check, and the measures."""
    found, recorded = facts.found, facts.recorded_rate
    before = "" if recorded is None else f", by {_percent(recorded)} of the assure runs"
    met = f"met by {_percent(float(found.met.mean()))} of {found.met.size:,} runs{before}"
    # Of a goal, what is compared is p without the goal's own map: each law is calibrated.
    plain = "common map" if isinstance(found.target, Goal) else "uncalibrated"
    ece, raw = found.ece(), found.ece("raw")
    lines = [("target", f"{found.target}: {met}"), ("map", p_in_words(found))]
    for one in checks_of(facts):
        lines += [(one.name, _MARKS[one.mark] + one.said)]
        lines += [("", detail) for detail in one.details]
        lines += [("", f"→ {one.next}")] if one.next else []
    lines += [
        ("ECE", f"{_interval(ece)}, chance alone {ece.floor:.4f}; {plain} {raw.value:.4f}"),
        (
            "Brier",
            f"{_interval(found.brier())}; {plain} {found.brier('raw').value:.4f}; by the step "
            f"alone {facts.error_of_the_rate:.4f}",
        ),
        ("log loss", f"{_interval(found.log_loss())}; {plain} {found.log_loss('raw').value:.4f}"),
    ]
    return "\n".join(f"{name:<10} {text}" for name, text in lines)


def json_of(found: Measured, rule: AlarmRule) -> dict[str, Any]:
    """An evaluation as plain JSON values: its checks, its verdict, and all measures."""
    facts = facts_of(found, rule)
    verdict, drift = verdict_of(facts), found.drifted
    parts = {
        name: {
            "target": str(part.target),
            "met": float(part.met.mean()),
            "brier": part.brier().value,
        }
        for name, part in found.parts.items()
    }
    measures: dict[str, Any] = {
        "target": str(found.target),
        "calibration": p_in_words(found),
        "episodes": int(found.met.size),
        "met": float(found.met.mean()),
        "fitted_on": int(found.fitted_on.size),
        "unseen": found.episodes.unseen,
        "unknown_categories": [one.to_json() for one in found.episodes.strangers],
        "unanswered": found.unanswered.to_json(),
        "one_sided": found.one_sided,
        "verdict": {
            "judgement": str(verdict.judgement),
            "reason": verdict.reason,
            "aside": verdict.aside,
            "advice": verdict.advice,
        },
        "checks": [one.to_json() for one in checks_of(facts)],
        **({"parts": parts} if parts else {}),
        **_measures(found, "p"),
        "raw": _measures(found, "raw"),
        "drift": None if drift is None else drift.to_json(),
        "median_last_p": _known(found.last_p),
        "ruled_out_wrongly": found.ruled_out_wrongly().value,
        "assured_wrongly": found.assured_wrongly().value,
    }
    return measures | _alarm(found, rule)


def p_in_words(found: Measured) -> str:
    """How p was calibrated, in words."""
    calibration, sizes = found.calibration, found.fitted.trained.sizes
    if calibration is not None:
        return calibration.in_words
    if "learn" in sizes:
        return f"by one map for all targets, from {sizes['learn']:,} learning episodes"
    return f"by the ranks of {sizes['calibrate']:,} calibration episodes, as in the paper"


def _measures(found: Measured, method: str) -> dict[str, Any]:
    return {
        "ece": found.ece(method)._asdict(),
        "brier": found.brier(method)._asdict(),
        "log_loss": found.log_loss(method)._asdict(),
    }


def _alarm(found: Measured, rule: AlarmRule) -> dict[str, Any]:
    try:
        raised = found.alarms(rule)
    except FewEpisodesError as error:
        return {"alarm": None, "alarm_reason": str(error)}
    quality = raised.quality
    rate, sure = getattr(rule, "rate", None), getattr(rule, "confidence", None)
    return {
        "alarm": {
            "promised": None if rate is None or raised.measured else float(rate),
            "confidence": None if sure is None else float(sure),
            "measured": float(rate) if rate is not None and raised.measured else None,
            "compared": rule.compared_name,
            "below": [trigger.threshold for trigger in raised.triggers],
            "false_alarm_rate": _known(quality.false_alarms.value),
            "detection_rate": _known(quality.detections.value),
            "in_time_rate": _known(quality.in_time.value),
            "too_late_rate": _known(quality.too_late.value),
            "never_rate": _known(quality.never.value),
            "median_lead_steps": _known(quality.median_lead_steps),
            "median_lead_in_time": _known(quality.median_lead_in_time),
            "in_time_by_third": [_known(one.value) for one in raised.by_third],
        }
    }


def _interval(estimate: Estimate[float] | CalibrationEstimate[float]) -> str:
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def _percent(share: float) -> str:
    return _text.percent(share, fixed=True)


def _known(value: float) -> float | None:
    """The number, or None in place of NaN (JSON has no NaN)."""
    return None if math.isnan(value) else value
