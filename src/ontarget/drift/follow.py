"""Alarms and intervals for a process that keeps changing; they are right in the long run.

See method M26 in docs/methods.md.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, insort
from collections import deque
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import FloatArray
from ontarget._whole_file import write_whole
from ontarget.conformal._levels import Level, exact_level, exact_rate
from ontarget.conformal.results import Interval
from ontarget.drift._kept import KeptFor, damage_named, read_kept, write_kept
from ontarget.drift.guard import NotedStep, check_guarded
from ontarget.episodes import Episodes
from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.fitted._kernels import P
from ontarget.fitted.fitted import Fitted
from ontarget.live.outlook import Status
from ontarget.live.rules import AlarmRule, Assured, Trigger, clear_at
from ontarget.live.watch import Watch

FOLLOW_FORMAT: Final = 1


class Following(AlarmRule):
    """An alarm rule that adapts its threshold after every run that met its target.

    A run that met its target and raised an alarm lowers the threshold. A run that met its target
    without an alarm raises it a little. In both cases pace · (rate − alarmed) is added to the
    threshold, where alarmed is 1 or 0. So the share of false alarms approaches the rate, whatever
    the process does. This holds in the long run only: nothing is promised for a single run, and
    `within` says how close the share must be by now. Learn only from runs in which nobody acted on
    the alarm.

    Parameters
    ----------
    rate
        The share of false alarms to aim for: how many of the runs that meet their target may raise
        an alarm.
    threshold
        The first alarm threshold. A good choice is the promised threshold from before the change.
    pace
        How far one false alarm moves the threshold. A larger pace adapts faster, and varies more.
    for_steps
        How many consecutive steps with known p it takes to raise the alarm, as in `Below`.

    Examples
    --------
    >>> rule = Following(0.1, threshold=0.3, pace=0.05)
    >>> [round(rule.observe(alarmed=one, met=True), 3) for one in (True, False)]
    [0.255, 0.26]
    >>> rule.n, rule.share
    (2, 0.5)
    """

    regime: ClassVar[str] = "follow"
    moves: ClassVar[bool] = True

    def __init__(
        self, rate: Level = 0.05, *, threshold: float, pace: float = 0.02, for_steps: int = 1
    ) -> None:
        self.rate = float(exact_rate(rate))
        if not 0.0 <= threshold <= 1.0:
            raise InputError(
                Argument("threshold"), f" needs a number from 0 to 1, got {threshold!r}"
            )
        self.threshold = float(threshold)
        self.pace = _checked_pace(pace)
        self.for_steps = whole_number("for_steps", for_steps, least=1)
        self.n = 0  # runs that met their target
        self.false_alarms = 0

    @property
    def share(self) -> float:
        """Of the runs that met their target, the share that raised an alarm; NaN without any."""
        return self.false_alarms / self.n if self.n else math.nan

    @property
    def within(self) -> float:
        """How far ``share`` can be from the rate by now, at most, whatever the process does."""
        return min(1.0, (1.0 + self.pace) / (self.pace * self.n)) if self.n else 1.0

    def trigger(self, assured: Assured | None) -> Trigger:
        """The alarm rule as numbers to compare, for a run that begins now.

        ``assured`` is not used.
        """
        return Trigger(P, self.threshold, clear_at(self.threshold), self.for_steps, self.threshold)

    def observe(self, *, alarmed: bool, met: bool) -> float:
        """Adapt the threshold to a finished run; returns the new threshold.

        ``alarmed`` says whether the run raised an alarm, ``met`` whether it met its target. Leave
        out runs in which somebody acted on an alarm.
        """
        if met:
            self.n += 1
            self.false_alarms += bool(alarmed)
            moved = self.threshold + self.pace * (self.rate - bool(alarmed))
            # A threshold above 1 alarms at once, so it never gets higher than this, unless runs are
            # too short to raise any alarm (`for_steps`).
            self.threshold = min(moved, 1.0 + self.pace)
        return self.threshold

    def learn_from(self, watch: Watch) -> float:
        """Adapt the threshold to a watched run that is over; returns the new threshold.

        Call it once per run, before `Watch.reset`. A run that somebody took over is skipped.
        """
        if watch.rule is not self:
            raise InputError("learn_from needs a watch that was made with this same rule object")
        if watch.status is not Status.DONE:
            raise InputError(
                f"learn_from needs a run that is over, got one with status {watch.status}; call "
                "end first"
            )
        if watch.intervened_at is not None:
            return self.threshold
        alarmed = any(change.status is Status.ALARM for change in watch.changes)
        return self.observe(alarmed=alarmed, met=watch.peek().p == 1.0)

    def save(self, path: str | Path) -> None:
        """Write this alarm rule and its state to a small JSON file, completely or not at all."""
        kept = {"format": FOLLOW_FORMAT, **vars(self)}
        write_whole(Path(path), [json.dumps(kept).encode()])

    @classmethod
    def load(cls, path: str | Path) -> Following:
        """The alarm rule, with its state, that `save` wrote."""
        try:
            kept: dict[str, Any] = json.loads(Path(path).read_bytes())
            version = kept.pop("format")
            rule = cls(kept["rate"], threshold=0.0, pace=kept["pace"], for_steps=kept["for_steps"])
            rule.threshold = float(kept["threshold"])
            rule.n, rule.false_alarms = (int(kept[name]) for name in ("n", "false_alarms"))
            whole = 0 <= rule.false_alarms <= rule.n
            if not (whole and -rule.pace <= rule.threshold <= 1.0 + rule.pace):
                raise ValueError(
                    f"the threshold {rule.threshold} or the {rule.false_alarms} false alarms in "
                    f"{rule.n} runs are impossible"
                )
        except OSError as error:
            raise ModelFileError(f"{path}: the file cannot be read: {error.strerror}") from error
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{path}: this is not a file that Following.save wrote ({error})"
            ) from error
        if version != FOLLOW_FORMAT:
            raise ModelFileError(
                f"{path}: the file needs format {FOLLOW_FORMAT}, got {version!r}; start a new rule"
            )
        return rule


class FollowingInterval:
    """Intervals at one step that adapt to a changing process; see `GoalMonitor.follow_interval`.

    An outcome outside its interval (a miss) widens the next intervals; an outcome inside narrows
    them a little. So the share of misses approaches 1 − level, whatever the process does. This
    holds in the long run only, not for a single run. The width is set by δ, the share of outcomes
    that the next interval may miss: after each run, pace · (1 − level − missed) is added to δ,
    where missed is 1 or 0. Which width belongs to δ is learned from the last runs, at first from
    the assure episodes (held out for promises). `save` writes the state to a small file, and
    ``monitor.follow_interval(…, resume=path)`` continues from it.

    Parameters
    ----------
    fitted
        The result of the monitor's fit.
    level
        The share of outcomes that should be inside their intervals.
    t, group
        The step, and the number of the group.
    pace
        How much one miss changes the allowed share of misses. A larger pace adapts faster, and
        varies more.
    window
        How many of the last runs the widths are learned from.
    resume
        A file that `save` wrote, to continue from.
    """

    regime: ClassVar[str] = "follow"

    def __init__(
        self,
        fitted: Fitted,
        level: Level,
        *,
        t: int = 0,
        group: int = 0,
        pace: float = 0.02,
        window: int = 200,
        resume: str | Path | None = None,
    ) -> None:
        check_guarded(fitted, t, group)
        self._noted = NotedStep(fitted, t, group)
        self._missed = self._delta = float(1 - exact_level(level))
        self._pace = _checked_pace(pace)
        ranks = fitted.at(t, group).ranks.values
        most = whole_number("window", window, least=1)
        some = np.unique(np.linspace(0, ranks.size - 1, min(most, ranks.size)).round())
        self._about = KeptFor.of("interval", fitted, t, level, group)
        self._window = most
        self._take(np.abs(0.5 - ranks[some.astype(np.intp)]).tolist())
        self.n = 0
        self.misses = 0
        if resume is not None:
            self._resume(resume)

    def _take(self, scores: list[float]) -> None:
        """Learn the widths of intervals from these scores; the oldest run comes first.

        A score is how far an outcome was from the predicted median, in probability.
        """
        self._scores = deque(scores)
        self._sorted = sorted(scores)

    @property
    def share(self) -> float:
        """The share of outcomes so far that were outside their interval; NaN before any run."""
        return self.misses / self.n if self.n else math.nan

    @property
    def within(self) -> float:
        """How far ``share`` can be from 1 − level by now, at most, whatever the process does."""
        if not self.n:
            return 1.0
        reach = max(self._missed, 1.0 - self._missed) + self._pace
        return min(1.0, reach / (self._pace * self.n))

    @property
    def depth(self) -> float:
        """How far an interval reaches from the predicted median, in probability.

        0.4 means from the 10 % to the 90 % quantile. It is +inf if the interval contains all
        numbers, and negative if the interval is empty.
        """
        if not 0.0 < self._delta < 1.0:
            return math.inf if self._delta <= 0.0 else -1.0
        n = len(self._sorted)
        k = math.ceil((1.0 - self._delta) * (n + 1))
        return math.inf if k > n else self._sorted[k - 1]

    def interval(self, states: FloatArray, behavior: FloatArray) -> Interval:
        """One interval of outcomes per run at the watched step, with the present width.

        ``states`` is (runs, features), ``behavior`` the behavior so far of each run.
        """
        fitted, depth = self._noted.fitted, self.depth
        so_far = snap(np.asarray(behavior, dtype=np.float64), fitted.grid)
        if not 0.0 <= depth <= 0.5:
            ends = np.full(so_far.shape, math.inf if depth > 0.0 else -math.inf)
            return Interval(-ends, ends)
        step = fitted.at(self._noted.t, self._noted.group)
        X = step.inputs(np.asarray(states, dtype=np.float64), so_far)
        low = step.quantile(X, 0.5 - depth, side="left")
        high = step.quantile(X, 0.5 + depth, side="right")
        found = step.outcomes(so_far, Interval(low, high))
        return Interval(snap(found.lower, fitted.grid), snap(found.upper, fitted.grid))

    def observe(self, episodes: Episodes) -> float:
        """Adapt the width to finished runs, in the order in which they started.

        Returns `share`: the share of outcomes so far that were outside their interval.
        """
        noted = self._noted(episodes)
        for name in episodes.ids.tolist():
            if name in noted:
                left, right = noted[name]
                depth = self.depth
                missed = not (left <= 0.5 + depth and right >= 0.5 - depth)
                self.n += 1
                self.misses += missed
                self._delta += self._pace * (self._missed - missed)
                self._note(abs(0.5 - (left + right) / 2.0))
        return self.share

    def _note(self, score: float) -> None:
        """Add the score of one more run, and drop the oldest one if the window is full.

        A score is how far an outcome was from the predicted median, in probability.
        """
        if len(self._scores) == self._window:
            del self._sorted[bisect_left(self._sorted, self._scores.popleft())]
        self._scores.append(score)
        insort(self._sorted, score)

    def save(self, path: str | Path) -> None:
        """Write the state of these intervals to a small JSON file, completely or not at all."""
        state = {name: getattr(self, f"_{name}") for name in ("delta", "pace", "window")}
        scores = list(self._scores)
        write_kept(
            path, self._about, {**state, "scores": scores, "n": self.n, "misses": self.misses}
        )

    def _resume(self, path: str | Path) -> None:
        """Continue from a file that `save` wrote, after checking it."""
        kept = read_kept(path, self._about)
        for name in ("pace", "window"):
            if kept.get(name) != getattr(self, f"_{name}"):
                raise InputError(
                    f"{path}: the saved interval has the {name} {kept.get(name)!r}, not "
                    f"{getattr(self, f'_{name}')!r}; resume it with the same arguments"
                )
        with damage_named(path, self._about.noun):
            scores = [float(one) for one in kept["scores"]]
            delta, n, misses = float(kept["delta"]), int(kept["n"]), int(kept["misses"])
            sound = math.isfinite(delta) and all(0.0 <= one <= 0.5 for one in scores)
            if not (sound and 0 < len(scores) <= self._window and 0 <= misses <= n):
                raise ValueError(
                    f"{misses} misses in {n} runs with {len(scores)} scores are impossible"
                )
            self._take(scores)
            self._delta, self.n, self.misses = delta, n, misses


def _checked_pace(pace: float) -> float:
    if not 0.0 < pace <= 1.0:
        raise InputError(Argument("pace"), f" needs a number above 0 and up to 1, got {pace!r}")
    return float(pace)
