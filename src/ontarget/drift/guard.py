"""The drift guard: a test for a change of the process that you may look at after every episode.

See method M10 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ontarget._typing import FloatArray
from ontarget.conformal.levels import Level
from ontarget.drift.bets import (
    DriftBet,
    DriftReading,
    HarmBet,
    KeptFor,
    digest_of,
    read_kept,
    write_kept,
)
from ontarget.episodes import Episodes
from ontarget.errors import (
    CalibrationError,
    CensoredError,
    FewEpisodesError,
    GroupError,
    InputError,
    ModelFileError,
)
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.kernels import P

# A function that gives, by id, the numbers that a guard compares of finished episodes. It leaves
# out episodes that do not reach the guarded step or have a bad reading there.
Noted: TypeAlias = Callable[[Episodes], dict[object, tuple[float, ...]]]

# The last ids that are remembered, so that memory stays bounded however long a guard watches.
_REMEMBERED = 100_000


class DriftGuard:
    """Collects evidence from finished episodes that the process has changed.

    Episodes must be counted in the order in which they **started**. If they overlap in time,
    announce each with `begin`. Then `observe` holds back an episode until all that started before
    it have been observed. If an announced episode will never be observed, `withdraw` it.

    Every episode counts only once: an id that the guard has seen before raises an error. The guard
    remembers the last 100,000 ids. After its alarm, `since_alarm` has the episodes to recalibrate
    the monitor on.

    `save` writes a guard to a small file; ``monitor.drift_guard(resume=path)`` continues with the
    same evidence in another process. A guard can also be pickled and deep-copied.

    Examples
    --------
    >>> from ontarget import Episodes, GoalMonitor
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(302, 3, 1)), rng.normal(size=(302, 3)))
    >>> guard = GoalMonitor().fit(walks.take(range(300)), progress=False).drift_guard()
    >>> guard.begin(300)
    >>> guard.begin(301)
    >>> guard.observe(walks.take([301])).n  # 0 counted: it waits for 300, which began before it
    0
    >>> guard.withdraw(300).n  # 300 broke down and has no outcome, so 301 counts now
    1
    """

    def __init__(self, bet: DriftBet | HarmBet, noted: Noted, about: KeptFor) -> None:
        self._bet = bet
        self._noted = noted
        self._about = about
        # Ids that were begun, observed or withdrawn, the oldest first. An OrderedDict, because it
        # drops its first entry fast.
        self._seen: OrderedDict[object, None] = OrderedDict()
        self._order: dict[object, None] = {}  # announced but not yet counted, in order of start
        self._announced = False
        self._held: dict[object, tuple[float, ...] | None] = {}
        self._under_way: set[object] = set()  # begun before the alarm, and not counted by then
        self._since: dict[object, None] = {}  # begun after the alarm and counted, in order of start
        self.reading = DriftReading(0, math.nan, 1.0, alarm=False)

    @property
    def t(self) -> int:
        """The step at which episodes are compared."""
        return self._about.t

    @property
    def since_alarm(self) -> tuple[object, ...]:
        """The ids of counted episodes that began after the alarm, in order of start.

        Recalibrate on these: the promises hold anew if the process changes no further. Episodes
        that led to the alarm, or were under way at the time, would break them (method M26 in
        docs/methods.md). An episode is counted once it and all that began before it are over, so
        none is left out because it takes long. At most the first 100,000 are remembered.
        """
        return tuple(self._since)

    def begin(self, episode_id: object) -> None:
        """Announce an episode that starts now."""
        if episode_id in self._seen:
            raise InputError(
                f"episode {episode_id!r} has already begun, or was observed or withdrawn; give "
                f"each run its own id"
            )
        self._announced = True
        self._remember(episode_id)
        self._order[episode_id] = None

    def withdraw(self, episode_id: object) -> DriftReading:
        """Take back an announced episode that will not be observed; returns the evidence.

        Episodes that were waiting for the announced one are counted now. Never withdraw an episode
        because of its outcome: the remaining episodes would no longer be like the recorded ones.
        """
        if episode_id not in self._order or episode_id in self._held:
            raise InputError(
                f"withdraw needs an episode that was announced by begin and not observed, "
                f"got {episode_id!r}"
            )
        del self._order[episode_id]
        self._under_way.discard(episode_id)
        return self._count()

    def observe(self, episodes: Episodes) -> DriftReading:
        """The evidence of a change after one or more finished episodes.

        Pass episodes in the order in which they started. An episode that ended before the step at
        which episodes are compared, or has a missing or unreadable value there, is skipped.
        """
        noted = self._noted(episodes)
        return self._hold({one: noted.get(one) for one in episodes.ids.tolist()})

    def note(self, episode_id: object, *compared: float) -> DriftReading:
        """The evidence after one finished episode, given only the numbers to compare."""
        # If this guard tests whether p has become too high, pass one number: p at the compared
        # step, minus 1 if the episode met the target. Otherwise pass two: the predicted
        # probabilities of an outcome below the one that the episode had, and of an outcome at or
        # below it.
        return self._hold({episode_id: compared})

    def _hold(self, compared: Mapping[object, tuple[float, ...] | None]) -> DriftReading:
        """Add finished episodes, and count those for which no earlier episode is still awaited."""
        for episode_id in compared:
            self._check_new(episode_id)
        for episode_id, values in compared.items():
            self._held[episode_id] = values
            if not self._announced:
                self._remember(episode_id)
                self._order[episode_id] = None
        return self._count()

    def _check_new(self, episode_id: object) -> None:
        """Raise an error if an episode was counted before, or is not among those announced."""
        waiting = episode_id in self._order and episode_id not in self._held
        if not waiting and episode_id in self._seen:
            raise InputError(
                f"episode {episode_id!r} was observed or withdrawn already; each run counts once, "
                f"so give each its own id"
            )
        if not waiting and self._announced:
            raise InputError(
                f"episode {episode_id!r} was not announced; announce every episode with begin, or "
                f"none"
            )

    def _count(self) -> DriftReading:
        """Count the episodes that wait, up to the first announced one that is not observed yet."""
        ready: dict[object, tuple[float, ...] | None] = {}
        while self._order and (first := next(iter(self._order))) in self._held:
            del self._order[first]
            ready[first] = self._held.pop(first)
        compared = [values for values in ready.values() if values is not None]
        readings = iter(self._bet.observe_noted(compared) if compared else ())
        for place, (episode_id, values) in enumerate(ready.items()):
            alarmed = self.reading.alarm
            if episode_id in self._under_way:
                self._under_way.remove(episode_id)
            elif alarmed and len(self._since) < _REMEMBERED:
                self._since[episode_id] = None
            if values is not None:
                self.reading = next(readings)
            if self.reading.alarm and not alarmed and self._announced:
                self._under_way = {*islice(ready, place + 1, None), *self._order}
        return self.reading

    def _remember(self, episode_id: object) -> None:
        self._seen[episode_id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def save(self, path: str | Path) -> None:
        """Write this drift test (guard) to a small JSON file, completely or not at all."""
        strange = [one for one in (*self._seen, *self._since) if not isinstance(one, str | int)]
        if strange:
            raise InputError(
                f"a saved guard needs ids that are texts or whole numbers, got {strange[0]!r}; use "
                f"texts as ids"
            )
        kept = {
            "bet": self._bet.to_json(),
            "reading": [None if one != one else one for one in self.reading],
            "announced": self._announced,
            "seen": list(self._seen),
            "order": list(self._order),
            "held": [[name, values] for name, values in self._held.items()],
            "under_way": list(self._under_way),
            "since_alarm": list(self._since),
        }
        write_kept(path, self._about, kept)

    def _resume(self, path: str | Path) -> DriftGuard:
        """Continue from a file that `save` wrote; returns this `DriftGuard`."""
        kept = read_kept(path, self._about)
        try:
            self._restore(kept)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: the saved guard is damaged: {error}") from error
        return self

    def _restore(self, kept: Mapping[str, Any]) -> None:
        self._bet.restore(kept["bet"])
        n, p, evidence, alarm = kept["reading"]
        self.reading = DriftReading(
            int(n), math.nan if p is None else float(p), float(evidence), bool(alarm)
        )
        self._announced = bool(kept["announced"])
        self._seen = OrderedDict.fromkeys(kept["seen"])
        self._order = dict.fromkeys(kept["order"])
        self._held = {
            name: None if values is None else tuple(map(float, values))
            for name, values in kept["held"]
        }
        # A guard that ontarget 0.2 saved does not say when an episode began: only those that begin
        # from now on have surely begun after its alarm.
        self._under_way = set(kept.get("under_way", self._order))
        self._since = dict.fromkeys(kept.get("since_alarm", ()))


def limits_at(fitted: Fitted, t: int, group: int, episodes: Episodes) -> FloatArray:
    """(episodes, 2): the predicted P(< y) and P(<= y) at each outcome y; NaN if unknown."""
    found = np.full((len(episodes), 2), np.nan)
    if t < episodes.horizon:
        law, rows = fitted.at(t, group), episodes.at(t, grid=fitted.grid)
        good = np.flatnonzero(~fitted.bad_readings(rows.states))
        inputs = law.inputs(rows.states[good], rows.behavior[good])
        both = law.cdf_limits(inputs, rows.response[good])
        found[rows.index[good]] = np.stack(both, axis=1)
    return found


def p_at(asked: Asked, t: int, group: int, episodes: Sequence[Episodes]) -> FloatArray:
    """(episodes,): p of each episode at step t; NaN for an episode without a valid state there."""
    found = np.full(len(episodes[0]), np.nan)
    if t < episodes[0].horizon:
        each = zip(asked.parts, episodes, strict=True)
        rows = [own.at(t, grid=fitted.grid) for fitted, own in each]
        good = np.flatnonzero(~asked.fitted.bad_readings(rows[0].states))
        if good.size:
            so_far = [one.behavior[good] for one in rows]
            said = asked.said(t, group, rows[0].states[good], so_far)
            found[rows[0].index[good]] = said.numbers[:, 0, P]
    return found


def _noted_limits(
    fitted: Fitted, t: int, group: int, episodes: Episodes
) -> dict[object, tuple[float, ...]]:
    """What a drift guard compares of each episode that has a valid state at the step, by id."""
    new = fitted.alike(episodes, any_horizon=True)
    _check_group(fitted, new, group)
    each = zip(new.ids.tolist(), limits_at(fitted, t, group, new).tolist(), strict=True)
    return {name: (left, right) for name, (left, right) in each if left == left}


def _noted_excess(
    asked: Asked, t: int, group: int, episodes: Episodes
) -> dict[object, tuple[float, ...]]:
    """What a harm guard compares, by id: p − z, where z is 1 if a run met the target (M26)."""
    new = asked.alike(episodes, any_horizon=True)
    _check_group(asked.fitted, new[0], group)
    if t >= new[0].horizon:
        return {}
    each = zip(new[0].ids.tolist(), _excess(asked, t, group, new).tolist(), strict=True)
    return {name: (one,) for name, one in each if one == one}


def _excess(asked: Asked, t: int, group: int, episodes: Sequence[Episodes]) -> FloatArray:
    """(episodes,): p − z, or NaN; the episodes are given once for each behavior."""
    found: FloatArray = p_at(asked, t, group, episodes) - asked.met(episodes)
    return found


def _check_group(fitted: Fitted, episodes: Episodes, group: int) -> None:
    if np.any(fitted.groups_in(episodes) != group):
        raise GroupError(
            "this guard is for one group, got episodes of another; make a guard for each group"
        )


def guard_of(
    fitted: Fitted, *, t: int, level: Level, group: int, resume: str | Path | None = None
) -> DriftGuard:
    """A guard: a test that detects any change, at one step and for one group of runs."""
    check_guarded(fitted, t, group)
    ranks = fitted.at(t, group).ranks
    bet = DriftBet(ranks.values, seed=fitted.trained.seed, level=level, t=t)
    guard = DriftGuard(
        bet, partial(_noted_limits, fitted, t, group), KeptFor.of("drift", fitted, t, level, group)
    )
    return guard if resume is None else guard._resume(resume)


def harm_guard_of(
    asked: Asked, *, t: int, level: Level, group: int, resume: str | Path | None = None
) -> DriftGuard:
    """A guard: a test that detects that p of the target has become too high, at one step."""
    for part in asked.parts:
        check_guarded(part, t, group)
    first = asked.fitted
    own = np.flatnonzero(first.assure_groups[first.known_outcomes] == group)
    assured = _excess(asked, t, group, [one.take(own) for one in asked.observed])
    bet = HarmBet(assured[~np.isnan(assured)], seed=first.trained.seed, level=level)
    each = "".join(map(digest_of, asked.parts))
    about = KeptFor.of("harm", first, t, level, group)
    noted = partial(_noted_excess, asked, t, group)
    guard = DriftGuard(bet, noted, replace(about, monitor=each, target=str(asked.target)))
    return guard if resume is None else guard._resume(resume)


def check_guarded(fitted: Fitted, t: int, group: int) -> None:
    """Raise an error if there are no assure episodes to compare with at step t."""
    ranks, trouble = fitted.at(t, group).ranks, fitted.unknown(t, group)
    if trouble:
        raise CalibrationError(f"step {t} cannot be guarded: {trouble}")
    if fitted.stopped[group]:
        raise CensoredError(
            f"a drift guard needs assure episodes that were not cut off, and "
            f"{fitted.stopped[group]:,} were, so the others are a selection that differs from new "
            f"runs; record assure episodes to their end"
        )
    if not ranks.n:
        raise FewEpisodesError(
            f"a drift guard needs assure episodes that reach step {t}, and this monitor has none; "
            "fit with a split that has some"
        )
