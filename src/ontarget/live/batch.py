"""Recorded episodes asked as if live: every step's outlook, and what a rule would have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ontarget._progress import Reached
from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    RAW,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
)
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import alarm_scores
from ontarget.fitted.question import Question
from ontarget.fitted.recorded import check_room
from ontarget.fitted.target_map import Calibrated
from ontarget.live._reasons import Reason, in_words
from ontarget.live._run_kernel import first_alarms_of_runs
from ontarget.live.outlook import Outlook, Outlooks, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.target import Target

__all__ = ["Answers", "answer_episodes", "outlooks_at"]


@dataclass(frozen=True, eq=False)
class Answers:
    """A monitor's answers on recorded episodes at every step, and how they ended.

    Attributes
    ----------
    numbers
        (numbers, steps, episodes): NaN where an episode is over or nothing is known.
    broken
        (steps, episodes): where a bad reading made the step unknown.
    n
        (steps, episodes): how many episodes the bounds of each answer rest on; 1 where none does.
    met
        Which episodes met the target.
    lengths
        How many steps each has.
    promises
        Whether nothing was learned from them, so that what they say of an alarm is a promise.
    stopped
        How many further episodes were cut off: there is nothing to say about these (M24).
    weights, weight
        The weight of each episode, and that of the run for which an alarm is set; None where
        episodes have no weights (M25).
    """

    numbers: FloatArray
    broken: BoolArray
    n: IndexArray
    met: BoolArray
    lengths: IndexArray
    promises: bool = True
    stopped: int = 0
    weights: FloatArray | None = None
    weight: float | None = None

    @property
    def part(self) -> str:
        """What to call the episodes of a fitted monitor that these are answers on."""
        return "assure" if self.promises else "learning"

    @property
    def p(self) -> FloatArray:
        """(steps, episodes): the calibrated probabilities."""
        return self._panel(P)

    @property
    def low(self) -> FloatArray:
        """Their lower bounds."""
        return self._panel(LOW)

    @property
    def high(self) -> FloatArray:
        """Their upper bounds."""
        return self._panel(HIGH)

    @property
    def spread(self) -> FloatArray:
        """(steps, episodes, 2): the range that the finite number of episodes leaves to p (M20)."""
        return np.stack([self._panel(SPREAD_LOW), self._panel(SPREAD_HIGH)], axis=-1)

    @property
    def raw(self) -> FloatArray:
        """The law's own probabilities, before calibration."""
        return self._panel(RAW)

    @property
    def plausibility(self) -> FloatArray:
        """Whether the target was still possible: at most 0.05 means ruled out at 5 % (M9)."""
        return self._panel(PLAUSIBILITY)

    @property
    def assurance(self) -> FloatArray:
        """Whether the target was as good as certain: at least 0.95 means assured at 95 % (M9)."""
        return self._panel(ASSURANCE)

    def _panel(self, place: int) -> FloatArray:
        found: FloatArray = self.numbers[place]
        return found

    @cached_property
    def decided_at(self) -> IndexArray:
        """The step at which arithmetic settled each outcome: its end, if not before (M18)."""
        settled = self.numbers[DECIDED] >= 0.0
        first = np.where(settled.any(axis=0), settled.argmax(axis=0), self.lengths)
        return np.minimum(first, self.lengths).astype(np.intp)

    def scores(self, for_steps: int) -> FloatArray:
        """Each episode's score: a threshold above it would have raised an alarm (M8)."""
        return alarm_scores(self.p, for_steps, resets=self.broken)

    def take(self, episodes: IndexArray) -> Answers:
        """The answers for some of the episodes."""
        return Answers(
            self.numbers[:, :, episodes],
            self.broken[:, episodes],
            self.n[:, episodes],
            self.met[episodes],
            self.lengths[episodes],
            self.promises,
            weights=None if self.weights is None else self.weights[episodes],
        )

    def first_alarms(self, rule: AlarmRule, trigger: Trigger) -> IndexArray:
        """The step at which each episode would first have been in alarm, −1 where never."""
        first = np.full(self.met.size, -1, dtype=np.int64)
        if trigger.compared < 0:
            return self._own_first_alarms(rule, first)
        first_alarms_of_runs(
            np.ascontiguousarray(self.numbers[trigger.compared]),
            np.ascontiguousarray(self.numbers[DECIDED]),
            self.broken.astype(np.int64),
            read_only(np.array(trigger.numbers, dtype=np.float64)),
            first,
        )
        return first

    def _own_first_alarms(self, rule: AlarmRule, first: IndexArray) -> IndexArray:
        """The same for a rule of the user's own, judged in Python."""
        steps, episodes = self.p.shape
        for i in range(episodes):
            for t in range(steps):
                one = self.numbers[:, t, i]
                if np.isnan(one[P]):
                    continue
                outlook = _outlook(t, one, int(self.n[t, i]))
                if rule.alarming(outlook) or one[DECIDED] == 0.0:
                    first[i] = t
                    break
        return first


def answer_episodes(
    fitted: Fitted,
    episodes: Episodes,
    target: Target,
    *,
    calibration: Calibrated | None = None,
    reached: Reached | None = None,
) -> Answers:
    """What the monitor says of the episodes at every step."""
    episodes = fitted.alike(episodes)
    if calibration is not None:
        calibration.check(target, fitted.grid)
    question, groups = Question.of(target, fitted.grid), fitted.groups_in(episodes)
    given = episodes.weights if fitted.is_weighted else None
    weights = fitted.checked_weights(given, len(episodes))
    check_room(episodes.lengths, fitted.horizon)
    shape = (fitted.horizon, len(episodes))
    numbers = np.full((NUMBERS, *shape), np.nan)
    broken, n = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.intp)
    longest = int(episodes.lengths.max()) if len(episodes) else 0
    for t in range(min(fitted.horizon, longest)):
        rows = episodes.at(t, grid=fitted.grid)
        bad = fitted.bad_readings(rows.states)
        broken[t, rows.index[bad]] = True
        for g in np.unique(groups[rows.index]).tolist():
            own = np.flatnonzero(~bad & (groups[rows.index] == g))
            if not own.size or fitted.unknown(t, g):
                continue
            step, index = fitted.at(t, g, calibration), rows.index[own]
            found = step.outlook(
                rows.states[own],
                rows.behavior[own],
                question,
                fitted.sorted_excess[g],
                weights[index],
            )
            numbers[:, t, index] = found[:, 0].T
            n[t, index] = step.ranks.n
        if reached is not None:
            reached(t + 1)
    steps = min(fitted.horizon, episodes.horizon)
    if reached is not None and longest < steps:
        reached(steps)  # nobody is alive at the others
    met = question.targets[0].contains(episodes.outcomes, fitted.grid)
    return Answers(numbers, broken, n, met, episodes.lengths, weights=episodes.weights)


def outlooks_at(
    fitted: Fitted,
    t: int,
    states: FloatArray,
    so_far: FloatArray,
    target: Target | Sequence[Target],
    groups: IndexArray,
    *,
    weights: FloatArray,
    calibration: Calibrated | None = None,
) -> Outlooks:
    """The outlook of each run at one step; states and behavior are checked and on the grid."""
    if calibration is not None:
        calibration.check(target, fitted.grid)
    question = Question.of(target, fitted.grid)
    rows, n_targets = so_far.size, len(question.targets)
    numbers = np.full((rows, n_targets, NUMBERS), np.nan)
    status = np.full(rows, Status.UNKNOWN, dtype=np.int8)
    n, codes = np.zeros(rows, dtype=np.intp), np.zeros(rows, dtype=np.intp)
    details = np.zeros((rows, 2))
    lost = ~np.isfinite(so_far)
    if t >= fitted.horizon and not fitted.horizon_declared:
        codes[:] = Reason.PAST
    elif t == fitted.horizon:
        met = np.stack([one.contains(so_far, fitted.grid) for one in question.targets], axis=1)
        numbers[~lost] = met[~lost, :, None]
        status[~lost] = Status.DONE
    else:
        lost &= not fitted.behavior.reads_so_far
        bad = fitted.bad_readings(states)
        for i in np.flatnonzero(bad).tolist():
            codes[i], details[i] = Reason.BAD_FEATURE, fitted.bad_feature(states[i]) or (0, 0)
        for g in np.unique(groups).tolist():
            own = groups == g
            n[own] = fitted.counts[t, g]
            some = np.flatnonzero(own & ~bad & ~lost)
            if fitted.unknown(t, g):
                codes[some] = Reason.FEW if fitted.is_trained(t) else Reason.UNTRAINED
                details[some, 0] = fitted.learned[t, g]
            elif some.size:
                step, excess = fitted.at(t, g, calibration), fitted.sorted_excess[g]
                numbers[some] = step.outlook(
                    states[some], so_far[some], question, excess, weights[some]
                )
                status[some] = Status.OK
    codes[lost] = Reason.LOST
    fields = numbers[:, 0] if isinstance(target, Target) else numbers
    return Outlooks(
        t=np.full(rows, t, dtype=np.intp),
        p=fields[..., P],
        spread=fields[..., SPREAD_LOW : SPREAD_HIGH + 1],
        low=fields[..., LOW],
        high=fields[..., HIGH],
        plausibility=fields[..., PLAUSIBILITY],
        assurance=fields[..., ASSURANCE],
        n=n,
        status=status,
        words=lambda run: in_words(int(codes[run]), tuple(details[run]), fitted),
    )


def _outlook(t: int, numbers: FloatArray, n: int) -> Outlook:
    p, low, high, plausibility, assurance, *spread = numbers[:DECIDED].tolist()
    pair = (spread[0], spread[1])
    return Outlook(t, p, pair, low, high, plausibility, assurance, n, Status.OK, "")
