"""An alarm threshold that depends less on chance: the mean of the thresholds of several fits.

It helps if there are few assure episodes, the held-out episodes that the threshold comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from ontarget._arguments import whole_number
from ontarget.conformal._levels import Level, exact_rate
from ontarget.episodes import Episodes
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target


@dataclass(frozen=True)
class AverageThreshold:
    """An alarm threshold averaged over several fits, to pass as ``alarm_below``.

    See `average_threshold`.

    Attributes
    ----------
    value
        The mean of the thresholds of all fits.
    each
        The threshold of each fit. How much these thresholds differ shows how much is due to chance.
    rate
        The false-alarm rate that each of these thresholds was computed for.
    false_alarms
        The measured false-alarm rate: of the assure (held-out) episodes that met the target, the
        share whose p fell below ``value``, averaged over the fits. The thresholds come from the
        same episodes, so the true rate may be a little higher.
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
    """The mean alarm threshold over several fits that divide the episodes differently.

    A promised threshold depends on the few assure episodes (held out for promises) with the lowest
    p. So another division of the same episodes into learn and assure may give quite another
    threshold (`Threshold.others`). The mean over several divisions varies less. But this mean does
    not come from one set of assure episodes, so its false-alarm rate is measured, not promised.

    Parameters
    ----------
    monitor
        A monitor, fitted or not, whose settings every fit uses.
    episodes
        The episodes to fit on; each fit divides them with another seed.
    target, false_alarm_rate
        As for `GoalMonitor.watch`.
    refits
        How many fits to make; each takes as long as `GoalMonitor.fit`.

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
