"""An evaluation as text for a terminal, and as JSON values for a program: both from its checks."""

from __future__ import annotations

import math
from typing import Any

from ontarget import _text
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import CalibrationEstimate, Estimate
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule
from ontarget.report.check import Mark
from ontarget.report.checks import checks_of
from ontarget.report.facts import Facts, facts_of
from ontarget.report.measured import Measured
from ontarget.report.verdict import verdict_of

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
    """How p (the probability of meeting the target) was calibrated, in words."""
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
