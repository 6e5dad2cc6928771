"""A monitor's answers about recorded episodes, as one row for each step of each episode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.fitted.guarantee import alarm_scores, check_known
from ontarget.fitted.kernels import (
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
from ontarget.fitted.recorded import check_room
from ontarget.live._run_kernel import first_alarms_of_runs
from ontarget.live.outlook import Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger

# Episodes are handled in groups whose tables (steps, episodes) have at most this many cells.
_CELLS = 250_000


@dataclass(frozen=True, eq=False)
class Answers:
    """A monitor's answers about recorded episodes at every step, and how the episodes ended.

    The answers are stored as one row per step of an episode: all steps of the first episode, then
    those of the second, and so on. Tables (steps, episodes) are made only when you ask for them,
    because one long run among many short ones would leave most of a table empty.

    Attributes
    ----------
    said
        (rows, numbers): the numbers of each answer, such as p, in the order listed in
        `ontarget.fitted.kernels`; NaN if the monitor cannot answer.
    bad
        (rows,): whether a missing or unreadable value made the step unknown.
    counts
        (rows,): how many episodes the bounds of the answer are based on; 1 if there is no answer.
    met
        (episodes,): whether each episode met the target.
    lengths
        (episodes,): the number of steps of each episode.
    steps
        For how many steps the monitor has answers; a table has this many rows.
    promises
        Whether the monitor learned nothing from these episodes, so that a false-alarm rate can be
        promised with them.
    stopped
        How many further episodes were cut off, so that there are no answers about them (method M24
        in docs/methods.md).
    """

    said: FloatArray
    bad: BoolArray
    counts: IndexArray
    met: BoolArray
    lengths: IndexArray
    steps: int
    promises: bool = True
    stopped: int = 0

    @property
    def part(self) -> str:
        """Which episodes these answers are about: "assure" (held out) or "learning"."""
        return "assure" if self.promises else "learning"

    @cached_property
    def p(self) -> FloatArray:
        """(steps, episodes): the calibrated probabilities; NaN if the monitor cannot answer."""
        return self.panel(P)

    @cached_property
    def low(self) -> FloatArray:
        """(steps, episodes): the lower bound of the paper's method, `Outlook.low`."""
        return self.panel(LOW)

    @cached_property
    def high(self) -> FloatArray:
        """(steps, episodes): the upper bound of the paper's method, `Outlook.high`."""
        return self.panel(HIGH)

    @cached_property
    def spread(self) -> FloatArray:
        """(steps, episodes, 2): the two ends of the range around p, `Outlook.spread`."""
        return np.stack([self.panel(SPREAD_LOW), self.panel(SPREAD_HIGH)], axis=-1)

    @cached_property
    def raw(self) -> FloatArray:
        """(steps, episodes): the model's own probabilities, before calibration."""
        return self.panel(RAW)

    @cached_property
    def plausibility(self) -> FloatArray:
        """(steps, episodes): the plausibility, whether the target is still possible (0 to 1)."""
        return self.panel(PLAUSIBILITY)

    @cached_property
    def assurance(self) -> FloatArray:
        """(steps, episodes): the assurance, whether the target is as good as certain (0 to 1)."""
        return self.panel(ASSURANCE)

    @cached_property
    def broken(self) -> BoolArray:
        """(steps, episodes): whether a missing or unreadable value made the step unknown."""
        found: BoolArray = self._table(self.bad, np.zeros(self._shape, dtype=np.bool_))
        return found

    @cached_property
    def n(self) -> IndexArray:
        """(steps, episodes): how many episodes the bounds are based on; 1 without an answer."""
        found: IndexArray = self._table(self.counts, np.ones(self._shape, dtype=np.intp))
        return found

    @property
    def ever_broken(self) -> BoolArray:
        """(episodes,): whether the episode has a missing or unreadable value at any step."""
        found = np.zeros(self.met.size, dtype=np.bool_)
        found[self._places[0][self.bad]] = True
        return found

    def panel(self, place: int) -> FloatArray:
        """(steps, episodes): one number of each answer, such as p, by position; NaN if unknown."""
        found: FloatArray = self._table(self.said[:, place], np.full(self._shape, np.nan))
        return found

    @cached_property
    def decided_at(self) -> IndexArray:
        """(episodes,): the first step at which it was certain whether the target is met."""
        found = self.lengths.astype(np.intp)
        settled = self.said[:, DECIDED] >= 0.0
        episode, step = (one[settled] for one in self._places)
        np.minimum.at(found, episode, step)
        return found

    def scores(self, for_steps: int) -> FloatArray:
        """(episodes,): each episode's score: any threshold above it would have raised an alarm."""
        check_known(self.said[:, P])
        found = np.full(self.met.size, np.inf)
        for own, some in self._few_at_a_time():
            if not np.isnan(some.p).all():
                found[own] = alarm_scores(some.p, for_steps, resets=some.broken)
        return found

    def take(self, episodes: IndexArray) -> Answers:
        """The answers about some of the episodes, given by their positions."""
        if np.array_equal(episodes, np.arange(self.met.size)):
            return replace(self, stopped=0)
        rows = self.rows_of(episodes)
        return Answers(
            self.said[rows],
            self.bad[rows],
            self.counts[rows],
            self.met[episodes],
            self.lengths[episodes],
            self.steps,
            self.promises,
        )

    def rows_of(self, episodes: IndexArray) -> IndexArray:
        """The positions of the rows that belong to these episodes, one episode after the other."""
        lived = np.minimum(self.lengths[episodes], self.steps)
        return _ranges(self._starts[episodes], lived)

    def first_alarms(self, rule: AlarmRule, trigger: Trigger) -> IndexArray:
        """(episodes,): the step at which the alarm would first have been raised; −1 for never."""
        first = np.full(self.met.size, -1, dtype=np.int64)
        if trigger.compared < 0:
            return self._own_first_alarms(rule, first)
        numbers = read_only(np.array(trigger.numbers, dtype=np.float64))
        for own, some in self._few_at_a_time():
            found = np.empty(own.size, dtype=np.int64)
            compared, decided = some.panel(trigger.compared), some.panel(DECIDED)
            first_alarms_of_runs(compared, decided, some.broken.astype(np.int64), numbers, found)
            first[own] = found
        return first

    def _own_first_alarms(self, rule: AlarmRule, first: IndexArray) -> IndexArray:
        """The step of each episode's first alarm, for an alarm rule written in Python."""
        for row in np.flatnonzero(~np.isnan(self.said[:, P])).tolist():
            i, t = (int(one[row]) for one in self._places)
            if first[i] >= 0:
                continue
            one = self.said[row]
            outlook = _outlook(t, one, int(self.counts[row]))
            if rule.alarming(outlook) or one[DECIDED] == 0.0:
                first[i] = t
        return first

    def _few_at_a_time(self) -> Iterator[tuple[IndexArray, Answers]]:
        """The answers, a group of episodes of similar length at a time, to save memory."""
        lived = np.minimum(self.lengths, self.steps)
        order, start = np.argsort(lived, kind="stable"), 0
        while start < order.size:
            # Lengths are ascending, so the last episode of a group sets the height of its table.
            joined = lived[order[start:]]
            cells = joined * np.arange(1, joined.size + 1)
            stop = start + max(int(np.searchsorted(cells, _CELLS, side="right")), 1)
            own = np.sort(order[start:stop])
            yield own, replace(self.take(own), steps=int(lived[own].max()))
            start = stop

    @property
    def _shape(self) -> tuple[int, int]:
        check_room(self.lengths, self.steps)
        return self.steps, self.met.size

    @cached_property
    def _starts(self) -> IndexArray:
        """(episodes,): the first row of each episode."""
        lived = np.minimum(self.lengths, self.steps)
        return np.cumsum(lived) - lived

    @cached_property
    def _places(self) -> tuple[IndexArray, IndexArray]:
        """(rows,), twice: the episode and the step of each row."""
        return _places(self.lengths, self.steps)

    def _table(self, values: AnyArray, table: AnyArray) -> AnyArray:
        episode, step = self._places
        table[step, episode] = values
        return table


class Sheet:
    """Collects a monitor's answers about episodes step by step, and turns them into `Answers`."""

    def __init__(self, lengths: IndexArray, steps: int) -> None:
        self._lengths, self._steps = lengths, steps
        lived = np.minimum(lengths, steps)
        rows = int(lived.sum())
        self._starts = np.cumsum(lived) - lived
        self._said = np.full((rows, NUMBERS), np.nan)
        self._bad, self._counts = np.zeros(rows, dtype=np.bool_), np.ones(rows, dtype=np.intp)

    def put(self, t: int, episodes: IndexArray, numbers: FloatArray, n: int) -> None:
        """Store the answers about these episodes at step t."""
        rows = self._starts[episodes] + t
        self._said[rows], self._counts[rows] = numbers, n

    def put_bad(self, t: int, episodes: IndexArray) -> None:
        """Store that these episodes have a missing or unreadable value at step t."""
        self._bad[self._starts[episodes] + t] = True

    def put_all(self, episodes: IndexArray, found: Answers) -> None:
        """Store the answers in ``found`` about these episodes, at all steps."""
        rows = _ranges(self._starts[episodes], np.minimum(found.lengths, self._steps))
        self._said[rows], self._bad[rows], self._counts[rows] = found.said, found.bad, found.counts

    def forget(self, place: int) -> None:
        """Set one of the numbers, given by its position, to NaN in all answers."""
        self._said[:, place] = np.nan

    def answers(self, met: BoolArray, *, promises: bool = True) -> Answers:
        """The answers stored so far, together with whether each episode met the target."""
        written = self._said, self._bad, self._counts
        return Answers(*written, met, self._lengths, self._steps, promises=promises)


def _ranges(starts: IndexArray, sizes: IndexArray) -> IndexArray:
    """The whole numbers of several ranges, one range after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _places(lengths: IndexArray, steps: int) -> tuple[IndexArray, IndexArray]:
    """(rows,), twice: the episode and the step of each row."""
    lived = np.minimum(lengths, steps)
    return np.repeat(np.arange(lived.size), lived), _ranges(np.zeros_like(lived), lived)


def _outlook(t: int, numbers: FloatArray, n: int) -> Outlook:
    p, low, high, plausibility, assurance, *spread = numbers[:DECIDED].tolist()
    pair = (spread[0], spread[1])
    return Outlook(t, p, pair, low, high, plausibility, assurance, n, Status.OK, "")
