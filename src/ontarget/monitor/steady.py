"""A steadier alarm: its threshold averaged over refits, for where one assure set is luck."""

from __future__ import annotations

from dataclasses import dataclass

from ontarget._arguments import whole_number
from ontarget.conformal._levels import Level, exact_rate
from ontarget.episodes import Episodes
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

__all__ = ["AverageThreshold", "average_threshold"]


@dataclass(frozen=True)
class AverageThreshold:
    """A threshold for ``alarm_below``, averaged over refits; its rate is measured, not promised.

    Attributes
    ----------
    value
        The mean of the thresholds.
    each
        The threshold of each refit: how much luck there is.
    rate
        The rate of false alarms that each was set for.
    false_alarms
        The share of good assure episodes below the mean, averaged over the refits. The same
        episodes set it, so it is a little too kind.
    """

    value: float
    each: tuple[float, ...]
    rate: float
    false_alarms: float

    def __str__(self) -> str:
        return (
            f"alarm below {self.value:.3g}, the mean of {len(self.each)} thresholds from "
            f"{min(self.each):.3g} to {max(self.each):.3g}; false alarms {self.false_alarms:.1%}, "
            "measured, not promised"
        )


def average_threshold(
    monitor: GoalMonitor,
    episodes: Episodes,
    target: Target,
    false_alarm_rate: Level = 0.05,
    *,
    refits: int = 5,
) -> AverageThreshold:
    """The alarm threshold averaged over fits that divide the episodes differently.

    A promised threshold rests on the few assure episodes that are lowest, so another division of
    the same episodes may put it elsewhere (`Threshold.others`). The mean moves less. It belongs to
    no one assure set, so its rate of false alarms is measured, not promised.

    Parameters
    ----------
    monitor
        A monitor, fitted or not, whose settings every refit has.
    episodes
        What to fit on; each refit divides them by another seed.
    target, false_alarm_rate
        As for `GoalMonitor.watch`.
    refits
        How many fits; each takes as long as one.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Episodes, GoalMonitor, Target
    >>> from ontarget.models import Marginal
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(400, 3, 1)), rng.normal(size=(400, 3)))
    >>> found = average_threshold(GoalMonitor(Marginal()), walks, Target.at_least(0.0), refits=2)
    >>> len(found.each), min(found.each) <= found.value <= max(found.each)
    (2, True)
    """
    each, scores = [], []
    for seed in range(whole_number("refits", refits, least=2)):
        twin = GoalMonitor(**monitor.get_params(deep=False))
        twin.fit(episodes, seed=seed, progress=False)
        watch = twin.watch(target, false_alarm_rate=false_alarm_rate)
        each.append(watch.trigger.threshold)
        assured = twin._kept.assured(target, watch.contract.calibration)
        scores.append(assured.scores(1)[assured.met])
    value = sum(each) / len(each)
    false = sum(float((own < value).mean()) for own in scores) / len(scores)
    return AverageThreshold(value, tuple(each), float(exact_rate(false_alarm_rate)), false)
