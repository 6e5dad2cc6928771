"""Comparing new episodes with the assure episodes at one step (M10, M26)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from ontarget._keyed import keyed_hash
from ontarget._plain import plain
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.conformal._levels import Level, exact_level
from ontarget.conformal._ranks import Ranks
from ontarget.drift.bets import DriftBet, HarmBet
from ontarget.drift.change import UNKNOWN_ORDER, Bias, Drift, Evidence
from ontarget.drift.guard import NotedStep, check_guarded
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import seen_before
from ontarget.errors import CalibrationError, EpisodesError, InputError
from ontarget.evaluation._labels import labelled
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.target_map import Calibrated
from ontarget.target import Target

__all__ = ["Order", "drift_of"]

# One value per episode by which they started, or the name of a column and these.
Order: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_LEVEL = 0.95  # of the ranges around how far p is off
# An order that tells outcomes this well is no order of time; fewer runs than enough show little.
_SORTED, _ENOUGH = 0.9, 20


def drift_of(
    fitted: Fitted,
    episodes: Episodes,
    target: Target,
    *,
    calibration: Calibrated | None = None,
    order: Order | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    level: Level = 0.99,
    t: int = 0,
) -> Drift:
    """What these episodes say of drift; see `GoalMonitor.drift`."""
    name, times = _named(order)
    new = fitted.alike(episodes)
    seen = seen_before(new, fitted.trained.fingerprints)
    if seen.size:
        raise CalibrationError(
            "drift can be told by new episodes only, and the monitor was fitted on "
            f"{seen.size:,} of these {len(new):,} (first: episode {new.ids[seen[0]]!s}); leave "
            "them out"
        )
    groups = fitted.groups_in(new)
    sides = [_Side(fitted, t, g, target, calibration) for g in np.unique(groups).tolist()]
    limits, p = np.full((len(new), 2), np.nan), np.full(len(new), np.nan)
    met = target.contains(new.outcomes, fitted.grid)
    for side in sides:
        own = np.flatnonzero(groups == side.group)
        limits[own], p[own] = side.answers(new.take(own))
    turn, trouble = _turns(new, times, fitted.trained.seed)
    turn = turn[~np.isnan(p[turn])]
    if not turn.size:
        raise EpisodesError(
            f"none of these {len(new):,} episodes reaches step {t} with a good reading, so nothing "
            "can be compared; choose an earlier step, or look at the feature columns"
        )
    excess = p - met
    change = _evidence([side.drift_bet(level) for side in sides], groups[turn], limits[turn], level)
    harm = _evidence([side.harm_bet(level) for side in sides], groups[turn], excess[turn], level)
    assured = [side.assured for side in sides]
    since, later = None, turn[:0]
    if not trouble and (change.alarm_after or harm.alarm_after) is not None:
        possible = _fresh(times, turn)
        if change.alarm_after is not None:
            since = _since(_places(sides, groups[turn], limits[turn]), possible)
        else:
            usual = np.concatenate([p_then - met_then for p_then, met_then in assured])
            since = _risen(excess[turn] - usual.mean(), possible)
        later = turn[since:]
    return Drift(
        target=target,
        t=t,
        n=int(turn.size),
        change=change,
        harm=harm,
        bias=_bias(p[turn], met[turn]),
        before=_bias(*(np.concatenate(one) for one in zip(*assured, strict=True))),
        since=since,
        since_value="" if since is None else str(np.asarray(times)[turn[since]]),
        order=trouble,
        parts=_parts(by or {}, turn, p, met),
        now=_bias(p[later], met[later]) if later.size >= _ENOUGH else None,
        since_column=name,
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """One group at the step: its assure episodes, and what is said of new ones."""

    fitted: Fitted
    t: int
    group: int
    target: Target
    calibration: Calibrated | None

    def __post_init__(self) -> None:
        check_guarded(self.fitted, self.t, self.group)

    @property
    def _noted(self) -> NotedStep:
        return NotedStep(self.fitted, self.t, self.group, self.target, self.calibration)

    def answers(self, new: Episodes) -> tuple[FloatArray, FloatArray]:
        """Both limits of the law at each outcome, and p; NaN where the step is not reached."""
        limits, p = np.full((len(new), 2), np.nan), np.full(len(new), np.nan)
        rows = NotedStep(self.fitted, self.t, self.group)(new)
        own = np.array(
            [i for i, name in enumerate(new.ids.tolist()) if name in rows], dtype=np.intp
        )
        met = self.target.contains(new.outcomes, self.fitted.grid)
        if own.size:
            limits[own] = [rows[name] for name in new.ids[own].tolist()]
            noted = self._noted(new)
            p[own] = met[own] + np.array([noted[name][0] for name in new.ids[own].tolist()])
        return limits, p

    @cached_property
    def assured(self) -> tuple[FloatArray, BoolArray]:
        """What p was for the group's assure episodes, and which of them met the target."""
        fitted = self.fitted
        assert fitted.observed is not None  # the step has ranks
        old = fitted.observed.take(fitted.assure_groups[fitted.known_outcomes] == self.group)
        met = self.target.contains(old.outcomes, fitted.grid)
        p = self.answers(old)[1]
        return p[~np.isnan(p)], met[~np.isnan(p)]

    @property
    def ranks(self) -> Ranks:
        """The ranks of the assure episodes."""
        return self.fitted.at(self.t, self.group).ranks

    def drift_bet(self, level: Level) -> tuple[int, DriftBet | HarmBet]:
        """The group, and a bet that anything has changed."""
        seed = self.fitted.trained.seed
        return self.group, DriftBet(self.ranks.values, seed=seed, level=level, t=self.t)

    def harm_bet(self, level: Level) -> tuple[int, DriftBet | HarmBet]:
        """The group, and a bet that p has become too high."""
        p, met = self.assured
        return self.group, HarmBet(p - met, seed=self.fitted.trained.seed, level=level)


def _named(order: Order | None) -> tuple[str, ArrayLike | None]:
    """The name of the column that orders the episodes, if it has one, and its values."""
    if not isinstance(order, Mapping):
        return "", order
    if len(order) != 1:
        raise InputError(
            f"order needs one column, got {len(order)}: {', '.join(map(plain, order))}"
        )
    return next(iter(order.items()))


def _turns(new: Episodes, order: ArrayLike | None, seed: int) -> tuple[IndexArray, str]:
    """The episodes in the order in which they are bet on, and why it is not the order of time.

    They then come by lot, keyed on their ids: a file that is sorted by result must not look like a
    change.
    """
    lots = keyed_hash(new.keys, seed, "drift order")
    by_lot = np.argsort(lots, kind="stable")
    if order is None:
        return by_lot, UNKNOWN_ORDER
    given = np.asarray(order)
    if given.shape != (len(new),):
        raise InputError(
            f"order needs one value for each of {len(new):,} episodes, got the shape {given.shape}"
        )
    if any(one is None or one != one for one in given.tolist()):
        raise InputError("order needs a value for every episode, and some are missing")
    try:
        places = np.unique(given, return_inverse=True)[1]
    except TypeError as error:
        raise InputError("order needs values of one kind: numbers, times or texts") from error
    alike = _rank_correlation(places, new.outcomes)
    if len(new) >= _ENOUGH and abs(alike) > _SORTED:
        return by_lot, (
            f"one that sorts them by their outcome (rank correlation {alike:.2f}): that is no "
            "order of time, so the runs were taken by lot"
        )
    return np.lexsort((lots, places)), ""  # a day's runs by lot, however the file sorts them


def _rank_correlation(one: AnyArray, other: AnyArray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _evidence(
    bets: list[tuple[int, DriftBet | HarmBet]], groups: IndexArray, noted: FloatArray, level: Level
) -> Evidence:
    """A bet over the episodes in turn; groups bet each for itself, with an equal share of money."""
    limit, rows = float(1 / (1 - exact_level(level))), noted.reshape(len(noted), -1)
    total = np.zeros(len(noted))
    for g, bet in bets:
        own = np.flatnonzero(groups == g)
        money = np.array([1.0, *(one.evidence for one in bet.observe_noted(rows[own]))])
        total += money[np.cumsum(groups == g)] / len(bets)
    reached = np.flatnonzero(total >= limit)
    after = int(reached[0]) + 1 if reached.size else None
    return Evidence(max(1.0, float(total.max())), limit, after)


def _places(sides: list[_Side], groups: IndexArray, limits: FloatArray) -> FloatArray:
    """Where each outcome lies among those of its group's assure episodes, as a share."""
    found = np.empty(len(limits))
    for side in sides:
        own = groups == side.group
        below, upto = side.ranks.counts(limits[own].mean(axis=1))
        found[own] = (below + upto + 1.0) / (2.0 * side.ranks.n + 2.0)
    return found


def _fresh(times: ArrayLike | None, turn: IndexArray) -> BoolArray:
    """Which episodes are the first of their time: within a day, they come by lot."""
    ordered = np.asarray(times)[turn]
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def _since(place: FloatArray, possible: BoolArray) -> int:
    """From which possible episode on the places differ most from even ones, in level or spread."""
    found = []
    for one in (place - 0.5, np.abs(2.0 * place - 1.0) - 0.5):
        to_the_end = np.cumsum(one[::-1])[::-1]
        found.append(to_the_end**2 / np.arange(one.size, 0, -1) / max(float(one.var()), 1e-12))
    return int(np.argmax(np.where(possible, np.maximum(*found), -1.0)))


def _risen(excess: FloatArray, possible: BoolArray) -> int:
    """From which possible episode on p lies highest above what came true, compared with before."""
    to_the_end = np.cumsum(excess[::-1])[::-1] / np.sqrt(np.arange(excess.size, 0, -1))
    return int(np.argmax(np.where(possible, to_the_end, -math.inf)))


def _bias(
    p: FloatArray, met: BoolArray, *, level: float = _LEVEL, column: str = "", value: str = ""
) -> Bias:
    off = p - met
    reach = math.inf
    if off.size > 1:
        reach = float(ndtri((1.0 + level) / 2.0) * off.std(ddof=1) / math.sqrt(off.size))
    mean = float(off.mean())
    said, share = float(p.mean()), float(met.mean())
    return Bias(off.size, said, share, mean, mean - reach, mean + reach, column, value)


def _parts(
    by: Mapping[str, ArrayLike], turn: IndexArray, p: FloatArray, met: BoolArray
) -> tuple[Bias, ...]:
    """How far p is off for each value of each column; the more values, the wider the ranges."""
    coded = []
    for column, values in by.items():
        given = np.asarray(values, dtype=object)
        if given.shape != p.shape:
            raise InputError(
                f"by needs one value for each of {p.size:,} episodes, got the shape {given.shape} "
                f"for {column!r}"
            )
        coded.append((column, *labelled(given[turn], column)))
    n = sum(len(labels) for _, labels, _ in coded)
    return tuple(
        _bias(
            p[turn][codes == code],
            met[turn][codes == code],
            level=1.0 - (1.0 - _LEVEL) / n,
            column=column,
            value=label,
        )
        for column, labels, codes in coded
        for code, label in enumerate(labels)
    )
