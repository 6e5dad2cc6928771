"""Advice in one line, drawn from the verdict: how to use p and the alarm, and what to do next."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ontarget._numerals import percent
from ontarget.conformal.planning import needed_successes
from ontarget.drift.change import DriftJudgement
from ontarget.report._enough import COARSE, enough_of
from ontarget.report._facts import Facts
from ontarget.report._since import alarms_since
from ontarget.report.verdict import (
    MANY_UNANSWERED,
    ONE_SIDED_ADVICE,
    Judgement,
    Verdict,
    above_the_promise,
    alarm_broken,
    verdict_of,
)

NEW_CATEGORIES: Final = "fit again once there are enough runs with the new categories"
_MOSTLY_MISSED = 0.2  # of runs that meet a target: with fewer, an alarm is the normal state
_USEFUL = 0.05  # by how much less a useful p errs than one that only knows the step


class Action(NamedTuple):
    """Advice in three phrases: on using p, on using the alarm, and on what to do next."""

    p: str
    alarm: str
    next: str


def action_of(facts: Facts) -> Action:
    """Advice that follows from the verdict and the findings on these facts."""
    found = verdict_of(facts)
    return Action(_p(facts, found), _alarm(facts, found), _next(facts, found))


def error_of_the_rate(facts: Facts) -> float:
    """The Brier score of a p that only knows the step.

    Such a p is the share of the runs at this step that meet the target. The score is an average
    over the same runs and steps as the Brier score of p. A p that does no better has learned
    nothing from the states and rewards of a run.
    """
    known = ~np.isnan(facts.found.p)
    n = known.sum(axis=1)
    met = (known & np.asarray(facts.found.met, dtype=np.bool_)).sum(axis=1)
    return float((met * (1.0 - met / np.maximum(n, 1))).sum() / n.sum())


def better_than_the_rate(facts: Facts) -> float | None:
    """By which share p's Brier score is below that of a p that only knows the step.

    None if at each step all runs met the target or none did.
    """
    other = error_of_the_rate(facts)
    return 1.0 - facts.found.brier().value / other if other > 0.0 else None


def is_useful(better: float) -> bool:
    """Whether p is useful, given how much smaller its Brier score is (`better_than_the_rate`)."""
    return better >= _USEFUL


def mostly_missed(facts: Facts) -> bool:
    """Whether so many runs miss the target that an alarm is the normal state."""
    return float(facts.found.met.mean()) < _MOSTLY_MISSED


def _p(facts: Facts, found: Verdict) -> str:
    drift, unclear, lean = facts.found.drifted, facts.unclear, facts.lean
    if found.judgement is Judgement.NOT_NEW:
        return "not judged, for it learned from these runs"
    if not facts.found.knows_both:
        return "do not use it, it has nothing to learn from"
    if drift is not None and drift.judgement is DriftJudgement.WORSE:
        return "do not use it, it is too high since the change"
    if facts.gap.beyond_chance:
        return f"do not use it yet, it is {facts.gap.way}"
    if not facts.found.met.any():
        return "not judged, for no run met the target"
    if facts.gap.chance > COARSE:
        way = f"it is probably {lean.way}" if lean.shows else "too few runs can judge it"
        return f"do not use it yet, {way}"
    if drift is not None and drift.changed and drift.latest.shows:
        side = "high" if drift.latest.too_high > 0.0 else "low"
        return f"read it as too {side} since the change"
    if unclear is not None and unclear.beyond_chance:
        return f"read it as {unclear.way} between 10 and 90 %"
    better = better_than_the_rate(facts)
    if better is not None and not is_useful(better):
        return "of little use, it hardly tells runs apart"
    missing = facts.found.unanswered.share
    if missing > MANY_UNANSWERED:
        return f"use it where it answers, {percent(missing)} of steps have no answer"
    return "use it"


def _alarm(facts: Facts, found: Verdict) -> str:
    rate, drift = facts.asked_rate, facts.found.drifted
    if found.judgement is Judgement.NOT_NEW:
        return "not judged"
    if facts.alarms is not None and not facts.found.knows_both:
        return "off, it is useless"
    if facts.alarms is None:
        now = None if facts.shortfall is None else facts.shortfall.possible
        at = "" if rate is None else f" at {percent(rate)}"
        return f"cannot be promised{at}" + ("" if now is None else f", {percent(now)} can")
    false, promised = facts.false_alarms, facts.promised_rate
    if promised is None:
        return f"keep, {percent(false.value)} false alarms here, none promised"
    if alarm_broken(facts) or alarms_since(facts).broken:
        return f"off, it raises far more false alarms than {percent(promised)}"
    if drift is not None and drift.changed:
        return "keep, but no rate is promised since the change"
    if above_the_promise(facts) and facts.allowed_rate is not None:
        return f"keep, expect {percent(false.low)} to {percent(facts.allowed_rate)} false alarms"
    if false.n < needed_successes(promised):
        return "keep, but too few runs can check its promise"
    caught = facts.alarms.quality.in_time
    if caught.n and caught.value < 0.5:
        return f"keep, but it catches only {percent(caught.value)} of failures in time"
    return "keep"


def _next(facts: Facts, found: Verdict) -> str:
    drift = facts.found.drifted
    if found.judgement is Judgement.NOT_NEW:
        return "evaluate it on new runs only"
    if not facts.found.knows_both:
        return ONE_SIDED_ADVICE
    if drift is not None and drift.changed:
        if drift.suspect:
            return "compare with a monitor that was fitted with another seed"
        if drift.latest.shows:  # recalibrating alone renews promises, not p
            return "recalibrate and renew p, or fit again, on runs that start from now on"
        return "fit again, or recalibrate, on runs that start from now on"
    building = drift is not None and drift.judgement is DriftJudgement.BUILDING
    again = "evaluate again once more runs have ended"
    if found.judgement is Judgement.NOT_HELD:
        if building:
            return again
        return (
            "fit again on recent runs"
            if drift is None
            else "look for a missing feature, or fit on more runs"
        )
    if not facts.found.met.any():
        return "choose a target that some runs meet"
    wanted = " and ".join(_wanted(facts, found))
    if wanted and mostly_missed(facts):
        return f"choose a target that more runs meet, or {wanted}"
    return wanted or (again if building else "nothing")


def _wanted(facts: Facts, found: Verdict) -> list[str]:
    """Advice to get more runs or better features, a clause each; empty if none is needed."""
    missing, unclear, told = facts.shortfall, facts.unclear, []
    enough = enough_of(facts)
    if not (found.judgement is Judgement.TOO_FEW and facts.gap.chance > COARSE):
        enough = enough._replace(fit=0, evaluate=0)
    if missing is not None:
        enough = enough._replace(fit=max(enough.fit, missing.in_all))
    if enough.in_words:
        told.append(enough.in_words)
    elif found.judgement is Judgement.TOO_FEW:
        told.append("evaluate on more runs")
    elif facts.alarms is None:
        told.append("record more runs that meet the target")
    elif unclear is not None and unclear.beyond_chance:
        told.append("fit on more runs")
    elif above_the_promise(facts):
        told.append("recalibrate on more runs")
    better = better_than_the_rate(facts)
    if better is not None and not is_useful(better):
        told.append("look for features that tell earlier how a run will end")
    if facts.found.unanswered.share > MANY_UNANSWERED:
        told.append(facts.found.unanswered.advice)
    return told + [NEW_CATEGORIES] * bool(facts.found.episodes.unseen)
