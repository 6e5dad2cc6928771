"""What to expect of a fitted monitor, in words: how far p may be off, and what it can promise."""

from __future__ import annotations

import numpy as np
from scipy.stats import mannwhitneyu

from ontarget._text import percent
from ontarget.conformal.levels import floor_rank, needed_successes, needed_within
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import Threshold
from ontarget.fitted.kernels import SPREAD_LEVEL, share_bounds

_RATES = ("0.1", "0.05", "0.01")
# With this many assure episodes, an alarm's true rate is near the promised one.
_MANY = 500
_ONE_IN = 50  # random splits: how rare a difference must be to be told


def reach_in_words(fitted: Fitted) -> str:
    """Text about a fitted monitor: how accurate p is, how p is made, and what is promised."""
    facts = {
        "caution": _alike(fitted),
        "accuracy": _accuracy(fitted),
        "p": _p(fitted),
        "held out": _held_out(fitted),
        "promises": _promises(fitted),
        "luck": _luck(fitted),
        "split": _split(fitted),
    }
    return "\n".join(f"{name:<10} {text}" for name, text in facts.items() if text)


def _alike(fitted: Fitted) -> str:
    """Text that all learning episodes ended alike, so that p has nothing to learn from."""
    known = np.concatenate([np.empty(0), *fitted.learned_outcomes])
    if not known.size or known.min() < known.max():
        return ""
    return (
        f"p has nothing to learn from: all {known.size:,} learning runs ended at {known[0]:.6g}; "
        "they all meet a target, or all miss it"
    )


def _p(fitted: Fitted) -> str:
    if fitted.rehearsal is None:
        return ""
    return (
        f"a watch corrects p for its one target, with {len(fitted.rehearsal):,} learning episodes"
    )


def _accuracy(fitted: Fitted) -> str:
    known = fitted.learned[fitted.learned >= fitted.min_calibration]
    if not known.size:
        return "no step has enough episodes for p"
    most, fewest = int(known.max()), int(known.min())
    text = (
        f"by chance in the calibration curve alone, p may be off by about ± {_points(most)} points "
        f"with {most:,} episodes"
    )
    if _points(fewest) != _points(most):
        text += f", ± {_points(fewest)} at the step that {fewest:,} of them reach"
    return f"{text} ({100 * SPREAD_LEVEL:.0f} % confidence); the model's own error is not included"


def _points(n: int) -> int:
    """How far p = ½ may be off by chance if n episodes calibrate it, in percentage points."""
    low, high = share_bounds(np.array([n // 2]), n)[:, 0]
    return round(50.0 * float(high - low))


def _held_out(fitted: Fitted) -> str:
    chosen = fitted.trained.chosen.held_out
    return "" if chosen is None else chosen.in_words


def _promises(fitted: Fitted) -> str:
    if fitted.only_measures:
        return (
            "none, because there are no assure episodes; an alarm can be set with the learning "
            "episodes, and its false-alarm rate is then measured, not promised"
        )
    counts = [own.size for own in fitted.sorted_excess]
    there = f"{min(counts):,}" + " in the smallest group" * (len(counts) > 1)
    if any(fitted.stopped):
        cut = sum(fitted.stopped)
        return (
            f"by {there} assure episodes, {cut:,} of them cut off: each of these counts as one "
            "that met the target and raised an alarm"
        )
    lacking = [rate for rate in _RATES if needed_successes(rate) > min(counts)]
    if not lacking:
        return (
            f"{there} assure episodes are enough for an alarm with at most 1 % false alarms, if at "
            f"least {needed_successes(_RATES[-1])} of them meet your target"
        )
    least, *others = lacking
    more = ", ".join(f"{percent(float(one))}: {needed_successes(one)}" for one in others)
    return (
        f"out of reach: an alarm with at most {percent(float(least))} false alarms needs "
        f"{needed_successes(least)} assure episodes that met the target{f' ({more})' * bool(more)}"
        f", and there are {there}"
    )


def _luck(fitted: Fitted) -> str:
    """Text about how far an alarm's true false-alarm rate may be from the promised one."""
    # With few assure (held-out) episodes the two may differ a lot. The text is empty if they cannot
    # differ much, or if it is unknown how much they may differ.
    n = min((own.size for own in fitted.sorted_excess), default=0)
    k = floor_rank("0.05", n)
    if any(fitted.stopped) or not 0 < n < _MANY or not k:
        return ""
    low, high = Threshold(value=0.0, rate=0.05, k=k, m=n).spread()
    text = (
        f"5 % false alarms are promised on average over such recordings; with {n:,} assure "
        f"episodes the true rate is {percent(low)} to {percent(high)} (9 in 10 times; lower if "
        "runs share their lowest p), and the range is wider if some of them miss the target"
    )
    needed = needed_within("0.05", "0.95")
    return f"{text}; confidence=0.95 needs {needed} that meet it" if n < needed else text


def _split(fitted: Fitted) -> str:
    """Text that warns if learning episodes and assure (held-out) episodes ended differently."""
    learned, assured = fitted.runs.outcomes, fitted.observed
    if learned is None or assured is None or any(fitted.stopped):
        return ""
    both = assured.outcomes, learned
    if np.ptp(np.concatenate(both)) == 0.0:
        return ""
    found = mannwhitneyu(*both, use_continuity=False, method="asymptotic")
    if found.pvalue >= 1.0 / _ONE_IN:
        return ""
    higher = found.statistic > 0.5 * len(assured) * learned.size
    return (
        f"the {len(assured):,} assure episodes ended {'higher' if higher else 'lower'} than "
        f"the {learned.size:,} learning episodes, by more than a random split shows in all but one "
        f"of {_ONE_IN} cases. After a recalibration on runs of a changed process, that is what to "
        "expect. Otherwise it is luck, or a change between them, and a drift that is found later "
        "may be this difference: record more, or compare with a fit with another seed"
    )
