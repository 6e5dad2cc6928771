"""What a report says about a change of the process since its runs were recorded."""

from __future__ import annotations

from ontarget.drift.change import UNKNOWN_ORDER, DriftJudgement
from ontarget.report._facts import Facts
from ontarget.report._statement import Statement, sentence, sentences


def drift_statements(facts: Facts) -> list[Statement]:
    """A finding on whether the process has changed since it was recorded.

    The list is empty if that cannot be told.
    """
    drift = facts.found.drifted
    if drift is None:
        return []
    lot = f"Their order is {drift.order}." * (drift.order not in ("", UNKNOWN_ORDER))
    test = f"{sentence(drift.change.in_words)}. The test: {drift.change.test}."
    figures = f"{drift.figures}{f' (95 % range: {drift.latest.reach} points)' * drift.latest.shows}"
    why = "No tick: a small change needs more runs to show."
    if drift.changed:
        both = "figures that do not say otherwise cover the runs before and after it together"
        told = (
            f"at step {drift.t}, {figures}",
            _later_steps(facts),
            both * drift.covers_both,
            *drift.suspect.split("; "),
            *drift.where,
        )
        since = drift.when or "since the runs were recorded"
        headline, why = f"{drift.judgement} {since}: at step {drift.t}, {drift.headline}", ""
    elif drift.judgement is DriftJudgement.BUILDING:
        told = (
            f"at step {drift.t}, {drift.way}",
            "more runs will show whether something has changed",
            *drift.suspect.split("; "),
        )
        headline = f"{drift.judgement}"
        why = "No mark yet: it is no proof."
    else:
        told = ()
        headline = "no sign that the process has changed since it was recorded"
    return [
        Statement(
            f"{sentence(headline)}.",
            " ".join(filter(None, [sentences(*told), test, lot])),
            False if drift.changed else None,
            why,
        )
    ]


def _later_steps(facts: Facts) -> str:
    """A phrase: how far p is off over all steps of the runs since the process changed.

    p is the probability of meeting the target. The finding itself is about one step only. Empty if
    nobody knows when the change came.
    """
    since, drift = facts.since, facts.found.drifted
    if since is None or drift is None:
        return ""
    off = f"{100 * abs(since.too_high):.1f} points {since.way}"
    less = abs(since.too_high) < abs(drift.latest.too_high)
    why = ": later in a run more is known, so p errs less" * less
    return f"over all steps of these {since.runs:,} runs, p was {off} on average{why}"
