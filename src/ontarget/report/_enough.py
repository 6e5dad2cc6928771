"""How many runs it takes until chance could move p only a little."""

from __future__ import annotations

from typing import Final, NamedTuple

from ontarget.report._facts import Facts, rounded_up

COARSE: Final = 0.1  # with chance as large as this, agreement means nothing


class Enough(NamedTuple):
    """How many runs would be enough to fit a monitor on, and to evaluate it on.

    Attributes
    ----------
    fit, evaluate
        How many runs are needed, counting those that are there already; 0 if these are enough.
    recorded, new
        How many runs the monitor was fitted on (``recorded``) and evaluated on (``new``).
    """

    fit: int
    recorded: int
    evaluate: int
    new: int

    @property
    def in_words(self) -> str:
        """Advice on how many runs to add, as words for the middle of a sentence."""
        fit = f"fit on about {self.fit:,} runs in all ({self.fit - self.recorded:,} more)"
        evaluate = (
            f"evaluate on about {self.evaluate:,} new runs in all ({self.evaluate - self.new:,} "
            "more)"
        )
        return " and ".join([fit] * (self.fit > 0) + [evaluate] * (self.evaluate > 0))


def enough_of(facts: Facts) -> Enough:
    """How many runs it takes until chance could move p only a little.

    The effect of chance shrinks with the square root of the number of runs.
    """
    gap, half = facts.gap, COARSE / 2.0
    recorded, n = facts.recorded, facts.found.met.size
    times = (gap.chance / COARSE) ** 2
    whole, new = rounded_up(times * recorded), rounded_up(times * n)
    if gap.calibration <= half:
        new = rounded_up(n * gap.new_runs**2 / (COARSE**2 - gap.calibration**2))
        return Enough(0, recorded, new, n)
    return Enough(whole, recorded, 0 if gap.new_runs <= half else new, n)
