"""Is the calibration still valid? A test that may be read after every episode (M10)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._keyed import keyed_hash, keyed_uniform, keys_of
from ontarget._typing import ArrayLike
from ontarget.conformal._levels import Level, exact_level
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.errors import CalibrationError, GroupError, InputError
from ontarget.fitted.fitted import Fitted

__all__ = ["DriftBet", "DriftGuard", "DriftReading", "guard_of"]

# The rank of each episode that reaches the guarded step with a good reading, by id.
RankOf: TypeAlias = Callable[[Episodes], dict[object, float]]

_SLOPES = (-1.0, 0.0, 1.0)
_JUMP = 0.01


class DriftReading(NamedTuple):
    """The evidence of drift after an episode.

    Attributes
    ----------
    n
        How many episodes were observed.
    p
        The episode's place among those before it: uniform while nothing drifts.
    evidence
        The wealth of a bet against "nothing has changed" that started at 1. As long as nothing
        changes, the chance that it ever reaches 1/(1 − level) is at most 1 − level.
    alarm
        Whether it ever did.
    """

    n: int
    p: float
    evidence: float
    alarm: bool


class _Jumper:
    """A test martingale that bets on low, high or even numbers, and may change its mind.

    Three gamblers share the wealth. Each bets by a slope on a number's distance from ½, and at
    every turn a small part of the wealth moves between them.
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
        The calibration ranks of the declared step.
    seed
        Keys the tie-breaking, with each episode's id.
    level
        The probability of never raising a false alarm.
    """

    def __init__(self, ranks: ArrayLike, *, seed: int = 0, level: Level = 0.99) -> None:
        missed = float(1 - exact_level(level))
        self._bag: list[float] = np.sort(np.asarray(ranks, dtype=np.float64)).tolist()
        self._seed = seed
        self._log_limit = -math.log(missed)
        self._level, self._spread = _Jumper(), _Jumper()
        self._n = 0
        self._alarm = False

    def observe(self, rank: float, episode_id: object) -> DriftReading:
        """The evidence after one more finished episode; feed them in the order they started."""
        below, upto = bisect_left(self._bag, rank), bisect_right(self._bag, rank)
        tie = float(keyed_uniform(keys_of(np.array([episode_id])), self._seed, "drift")[0])
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

    Episodes that overlap in time must be fed in the order in which they **started**: announce each
    with `begin`, and `observe` holds back early finishers until those before them are in.

    Examples
    --------
    See `GoalMonitor.drift_guard`.
    """

    def __init__(self, bet: DriftBet, rank: RankOf, t: int) -> None:
        self._bet = bet
        self._rank = rank
        self.t = t
        self._announced = False
        self._order: list[object] = []
        self._held: dict[object, float | None] = {}
        self.reading = DriftReading(0, math.nan, 1.0, alarm=False)

    def begin(self, episode_id: object) -> None:
        """Announce an episode that starts now."""
        if episode_id in self._order:
            raise InputError(f"episode {episode_id!r} has begun already")
        self._announced = True
        self._order.append(episode_id)

    def observe(self, episodes: Episodes) -> DriftReading:
        """The evidence after these finished episodes, one or more, in the order they started.

        An episode that ended before the guarded step, or has a bad reading there, says nothing
        about it, and nobody waits for it.
        """
        ranks = self._rank(episodes)
        for episode_id in episodes.ids.tolist():
            if not self._announced:
                self._bet_on(episode_id, ranks.get(episode_id))
                continue
            if episode_id not in self._order:
                raise InputError(
                    f"episode {episode_id!r} never began; announce all with begin, or none"
                )
            self._held[episode_id] = ranks.get(episode_id)
            while self._order and self._order[0] in self._held:
                first = self._order.pop(0)
                self._bet_on(first, self._held.pop(first))
        return self.reading

    def _bet_on(self, episode_id: object, rank: float | None) -> None:
        if rank is not None:
            self.reading = self._bet.observe(rank, episode_id)


def guard_of(fitted: Fitted, *, t: int, level: Level, group: int) -> DriftGuard:
    """The guard of one step's calibration."""
    at, trouble = fitted.at(t, group), fitted.unknown(t, group)
    if trouble:
        raise CalibrationError(f"step {t} cannot be guarded: {trouble}")
    seed = fitted.trained.seed

    def rank(episodes: Episodes) -> dict[object, float]:
        fitted.check_alike(episodes, any_horizon=True)
        if np.any(fitted.groups_in(episodes) != group):
            raise GroupError("this guard is for one group; guard each group by itself")
        if t >= episodes.horizon:
            return {}
        rows = episodes.at(t, grid=fitted.grid)
        left, right = at.cdf_limits(at.inputs(rows.states, rows.behavior), rows.response)
        # Draws of their own: an id that was also a calibration episode's must not repeat its draw.
        keys = keyed_hash(rows.keys, seed, "drift rank")
        ranks = draw_ranks(left, right, keys, seed=seed, step=t)
        good = ~fitted.bad_readings(rows.states)
        return dict(zip(rows.ids[good].tolist(), ranks[good].tolist(), strict=True))

    return DriftGuard(DriftBet(at.ranks.values, seed=seed, level=level), rank, t)
