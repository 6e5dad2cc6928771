"""The drift guard: a test, valid after every episode, of whether the process changed (M10)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._keyed import keyed_hash, keyed_uniform
from ontarget._typing import ArrayLike
from ontarget.conformal._levels import Level, exact_level
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.errors import (
    CalibrationError,
    CensoredError,
    FewEpisodesError,
    GroupError,
    InputError,
)
from ontarget.fitted.fitted import Fitted

__all__ = ["DriftBet", "DriftGuard", "DriftReading", "guard_of"]

# Both limits of the law at the outcome of each episode that reaches the guarded step with a good
# reading, by id.
LimitsOf: TypeAlias = Callable[[Episodes], dict[object, tuple[float, float]]]

_SLOPES = (-1.0, 0.0, 1.0)
_JUMP = 0.01


class DriftReading(NamedTuple):
    """The evidence of drift after an episode.

    Attributes
    ----------
    n
        How many episodes were observed.
    p
        The episode's rank among those before it, as a number in (0, 1); uniform without drift.
    evidence
        The money of a gambler who started with 1 and bets that something has changed. As long as
        nothing changes, the chance that it ever reaches 1/(1 − level) is at most 1 − level.
    alarm
        Whether the evidence ever reached that limit.
    """

    n: int
    p: float
    evidence: float
    alarm: bool


class _Jumper:
    """A test martingale that bets on low, high or evenly spread numbers, and can switch.

    Three gamblers share the money. Each bets with a fixed slope on a number's distance from ½.
    After every number, a small part of the money is shared out between them.
    """

    def __init__(self) -> None:
        self._shares = [1.0 / len(_SLOPES)] * len(_SLOPES)
        self._log_wealth = 0.0

    def bet(self, u: float) -> float:
        """The log of the wealth after one more number from (0, 1)."""
        even = _JUMP / len(_SLOPES)
        grown = [
            ((1.0 - _JUMP) * share + even) * (1.0 + slope * (u - 0.5))
            for share, slope in zip(self._shares, _SLOPES, strict=True)
        ]
        total = sum(grown)
        self._shares = [part / total for part in grown]
        self._log_wealth += math.log(total)
        return self._log_wealth


class DriftBet:
    """Two bets on ranks of finished episodes, one on their level and one on their spread.

    Parameters
    ----------
    ranks
        The ranks of the guarded step, those of the assure episodes.
    seed
        The seed of the random draws, which also depend on a running count of the episodes. They do
        not depend on ids, because a repeated id would repeat a draw, and look like drift (M10).
    level
        The probability of never raising a false alarm.
    t
        The guarded step.
    """

    def __init__(self, ranks: ArrayLike, *, seed: int = 0, level: Level = 0.99, t: int = 0) -> None:
        missed = float(1 - exact_level(level))
        self._bag: list[float] = np.sort(np.asarray(ranks, dtype=np.float64)).tolist()
        self._seed, self._t = seed, t
        self._log_limit = -math.log(missed)
        self._level, self._spread = _Jumper(), _Jumper()
        self._n = 0
        self._alarm = False

    def observe_limits(self, left: float, right: float) -> DriftReading:
        """The evidence after an episode, given both limits of the predicted CDF at its outcome."""
        keys = keyed_hash(np.array([self._n], dtype=np.uint64), self._seed, "drift rank")
        ranks = draw_ranks(np.array([left]), np.array([right]), keys, seed=self._seed, step=self._t)
        return self.observe(float(ranks[0]))

    def observe(self, rank: float) -> DriftReading:
        """The evidence after one more finished episode; pass them in the order they started."""
        below, upto = bisect_left(self._bag, rank), bisect_right(self._bag, rank)
        count = np.array([self._n], dtype=np.uint64)
        tie = float(keyed_uniform(count, self._seed, "drift")[0])
        p = (below + tie * (upto - below + 1)) / (len(self._bag) + 1)
        insort(self._bag, rank)  # a bag that does not grow raises false alarms (M10)
        self._n += 1
        level, spread = self._level.bet(p), self._spread.bet(abs(2.0 * p - 1.0))
        higher, lower = max(level, spread), min(level, spread)
        log_evidence = higher + math.log1p(math.exp(lower - higher)) - math.log(2.0)
        self._alarm = self._alarm or log_evidence >= self._log_limit
        evidence = math.exp(min(log_evidence, 700.0))
        return DriftReading(self._n, p, evidence, self._alarm)


class DriftGuard:
    """A guard that collects evidence from finished episodes that the process has changed.

    Episodes must be counted in the order in which they **started**. If they overlap in time,
    announce each with `begin`. Then `observe` keeps an episode that finishes early until those that
    started before it are in. If an announced episode will never be observed, `withdraw` it.

    Every episode counts only once: an id that the guard has seen is refused.

    A guard can be pickled and deep-copied, so it outlives the process: the copy goes on from the
    same evidence.

    Examples
    --------
    >>> from ontarget import Episodes, GoalMonitor
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(302, 3, 1)), rng.normal(size=(302, 3)))
    >>> guard = GoalMonitor().fit(walks.take(range(300)), progress=False).drift_guard()
    >>> guard.begin(300)
    >>> guard.begin(301)
    >>> guard.observe(walks.take([301])).n  # it waits for the one that began before it
    0
    >>> guard.withdraw(300).n  # which broke down and has no outcome
    1
    """

    def __init__(self, bet: DriftBet, limits: LimitsOf, t: int) -> None:
        self._bet = bet
        self._limits = limits
        self.t = t
        self._seen: set[object] = set()  # begun, observed or withdrawn
        self._order: dict[object, None] = {}  # announced and not yet counted, by start
        self._announced = False
        self._held: dict[object, tuple[float, float] | None] = {}
        self.reading = DriftReading(0, math.nan, 1.0, alarm=False)

    def begin(self, episode_id: object) -> None:
        """Announce an episode that starts now."""
        if episode_id in self._seen:
            raise InputError(
                f"episode {episode_id!r} has begun already, or was observed or withdrawn; give "
                "each run an id of its own"
            )
        self._announced = True
        self._seen.add(episode_id)
        self._order[episode_id] = None

    def withdraw(self, episode_id: object) -> DriftReading:
        """The evidence after an announced episode was taken back, because it will not be observed.

        Episodes that were waiting for it are counted now. Never withdraw an episode because of its
        outcome: the remaining ones would no longer be like those recorded.
        """
        if episode_id not in self._order or episode_id in self._held:
            raise InputError(
                f"withdraw needs an episode that was announced by begin and not observed, "
                f"got {episode_id!r}"
            )
        del self._order[episode_id]
        return self._count()

    def observe(self, episodes: Episodes) -> DriftReading:
        """The evidence after these finished episodes, one or more, in the order they started.

        An episode that ended before the guarded step, or has a bad reading there, is passed over.
        """
        limits, ids = self._limits(episodes), episodes.ids.tolist()
        for episode_id in ids:
            self._check_new(episode_id)
        for episode_id in ids:
            self._held[episode_id] = limits.get(episode_id)
            if not self._announced:
                self._seen.add(episode_id)
                self._order[episode_id] = None
        return self._count()

    def _check_new(self, episode_id: object) -> None:
        """Refuse an episode that would count twice, or out of turn."""
        waiting = episode_id in self._order and episode_id not in self._held
        if not waiting and episode_id in self._seen:
            raise InputError(
                f"episode {episode_id!r} was observed or withdrawn already; each run counts once, "
                "under an id of its own"
            )
        if not waiting and self._announced:
            raise InputError(
                f"episode {episode_id!r} never began; announce all with begin, or none"
            )

    def _count(self) -> DriftReading:
        """Bet on the waiting episodes for which no earlier one is missing."""
        while self._order and (first := next(iter(self._order))) in self._held:
            del self._order[first]
            limits = self._held.pop(first)
            if limits is not None:
                self.reading = self._bet.observe_limits(*limits)
        return self.reading


@dataclass(frozen=True)
class _GuardedStep:
    """Gives the limits at the outcomes of finished episodes; a class, so that it can be pickled."""

    fitted: Fitted
    t: int
    group: int

    def __call__(self, episodes: Episodes) -> dict[object, tuple[float, float]]:
        fitted = self.fitted
        episodes = fitted.alike(episodes, any_horizon=True)
        if np.any(fitted.groups_in(episodes) != self.group):
            raise GroupError("this guard is for one group; guard each group by itself")
        if self.t >= episodes.horizon:
            return {}
        at, rows = fitted.at(self.t, self.group), episodes.at(self.t, grid=fitted.grid)
        left, right = at.cdf_limits(at.inputs(rows.states, rows.behavior), rows.response)
        good = ~fitted.bad_readings(rows.states)
        pairs = zip(left[good].tolist(), right[good].tolist(), strict=True)
        return dict(zip(rows.ids[good].tolist(), pairs, strict=True))


def guard_of(fitted: Fitted, *, t: int, level: Level, group: int) -> DriftGuard:
    """The guard of one step."""
    ranks, trouble = fitted.at(t, group).ranks, fitted.unknown(t, group)
    if trouble:
        raise CalibrationError(f"step {t} cannot be guarded: {trouble}")
    if fitted.stopped[group]:
        raise CensoredError(
            f"{fitted.stopped[group]:,} assure episodes were cut off, so the others are a "
            "selection that new runs differ from; a drift guard needs episodes that all ended"
        )
    if not ranks.n:
        raise FewEpisodesError(
            f"a drift guard needs assure episodes that reach step {t}, and this monitor has none; "
            "fit with a split that has some"
        )
    bet = DriftBet(ranks.values, seed=fitted.trained.seed, level=level, t=t)
    return DriftGuard(bet, _GuardedStep(fitted, t, group), t)
