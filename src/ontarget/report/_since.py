"""How alarms did since the process changed, and how often a target was wrongly called certain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._numerals import percent
from ontarget.evaluation import Rate, alarm_quality
from ontarget.report._facts import Facts, counted_false, later_runs
from ontarget.report._words import between
from ontarget.report.measured import Measured

_RATE = 0.05  # of what is ruled out or assured


class Since(NamedTuple):
    """A sentence about the runs since the process changed, and whether they break a promise."""

    text: str = ""  # begins with a space, or is empty
    broken: bool = False


def alarms_since(facts: Facts) -> Since:
    """What the alarm did in the runs since the process changed.

    If nobody can say when the change came, the sentence says that runs may be mixed.
    """
    found, raised = facts.found, facts.alarms
    later = later_runs(found)
    if raised is None or later is None:
        return Since(_mixed(found))
    quality = alarm_quality(
        raised.first[later],
        found.met[later],
        found.lengths[later],
        decided=found.answers.decided_at[later],
    )
    false, caught = counted_false(facts.rule, quality), quality.in_time
    all_runs = facts.rule.of_all_runs
    met, alarm = ("", "a false alarm") if all_runs else ("that met the target ", "an alarm")
    told = [
        f"{false.count:,} of {false.n:,} runs {met}raised {alarm}, "
        f"{percent(false.value)} ({between(false.low, false.high)})"
        if false.n
        else "no run met the target",
        f"{caught.count:,} of {caught.n:,} failing runs were caught in time" if caught.n else "",
    ]
    allowed = facts.allowed_rate
    broken = allowed is not None and false.n > 0 and false.low > allowed
    return Since(f" Since the change alone, {', and '.join(filter(None, told))}.", broken)


def sure_since(found: Measured) -> Since:
    """How often a target was wrongly ruled out or assured in the runs since the process changed.

    Assured means that the monitor called it as good as certain that the run meets the target.
    """
    later = later_runs(found)
    if later is None:
        return Since(_mixed(found))
    met, n = found.met[later], later.size
    out = np.fmin.reduce(found.plausibility, axis=0)[later] <= _RATE
    sure = np.fmax.reduce(found.assurance, axis=0)[later] >= 1.0 - _RATE
    wrong = [Rate.of(int(np.count_nonzero(one)), n) for one in (out & met, sure & ~met)]
    return Since(
        f" Since the change alone, it was for {wrong[0].count:,} and {wrong[1].count:,} of "
        f"{n:,} runs ({percent(wrong[0].value)} and {percent(wrong[1].value)}).",
        max(one.low for one in wrong) > _RATE,
    )


def _mixed(found: Measured) -> str:
    """A sentence that runs from before and after a change may be mixed; empty if they are not."""
    drift = found.drifted
    if drift is None or not drift.changed or drift.since is not None:
        return ""
    return " When the change came is not known, so this may mix runs from before and after it."
