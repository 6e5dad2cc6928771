"""How good an alarm is: how many alarms are false, how many failures it detects, and how early."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ontarget._arguments import whole_number
from ontarget._arrays import freeze
from ontarget._typing import ArrayLike, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation.rates import (
    Rate,
    check_flags,
    check_numbers,
    check_panel,
    check_same_size,
    exact_interval,
)

NO_ALARM = -1
_MOST_THRESHOLDS = 500
_QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class AlarmQuality:
    """How good one alarm rule was over whole episodes.

    Attributes
    ----------
    false_alarms
        Among the episodes that met the target, the share that raised an alarm.
    detections
        Among the episodes that missed the target, the share that raised an alarm.
    precision
        Among the episodes that raised an alarm, the share that missed the target.
    lead_steps
        For each detected failure, how many steps before the episode's end the first alarm came;
        ascending.
    lead_to_decision
        For each detected failure, how many steps before the target was lost for certain the first
        alarm came; ascending. The target may be lost long before the episode's end. 0 if the alarm
        came only after that.

    Examples
    --------
    >>> found = alarm_quality([2, 6, 7, -1], [0, 0, 0, 0], [9, 9, 9, 9], decided=[5, 5, 9, 9])
    >>> print(found.in_time.count, found.too_late.count, found.never.count)
    2 1 1
    >>> found.median_lead_in_time
    2.5
    >>> print(alarm_quality([2, -1, -1], [False, True, True], [9, 9, 9]))
    false alarms 0.000 (0.000 to 0.842, 0 of 2)
    detections   1.000 (0.025 to 1.000, 1 of 1), median lead 7 steps
    """

    false_alarms: Rate
    detections: Rate
    precision: Rate
    lead_steps: IndexArray
    lead_to_decision: IndexArray

    def __post_init__(self) -> None:
        freeze(self, "lead_steps", "lead_to_decision")

    @property
    def median_lead_steps(self) -> float:
        """The median number of steps from an alarm to the end of the episode, over failures."""
        return _median(self.lead_steps)

    @property
    def in_time(self) -> Rate:
        """The share of failures whose alarm came while the target could still be met."""
        return self._of_failures(int(np.count_nonzero(self.lead_to_decision)))

    @property
    def too_late(self) -> Rate:
        """The share of failures whose alarm came only once the target was already lost."""
        return self._of_failures(int(np.count_nonzero(self.lead_to_decision == 0)))

    @property
    def never(self) -> Rate:
        """The share of failures that raised no alarm."""
        return self._of_failures(self.detections.n - self.detections.count)

    @property
    def median_lead_in_time(self) -> float:
        """The median number of steps from an alarm until the target was lost for certain."""
        return _median(self.lead_to_decision[self.lead_to_decision > 0])

    def _of_failures(self, count: int) -> Rate:
        return Rate.of(count, self.detections.n, level=self.detections.level)

    def __str__(self) -> str:
        median = self.median_lead_steps
        lead = f", median lead {median:g} step{'s' * (median != 1)}" if self.lead_steps.size else ""
        return f"false alarms {self.false_alarms}\ndetections   {self.detections}{lead}"


@dataclass(frozen=True, slots=True)
class AlarmCurve:
    """The rates and lead times that each alarm threshold would have given.

    Thresholds are in ascending order. ``false_alarm_rate`` and ``detection_rate``, (thresholds,),
    each come with exact confidence intervals at ``level``, (thresholds, 2).

    ``lead_steps`` contains the quartiles of the steps from alarm to end over the detected failures,
    (thresholds, 3); NaN if there are none. ``lead_to_decision`` contains the quartiles of the steps
    from the alarm until the target was lost for certain. ``in_time_rate`` is the share of failures
    whose alarm came before the target was lost, with its interval. ``lead_in_time`` is like
    ``lead_to_decision``, but only over these failures.
    """

    threshold: FloatArray
    false_alarm_rate: FloatArray
    false_alarm_interval: FloatArray
    detection_rate: FloatArray
    detection_interval: FloatArray
    in_time_rate: FloatArray
    in_time_interval: FloatArray
    lead_steps: FloatArray
    lead_to_decision: FloatArray
    lead_in_time: FloatArray
    n_met: int
    n_missed: int
    level: float

    def __post_init__(self) -> None:
        freeze(self, *(one.name for one in fields(self) if "Array" in str(one.type)))


def sustained(p: ArrayLike, for_steps: int = 1, *, resets: ArrayLike | None = None) -> FloatArray:
    """The largest p of the last ``for_steps`` steps at which p is known.

    Examples
    --------
    >>> print(sustained([[0.9, 0.8], [0.2, float("nan")], [0.6, 0.1]], 2))
    [[nan nan]
     [0.9 nan]
     [0.6 0.8]]
    """
    panel = check_panel("p", p, unit=True)
    length = whole_number("for_steps", for_steps, least=1)
    # The last known values of each episode, the oldest overwritten first.
    recent = np.full((length, panel.shape[1]), np.nan)
    seen = np.zeros(panel.shape[1], dtype=np.intp)
    found = np.full(panel.shape, np.nan)
    anew = np.zeros(panel.shape, np.bool_) if resets is None else np.asarray(resets, np.bool_)
    check_same_size(p=panel, resets=anew)
    for t, now in enumerate(panel):
        recent[:, anew[t]] = np.nan
        known = np.flatnonzero(~np.isnan(now))
        recent[seen[known] % length, known] = now[known]
        seen[known] += 1
        found[t, known] = recent[:, known].max(axis=0)  # NaN until enough are known
    return found


def first_alarms(p: ArrayLike, threshold: float) -> IndexArray:
    """The first step at which each episode's p is below the threshold, (episodes,)."""
    # It is `NO_ALARM` (−1) for an episode whose p is never below. ``p`` has shape (steps,
    # episodes); a NaN raises no alarm.
    below = check_panel("p", p, unit=True) < threshold
    return np.where(below.any(axis=0), below.argmax(axis=0), NO_ALARM)


def alarm_quality(
    first_alarm: ArrayLike,
    met: ArrayLike,
    end: ArrayLike,
    *,
    decided: ArrayLike | None = None,
    level: float = 0.95,
) -> AlarmQuality:
    """False alarms, detections and lead times, from the step of each episode's first alarm.

    Parameters
    ----------
    first_alarm
        The step of each episode's first alarm; `NO_ALARM` (−1) if there was none.
    met
        Whether each episode ended inside the target.
    end
        The number of steps of each episode; at this step its outcome is known.
    decided
        The step from which it was certain whether each episode meets its target; by default the
        episode's end.
    level
        The confidence level of the exact intervals.
    """
    alarm, ends, success = _whole("first_alarm", first_alarm), _ends(end), check_flags("met", met)
    check_same_size(first_alarm=alarm, met=success, end=ends)
    raised = alarm != NO_ALARM
    wrong = raised & ((alarm < 0) | (alarm >= ends))
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(
            Argument("first_alarm"),
            f" needs a step before its episode's end ({ends[i]}) or {NO_ALARM} (for "
            f"no alarm), got {alarm[i]} at position {i}",
        )
    caught = raised & ~success
    n_met, n_raised, n_caught = (int(flags.sum()) for flags in (success, raised, caught))
    return AlarmQuality(
        Rate.of(n_raised - n_caught, n_met, level=level),
        Rate.of(n_caught, success.size - n_met, level=level),
        Rate.of(n_caught, n_raised, level=level),
        np.sort((ends - alarm)[caught]),
        np.sort(np.maximum(_decided(decided, ends) - alarm, 0)[caught]),
    )


def alarm_curve(
    p: ArrayLike,
    met: ArrayLike,
    end: ArrayLike,
    *,
    decided: ArrayLike | None = None,
    thresholds: ArrayLike | None = None,
    level: float = 0.95,
) -> AlarmCurve:
    """For each threshold, the rates and lead times of an alarm that is raised at ``p < threshold``.

    Parameters
    ----------
    p
        (steps, episodes): the number that is compared with the threshold; NaN if an episode is over
        or a step cannot raise the alarm. For an alarm that waits for several steps, pass the result
        of `sustained`.
    met, end, decided
        As in `alarm_quality`.
    thresholds
        The thresholds, in ascending order. By default all thresholds at which the false-alarm or
        the detection rate changes, but at most 500.
    level
        The confidence level of each exact interval.
    """
    panel, success, ends = check_panel("p", p, unit=True), check_flags("met", met), _ends(end)
    check_same_size(p=panel, met=success, end=ends)
    _check_alive(panel, ends)
    # An alarm has been raised by step t exactly if the lowest p so far is below the threshold.
    lowest = np.fmin.accumulate(panel, axis=0)
    lowest[np.isnan(lowest)] = np.inf
    taus = _thresholds(thresholds, lowest[-1])
    quiet, failing = np.sort(lowest[-1, success]), np.sort(lowest[-1, ~success])
    false = np.searchsorted(quiet, taus, side="left")
    caught = np.searchsorted(failing, taus, side="left")
    settled = _decided(decided, ends)[~success]
    before = np.arange(panel.shape[0])[:, None] < settled
    lowest_before = np.fmin.accumulate(np.where(before, lowest[:, ~success], np.inf), axis=0)
    in_time = np.searchsorted(np.sort(lowest_before[-1]), taus, side="left")
    return AlarmCurve(
        taus,
        *_shares(false, quiet.size, level),
        *_shares(caught, failing.size, level),
        *_shares(in_time, failing.size, level),
        _lead_quartiles(lowest[:, ~success], ends[~success], taus),
        _lead_quartiles(lowest[:, ~success], settled, taus),
        _lead_quartiles(lowest_before, settled, taus),
        quiet.size,
        failing.size,
        level,
    )


def _shares(counts: IndexArray, n: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Each count as a share of n (NaN if n is 0), and the share's exact confidence interval."""
    shares = counts / n if n else np.full(counts.size, np.nan)
    return shares, np.column_stack(exact_interval(counts, n, level=level))


def _lead_quartiles(lowest: FloatArray, ends: IndexArray, taus: FloatArray) -> FloatArray:
    """The quartiles of lead time at each threshold, (thresholds, 3).

    ``lowest``, (steps, failures), is each failed episode's lowest p so far, and ``taus`` are the
    thresholds. Thresholds are ascending. For an episode, let ``since[t]`` be the index of the first
    threshold above its lowest p up to step t: for all thresholds from there on, the episode has
    raised its alarm by step t. So its first alarm is at step t for the thresholds from ``since[t]``
    up to, not including, ``since[t - 1]``. In a table (threshold, lead time), +1 marks where such a
    range of indices begins and −1 where it stops. Summing along the thresholds then gives the
    histogram of lead times at every threshold in one pass.
    """
    longest = int(ends.max(initial=0))
    since = np.searchsorted(taus, lowest, side="right")
    before = np.vstack((np.full((1, ends.size), taus.size), since[:-1]))
    steps, episodes = np.nonzero(since < before)
    lead = np.maximum(ends[episodes] - steps, 0)
    table = np.zeros((taus.size + 1, longest + 1), dtype=np.int64)
    np.add.at(table, (since[steps, episodes], lead), 1)
    np.add.at(table, (before[steps, episodes], lead), -1)
    # Summed along lead times: how many alarms came at most this long before the end.
    upto = np.cumsum(np.cumsum(table[:-1], axis=0), axis=1)
    n_caught = upto[:, -1]
    found = np.full((taus.size, len(_QUARTILES)), np.nan)
    for column, share in enumerate(_QUARTILES):
        spot = share * (n_caught - 1)
        below, above = np.floor(spot).astype(np.intp), np.ceil(spot).astype(np.intp)
        first = (upto <= below[:, None]).sum(axis=1)
        second = (upto <= above[:, None]).sum(axis=1)
        found[:, column] = first + (spot - below) * (second - first)
    found[n_caught == 0] = np.nan
    return found


def _median(steps: IndexArray) -> float:
    return float(np.median(steps)) if steps.size else np.nan


def _thresholds(asked: ArrayLike | None, minima: FloatArray) -> FloatArray:
    if asked is not None:
        taus = check_numbers("thresholds", asked)
        if (np.diff(taus) <= 0.0).any():
            raise InputError(Argument("thresholds"), " needs strictly ascending numbers")
        return taus
    # An alarm needs p strictly below the threshold. So a threshold just above an episode's lowest p
    # is the first that raises its alarm.
    finite = np.unique(minima[np.isfinite(minima)])
    values = np.unique(np.concatenate(([0.0], finite, [1.0])))
    if values.size > _MOST_THRESHOLDS:
        spots = np.linspace(0, values.size - 1, _MOST_THRESHOLDS).round().astype(np.intp)
        values = values[spots]
    return values


def _check_alive(panel: FloatArray, ends: IndexArray) -> None:
    beyond = ~np.isnan(panel) & (np.arange(panel.shape[0])[:, None] >= ends)
    if beyond.any():
        t, i = (int(place) for place in np.argwhere(beyond)[0])
        raise InputError(
            Argument("p"),
            f" needs NaN from its episode's end on, got {panel[t, i]} at step {t} "
            f"of episode {i}, which ends at {ends[i]}",
        )


def _whole(name: str, values: ArrayLike) -> IndexArray:
    array = check_numbers(name, values)
    if (array != np.rint(array)).any() or np.isinf(array).any():
        raise InputError(Argument(name), f" needs whole numbers, got {values!r}")
    return array.astype(np.intp)


def _decided(decided: ArrayLike | None, ends: IndexArray) -> IndexArray:
    if decided is None:
        return ends
    steps = _whole("decided", decided)
    check_same_size(end=ends, decided=steps)
    return np.minimum(steps, ends)


def _ends(end: ArrayLike) -> IndexArray:
    ends = _whole("end", end)
    if ends.min() < 1:
        raise InputError(Argument("end"), f" needs whole numbers from 1 up, got {ends.min()}")
    return ends
