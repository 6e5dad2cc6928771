"""Whether what a monitor promised held on new runs, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ontarget._numerals import percent
from ontarget.conformal.planning import needed_successes
from ontarget.drift.change import Drift, DriftJudgement
from ontarget.report._enough import COARSE, enough_of
from ontarget.report._facts import Facts, Lean
from ontarget.report.measured import Measured

_RATE = 0.05  # of what is ruled out or assured
MANY_UNANSWERED = 0.01  # a larger share of steps without an answer qualifies the verdict
ONE_SIDED_ADVICE = "record runs of the other kind, or choose a target that only some runs meet"

_DIFFERENT = (
    "these runs differ from those the monitor learned from, or the model is wrong; fit again on "
    "recent runs, or look for a feature that is missing"
)
_DRIFTED = (
    "these runs differ from those the monitor learned from; check that the newest runs are complete"
)
_RENEW = (
    "to renew the promises, recalibrate; to renew p too, recalibrate with renew_p=True "
    "(--renew-p), or fit again; use only runs that start from now on"
)
_WRONG = (
    "the test for drift finds no change, so the model itself may be wrong; look for a feature that "
    "is missing, or fit on more runs"
)
_PERHAPS = (
    "the process may have changed, but that is no proof yet (see drift); evaluate again once more "
    "runs have ended, and recalibrate if it has"
)


class Judgement(StrEnum):
    """The possible results of checking on new runs whether a monitor's p and promises held.

    p is the probability of meeting the target.
    """

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
    aside: str = ""  # what the reason is about, and what held all the same

    def __str__(self) -> str:
        aside = f" ({self.aside})" * bool(self.aside)
        return f"{self.judgement}: {self.reason}{aside}{'; ' * bool(self.advice)}{self.advice}"


def verdict_of(facts: Facts) -> Verdict:
    """The verdict, which also says at how many steps there is no answer, if these are many.

    See `_verdict_of`.
    """
    found, missing = _verdict_of(facts), facts.found.unanswered
    if missing.share <= MANY_UNANSWERED:
        return found
    judgement = found.judgement
    if judgement is Judgement.HELD:
        judgement = Judgement.HELD_IN_PART
    silent = f"no answer at {_percent(missing.share)} of steps: {missing.why}"
    return replace(
        found,
        judgement=judgement,
        aside="; ".join(filter(None, [found.aside, silent])),
        advice="; ".join(filter(None, [found.advice, missing.advice])),
    )


def _verdict_of(facts: Facts) -> Verdict:
    """The verdict on p, on the promised alarm, and on targets that were called certain.

    p is the probability of meeting the target. A target may be called ruled out or assured. If
    chance alone may explain a broken promise, it does not count against the monitor. The
    evaluated runs depend on chance, and so do the recorded episodes that calibrated p or set the
    alarm.
    """
    if facts.found.fitted_on.size:
        return Verdict(Judgement.NOT_NEW, *_not_new(facts))
    broken = [one for one in (_off(facts), alarm_broken(facts), _sure(facts)) if one]
    if broken:
        kept = "" if alarm_broken(facts) else _alarm_kept(facts)
        kept += ", over runs before and after the change" * bool(kept and covers_both(facts.found))
        aside = "; ".join(filter(None, [_over_what(facts) if _off(facts) else "", kept]))
        return Verdict(Judgement.NOT_HELD, ", and ".join(broken), _advice(facts), aside)
    few = _nothing_learned(facts) or _too_few(facts)
    if few:
        return few
    advice = filter(None, [_changed(facts), *_cautions(facts)])
    all_met = "no new run missed the target, so nothing can be said about failures"
    aside = all_met * bool(facts.found.met.all())
    return Verdict(Judgement.HELD, _kept(facts), "; ".join(advice), aside)


def _nothing_learned(facts: Facts) -> Verdict | None:
    """The verdict if all learning runs met the target, or all missed it; None if not."""
    found = facts.found
    if found.knows_both:
        return None
    aside = "so nothing can be said about failures"
    if facts.alarms is not None:
        aside += f", and {useless_alarm(facts)}"
    return Verdict(Judgement.TOO_FEW, found.one_sided, ONE_SIDED_ADVICE, aside)


def useless_alarm(facts: Facts) -> str:
    """A clause that names the alarm as useless, because p has nothing to learn from."""
    assert facts.alarms is not None
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in facts.alarms.triggers)
    return f"an alarm {facts.rule.relation} {facts.rule.compared_name} = {below} is useless"


def doubtful(facts: Facts) -> bool:
    """Whether something speaks against a monitor that held, but not enough to say "not held"."""
    unclear = facts.unclear
    return above_the_promise(facts) or (unclear is not None and unclear.beyond_chance)


def above_the_promise(facts: Facts) -> bool:
    """Whether clearly more false alarms were measured than promised.

    That is so if the promised rate is below the whole interval around the measured rate. This alone
    breaks no promise: the promise is an average over recordings, and the few episodes of this
    recording may have set the threshold too high.
    """
    if facts.alarms is None or facts.promised_rate is None:
        return False
    return facts.false_alarms.low > facts.promised_rate


def _set_by_few(facts: Facts) -> str:
    """Why the promise may hold despite more false alarms than promised, and how many to expect."""
    assert facts.alarms is not None
    assert facts.allowed_rate is not None
    promises = [one.promised for one in facts.alarms.triggers if one.promised is not None]
    few, low = min(one.m for one in promises), facts.false_alarms.low
    return (
        f"the threshold was chosen with only {few:,} assure runs that met the target, and so "
        f"few can leave a true rate of up to {_percent(facts.allowed_rate)}: expect "
        f"{_percent(low)} to {_percent(facts.allowed_rate)} false alarms with this threshold"
    )


def _has_changed(facts: Facts) -> bool:
    """Whether the runs show that the process has changed: then luck explains nothing."""
    return facts.found.drifted is not None and facts.found.drifted.changed


def _changed(facts: Facts) -> str:
    """Advice if everything held, but the process has changed; empty if it has not."""
    drifted = facts.found.drifted
    if drifted is None or drifted.judgement is DriftJudgement.NO_SIGN:
        return ""
    if drifted.suspect:
        return f"a change shows at step {drifted.t}, {drifted.suspect}"
    if drifted.judgement is DriftJudgement.BUILDING:
        return (
            "but evidence is building that something has changed (see drift): evaluate again once "
            "more runs have ended"
        )
    return (
        "but something has changed since the runs were recorded, so it may not hold for long: "
        "recalibrate on runs that start from now on"
    )


def _reservations(facts: Facts) -> list[str]:
    """Clauses that follow "p held, but", the most serious first; empty if there are none.

    p is the probability of meeting the target.
    """
    found, unclear = [], facts.unclear
    if unclear is not None and unclear.beyond_chance:
        found.append(f"{unclear.way} between 10 and 90 %")
    if above_the_promise(facts):
        found.append(_raised(facts))
    if facts.alarms is None:
        found.append(no_alarm_in_words(facts))
    return found


def _cautions(facts: Facts) -> list[str]:
    """Advice if p was right on average, but something else did not hold or cannot be promised.

    p is the probability of meeting the target.
    """
    told, (first, *others) = [], _reservations(facts) or [""]
    unclear = facts.unclear
    if first:
        told.append(f"p was {_amount(facts)}")
    if unclear is not None and unclear.beyond_chance:
        told += [between_in_words(unclear), f"read p there as {unclear.way}, and fit on more runs"]
    told += others
    if facts.alarms is None:
        told += no_alarm_advice(facts)
    elif above_the_promise(facts) and not _has_changed(facts):
        told += [_set_by_few(facts), "recalibrate on more runs to set it better"]
    return told


def no_alarm_in_words(facts: Facts) -> str:
    """A clause that says that the alarm that was asked for cannot be promised."""
    rate = facts.asked_rate
    return (
        f"no alarm{'' if rate is None else f' with {_percent(rate)} false alarms'} can be promised"
    )


def no_alarm_advice(facts: Facts) -> list[str]:
    """What to do if the alarm that was asked for cannot be promised, a clause each.

    The advice is which rate can be promised now and how to ask for it, and how many more runs the
    rate that was asked for needs.
    """
    found = facts.shortfall
    limit = (
        "set a limit on p of your own, which promises nothing: --alarm-below P, or alarm_below=P"
    )
    if found is None:
        return [f"record more runs that meet the target, or {limit}"]
    missing, now = found.needed - found.has, found.possible
    sure = "" if facts.confidence is None else f" with {_percent(facts.confidence)} confidence"
    return [
        limit
        if now is None
        else f"{_percent(now)} false alarms{sure} can be promised now: pass --false-alarm-rate "
        f"{now:g}, or false_alarm_rate={now:g} in Python",
        f"for {_percent(found.rate)}, {missing:,} more assure run{'s' * (missing != 1)} must "
        f"meet the target: fit on about {found.in_all:,} runs in all ({found.more:,} more)",
    ]


def _advice(facts: Facts) -> str:
    """What to do about a promise that did not hold; it depends on whether the process changed."""
    if not facts.found.knows_both:
        return f"{facts.found.one_sided}: {ONE_SIDED_ADVICE}"
    drifted = facts.found.drifted
    if drifted is None:
        return _DIFFERENT
    advice = {DriftJudgement.NO_SIGN: _WRONG, DriftJudgement.BUILDING: _PERHAPS}
    return advice.get(drifted.judgement, f"{_DRIFTED}; {_RENEW}: {_not_for_promises(drifted)}")


def _not_for_promises(drifted: Drift) -> str:
    """What the runs that showed a change may be used for (method M26 in docs/methods.md)."""
    n = len(drifted.later) if drifted.covers_both else 0
    which = f"the {n:,} runs since the change" if n else "runs since the change"
    return f"{which} may teach p, but no promise may be based on runs that showed the change"


def in_points(share: float) -> str:
    """A share as text in percentage points."""
    return f"{100 * share:.1f} percentage points"


def _not_new(facts: Facts) -> tuple[str, str]:
    seen, n = facts.found.fitted_on.size, facts.found.met.size
    return f"the monitor was fitted on {seen:,} of these {n:,} runs", "evaluate it on new ones only"


def _off(facts: Facts) -> str:
    gap = facts.gap
    if not gap.beyond_chance:
        return ""
    return (
        f"p was off by {in_points(gap.off)} ({gap.way}) on average; chance alone explains "
        f"{100 * gap.chance:.1f}"
    )


def _over_what(facts: Facts) -> str:
    """A clause on which runs and steps the error of p is about, and its size since a change.

    p is the probability of meeting the target.
    """
    said, since = f"that is over all steps of all {facts.found.met.size:,} runs", facts.since
    if since is not None:
        said += (
            f", before and after the change; over all steps of the {since.runs:,} runs since then, "
            f"p was {100 * abs(since.too_high):.1f} points {since.way}"
        )
    return said


def covers_both(found: Measured) -> bool:
    """Whether the runs are known to come from before and after a change of the process."""
    return found.drifted is not None and found.drifted.covers_both


def _alarm_kept(facts: Facts) -> str:
    """A clause that the alarm kept its promise although p was off; empty without a promise.

    p is the probability of meeting the target.
    """
    if facts.alarms is None or facts.promised_rate is None:
        return ""
    false = facts.false_alarms.value
    if false <= facts.promised_rate:
        return f"the alarm kept its promise: {_percent(false)} {facts.counted}"
    luck = "" if above_the_promise(facts) else ", which is within chance"
    return (
        f"the alarm raised {_percent(false)} {facts.counted} where "
        f"{_percent(facts.promised_rate)} were promised{luck}"
    )


def alarm_broken(facts: Facts) -> str:
    """A clause that the alarm broke its promise; empty if it did not, or if it may be chance."""
    allowed = facts.allowed_rate
    if facts.alarms is None or facts.promised_rate is None or allowed is None:
        return ""
    false = facts.false_alarms
    if false.low <= allowed:
        return ""
    return (
        f"{_percent(false.value)} {facts.raised} where at most "
        f"{_percent(facts.promised_rate)} were promised"
    )


def _sure(facts: Facts) -> str:
    for done, wrong in (
        ("ruled out", facts.found.ruled_out_wrongly(_RATE)),
        ("assured", facts.found.assured_wrongly(_RATE)),
    ):
        if wrong.low > _RATE:
            return f"the target was {done} wrongly for {_percent(wrong.value)} of runs, not 5 %"
    return ""


def _too_few(facts: Facts) -> Verdict | None:
    """The verdict "too few runs to say", with the reason and advice; None if there are enough."""
    gap, n, few = facts.gap, facts.found.met.size, Judgement.TOO_FEW
    if not facts.found.met.any():
        why = f"none of the {n:,} new runs met the target"
        return Verdict(few, why, "choose a target that some runs meet")
    if gap.chance > COARSE:
        return _too_coarse(facts)
    if facts.alarms is None or facts.promised_rate is None:
        return None
    good, needed = facts.false_alarms.n, needed_successes(facts.promised_rate)
    if good >= needed:
        return None
    there = f"only {good:,} of the {n:,} new runs met the target"
    if facts.rule.of_all_runs:
        there = f"there are only {good:,} new runs"
    return Verdict(
        few,
        f"{there}, and it takes {needed:,} to check a "
        f"promise of {_percent(facts.promised_rate)} false alarms",
        "evaluate on more runs",
    )


def _too_coarse(facts: Facts) -> Verdict:
    """The verdict that chance alone could put p far off, and how many runs would help.

    It also says whether p looks too high or too low. p is the probability of meeting the target.
    """
    gap, lean = facts.gap, facts.lean
    said = f"chance alone could put p off by {in_points(gap.chance)}"
    now = []
    if lean.shows:
        said = (
            f"p looks {in_points(abs(lean.too_high))} {lean.way} on average, and chance alone "
            f"could put it off by {100 * gap.chance:.1f}"
        )
        now = [f"expect p to be {lean.way} until you fit on more runs"]
    missing = [] if facts.alarms is not None else no_alarm_advice(facts)
    there = f"there are {facts.found.met.size:,} new runs"
    behind = f"{there}, and {gap.n:,} recorded runs behind a typical forecast"
    enough = (
        f"{enough_of(facts).in_words}: chance would then explain less than {100 * COARSE:.0f} "
        "percentage points"
    )
    advice = "; ".join([*now, enough, *missing])
    return Verdict(Judgement.TOO_FEW, said, advice, behind)


def _amount(facts: Facts) -> str:
    """A clause on how far p is off over all forecasts, and what chance explains of that.

    p is the probability of meeting the target.
    """
    gap, both = facts.gap, ", over runs before and after the change" * covers_both(facts.found)
    chance = f"chance alone explains {100 * gap.chance:.1f}"
    return f"off by {in_points(gap.off)} on average{both}, and {chance}"


def _raised(facts: Facts) -> str:
    """A clause on how many false alarms there were, and how many were promised."""
    assert facts.promised_rate is not None
    return (
        f"{_percent(facts.false_alarms.value)} {facts.raised}, where "
        f"{_percent(facts.promised_rate)} were promised"
    )


def _kept(facts: Facts) -> str:
    """A sentence that p held, with the most serious thing that speaks against it, if there is any.

    p is the probability of meeting the target.
    """
    gap, but, unclear = facts.gap, _reservations(facts), facts.unclear
    if but:
        right = unclear is not None and unclear.beyond_chance
        said = "p was right on average" if right else "p came true as often as it said"
        return f"{said}, but {but[0]}"
    said = (
        f"p came true as often as it said (off by {in_points(gap.off)} on average; chance alone "
        f"explains {100 * gap.chance:.1f})"
        + ", over runs before and after the change"
        * covers_both(facts.found)
    )
    if facts.promised_rate is None:
        return said
    luck = " (within chance)" * (facts.false_alarms.value > facts.promised_rate)
    return f"{said}, and {_raised(facts)}{luck}"


def between_in_words(found: Lean) -> str:
    """A clause on how far p is off for forecasts between 10 and 90 %.

    p is the probability of meeting the target.
    """
    return (
        f"where it lay between 10 and 90 %, it was {in_points(abs(found.too_high))} {found.way}, "
        "more than chance explains"
    )


def luck_in_words(facts: Facts) -> str:
    """A clause on how chance may explain more false alarms than promised.

    Empty if there are no more than promised, or if chance cannot explain them.
    """
    rate, allowed = facts.promised_rate, facts.allowed_rate
    if facts.alarms is None or rate is None or allowed is None:
        return ""
    false = facts.false_alarms
    if not rate < false.value or false.low > allowed or _has_changed(facts):
        return ""
    if above_the_promise(facts):
        shown = f"{_percent(false.low)} to {_percent(false.high)}"
        return f"these runs alone show {shown}, more than was promised; {_set_by_few(facts)}"
    return (
        f"that is within chance: the runs that set the alarm leave a true rate of up to "
        f"{_percent(allowed)} possible, and these runs one of {_percent(false.low)} to "
        f"{_percent(false.high)} (each with 95 % confidence)"
    )


def _percent(share: float) -> str:
    """A percentage with an ordinary space, so that a text search finds it in terminals and logs."""
    return percent(share).replace("\u00a0", " ")
