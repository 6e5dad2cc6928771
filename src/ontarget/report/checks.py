"""The checks of an evaluation: what was found, with figure and interval, and what to do about it.

Text, HTML and JSON render the same list. `ontarget.report.facts` decides each condition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from ontarget.conformal.levels import needed_successes
from ontarget.drift.change import UNKNOWN_ORDER
from ontarget.episodes.schema import unknown_in_words
from ontarget.evaluation import pool, reliability
from ontarget.goal import Goal
from ontarget.report._alarm_checks import alarm_check, failures_check, mixed
from ontarget.report.check import Check, Mark, between, in_points, percent
from ontarget.report.facts import CERTAIN, Facts, OfP
from ontarget.report.measured import Measured

ONE_SIDED = "record runs of the other kind, or choose a target that only some runs meet"
NEW_CATEGORIES = "fit again once there are enough runs with the new categories"
FEATURES = "look for features that tell earlier how a run will end"
AGAIN = "evaluate again once more runs have ended"
_ASKED = (0.8, 0.7, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_NEAR, _ENOUGH = 0.05, 30  # forecasts so near to the p that a sentence is about, and so many
_LUCKY: Final = 2.0  # times as high as another recording's: a threshold that is much luck


def checks_of(facts: Facts) -> list[Check]:
    """All checks, the most important first; those with nothing to tell are left out."""
    each = (
        _seen(facts),
        _one_sided(facts),
        *((_drift(facts), _p(facts)) if facts.changed else (_p(facts),)),
        _sharpness(facts),
        alarm_check(facts),
        failures_check(facts),
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


def fitted_on(facts: Facts) -> str:
    """That the monitor was fitted on some of these runs."""
    n = facts.found.met.size
    return f"the monitor was fitted on {facts.found.fitted_on.size:,} of these {n:,} runs"


def _seen(facts: Facts) -> Check | None:
    if not facts.seen:
        return None
    said = f"{fitted_on(facts)}, so all figures look better than they are"
    return Check("runs", Mark.ACT, said, next="evaluate it on new runs only")


def _one_sided(facts: Facts) -> Check | None:
    if not facts.found.one_sided:
        return None
    little = "a p close to 0 or 1 then says little about a new run, and neither does an alarm on p"
    return Check("learning", Mark.ACT, facts.found.one_sided, next=ONE_SIDED, details=(little,))


def _p(facts: Facts) -> Check:
    """Whether p came true, over all forecasts together."""
    found, gap, lean, unclear = facts.found, facts.gap, facts.lean, facts.unclear
    both = ", over runs before and after the change" * facts.covers_both
    off = f"off by {in_points(gap.off)}"
    chance = f"chance alone explains {100 * gap.chance:.1f}"
    mark = Mark.NEITHER
    if facts.p is OfP.OFF:
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
        return f"use it where it answers, {percent(found.unanswered.share)} of steps have no answer"
    return "use it"


def _example(found: Measured) -> str:
    """What came of forecasts of about 80 %, or of another p of which there are enough."""
    pooled = pool(found.p, found.met)
    for asked in _ASKED:
        near = np.abs(pooled.p - asked) <= _NEAR
        if np.count_nonzero(near) < _ENOUGH:
            continue
        episodes = pooled.episode[near]
        one = reliability(pooled.p[near], pooled.met[near], 1, episode=episodes)
        return (
            f"when it said about {percent(asked)}, {percent(float(one.rate_met[0]))} of runs met "
            f"the target (95 % interval {between(float(one.low[0]), float(one.high[0]))}; "
            f"{one.n:,} forecasts in {np.unique(episodes).size:,} runs)"
        )
    return ""


def _between(facts: Facts) -> Iterable[str]:
    """On forecasts between 10 and 90 %, if these are few."""
    unclear = facts.unclear
    if unclear is None or unclear.runs < 2:
        return
    yield (
        f"judged mostly on clear cases: {percent(unclear.share)} of forecasts, in "
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
            f"{percent(float(facts.found.met.mean()))} of these runs met the target, and "
            f"{percent(recorded)} of the assure runs"
        )
    if gap.off - raw > gap.chance:
        it = "the goal's own map" if isinstance(facts.found.target, Goal) else "calibration"
        yield f"{it} made p worse on these runs, by {in_points(gap.off - raw)}"


def _sharpness(facts: Facts) -> Check:
    """Whether p tells apart runs that meet the target and runs that miss it."""
    better = facts.better
    if better is None:
        said = "all runs at the same step ended alike, so nothing could be told apart"
        return Check("sharpness", Mark.NEITHER, said)
    less = f"{percent(abs(better), 0)} {'less' if better >= 0.0 else 'more'}"
    said = f"p errs {less} than if all runs at the same step got the same answer"
    mark, remedy = Mark.NEITHER, ""
    if facts.useful and facts.p in (OfP.RIGHT, OfP.OFF_BETWEEN):
        mark = Mark.GOOD
    elif not facts.useful:
        said = f"it hardly tells runs apart: {said}"
        if facts.p is not OfP.OFF:
            remedy = FEATURES
    return Check("sharpness", mark, said, figure=better, next=remedy)


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
    later = mixed(facts)
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
        next=AGAIN if facts.building else "",
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
    return Check("categories", Mark.ACT, said, next=NEW_CATEGORIES, details=(missing,))
