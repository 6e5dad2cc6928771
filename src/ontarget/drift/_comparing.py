"""Compares new episodes with the assure episodes (held out for promises) at one step.

See methods M10 and M26 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

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
from ontarget.drift.guard import NotedGoal, NotedStep, check_guarded
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import seen_before
from ontarget.episodes.looking._sides import check_goal_sides, check_sides
from ontarget.errors import CalibrationError, EpisodesError, InputError
from ontarget.evaluation._labels import labelled
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import GoalQuestion, Joint
from ontarget.fitted.target_map import Calibrated, TargetMap
from ontarget.goal import Goal
from ontarget.target import Target

__all__ = ["Order", "drift_of", "drift_of_goal"]

# One value per episode that says when it started; or a mapping from a column's name to these.
Order: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_LEVEL = 0.95  # the level of the ranges for how far p is off
# An order whose rank correlation with the outcomes exceeds _SORTED is not an order of time. With
# fewer runs than _ENOUGH this is not checked, and there is no separate range since the change.
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
    """Whether these episodes show drift; see `GoalMonitor.drift`."""
    new = fitted.alike(episodes)
    _refuse_seen(new, fitted)
    check_sides(new._unrounded, target, fitted.grid)
    groups = fitted.groups_in(new)
    sides = [_Side(fitted, t, g, target, calibration) for g in np.unique(groups).tolist()]
    limits, p = np.full((len(new), 2), np.nan), np.full(len(new), np.nan)
    for side in sides:
        own = np.flatnonzero(groups == side.group)
        limits[own], p[own] = side.answers(new.take(own))
    told = _Told(p, target.contains(new.outcomes, fitted.grid), groups, [(sides, limits)])
    harm = {side.group: side.assured for side in sides}
    asked = _Asked(target, t, level, fitted.trained.seed)
    return _drift(asked, told, harm, new, order, by or {})


def drift_of_goal(
    joint: Joint,
    question: GoalQuestion,
    episodes: Episodes,
    *,
    own_map: TargetMap | None = None,
    order: Order | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    level: Level = 0.99,
    t: int = 0,
) -> Drift:
    """Whether these episodes show drift, for a goal over several behaviors.

    The evidence is the money of gamblers who bet on a change. The evidence of any change is the
    average of one bet per behavior. The evidence of harm is one bet that p of the goal has become
    too high.
    """
    new = joint.alike(episodes)
    first, seed = new[question.names[0]], joint.first.trained.seed
    _refuse_seen(first, joint.first)
    check_goal_sides(
        {name: new[name]._unrounded for name in question.names}, question.goal, joint.grids
    )
    groups = joint.first.groups_in(first)
    p, met = (
        np.full(len(first), np.nan),
        question.goal.contains({name: new[name].outcomes for name in question.names}, joint.grids),
    )
    harm = {}
    sides: dict[str, list[_Side]] = {name: [] for name in question.names}
    limits = {name: np.full((len(first), 2), np.nan) for name in question.names}
    for g in np.unique(groups).tolist():
        own, noted = np.flatnonzero(groups == g), NotedGoal(joint, question, t, g, own_map)
        for name in question.names:
            side = _Side(joint.parts[name], t, g, question.goal.projection(name), None)
            sides[name].append(side)
            limits[name][own] = side.answers(new[name].take(own))[0]
        p[own] = noted.p({name: one.take(own) for name, one in new.items()})
        harm[g] = noted.assured
    told = _Told(p, met, groups, [(sides[name], limits[name]) for name in question.names])
    asked = _Asked(question.goal, t, level, seed)
    return _drift(asked, told, harm, first, order, by or {})


class _Asked(NamedTuple):
    """What a comparison of episodes is about: the target, the step, the level and the seed.

    With the probability ``level`` there is no false alarm.
    """

    target: Target | Goal
    t: int
    level: Level
    seed: int


class _Told(NamedTuple):
    """What is known about the new episodes.

    ``p`` is p of each episode at the step (NaN if a value is missing or unreadable there), ``met``
    whether the episode met the target, ``groups`` the number of its group. ``laws`` has, for each
    behavior, its groups, and an array (episodes, 2): the predicted probabilities of an outcome
    below the one that the episode really had, and of an outcome at or below it.
    """

    p: FloatArray
    met: BoolArray
    groups: IndexArray
    laws: list[tuple[list[_Side], FloatArray]]


def _drift(
    asked: _Asked,
    told: _Told,
    assured: Mapping[int, tuple[FloatArray, BoolArray]],
    new: Episodes,
    order: Order | None,
    by: Mapping[str, ArrayLike],
) -> Drift:
    """The result of the comparison of new episodes with the assure (held-out) episodes.

    ``assured`` has, for each group, p of its assure episodes and whether each met the target.
    ``order`` and ``by`` are as for `GoalMonitor.drift`.
    """
    name, times = _named(order)
    turn, trouble = _turns(new, times, asked.seed)
    n, (p, met, groups, laws) = turn.size, told
    turn = turn[~np.isnan(p[turn])]
    if not turn.size:
        raise EpisodesError(
            f"none of these {n:,} episodes reaches step {asked.t} with a good reading, so nothing "
            "can be compared; choose an earlier step, or look at the feature columns"
        )
    level, here = asked.level, groups[turn]

    def bets(laws: list[tuple[list[_Side], FloatArray]]) -> list[_Bet]:
        return [
            (side.group, side.drift_bet(level), limits[turn])
            for sides, limits in laws
            for side in sides
        ]

    change = _evidence(bets(laws), here, level)
    against: list[_Bet] = [
        (g, HarmBet(old - came, seed=asked.seed, level=level), (p - met)[turn])
        for g, (old, came) in assured.items()
    ]
    harm = _evidence(against, here, level)
    since, later = None, turn[:0]
    if not trouble and (change.alarm_after or harm.alarm_after) is not None:
        possible = _fresh(times, turn)
        if change.alarm_after is not None:
            # Of several behaviors, take the one with the strongest evidence of a change.
            told_by = [_evidence(bets([one]), here, level).highest for one in laws]
            sides, limits = laws[int(np.argmax(told_by))]
            since = _since(_places(sides, here, limits[turn]), possible)
        else:
            usual = np.concatenate([old - came for old, came in assured.values()])
            since = _risen((p - met)[turn] - usual.mean(), possible)
        later = turn[since:]
    return Drift(
        target=asked.target,
        t=asked.t,
        n=int(turn.size),
        change=change,
        harm=harm,
        bias=_bias(p[turn], met[turn]),
        before=_bias(*(np.concatenate(one) for one in zip(*assured.values(), strict=True))),
        since=since,
        since_value="" if since is None else str(np.asarray(times)[turn[since]]),
        order=trouble,
        parts=_parts(by, turn, p, met),
        now=_bias(p[later], met[later]) if later.size >= _ENOUGH else None,
        since_column=name,
        later=tuple(later.tolist()),
    )


def _refuse_seen(new: Episodes, fitted: Fitted) -> None:
    seen = seen_before(new, fitted.trained.fingerprints)
    if seen.size:
        raise CalibrationError(
            "drift needs episodes that the monitor has not seen, and it was fitted on "
            f"{seen.size:,} of these {len(new):,} (first: episode {new.ids[seen[0]]!s}); leave "
            "them out"
        )


@dataclass(frozen=True, eq=False)
class _Side:
    """One group of episodes at the step: the assure (held-out) ones, and predictions for new ones.

    The predictions come from the fitted monitor.
    """

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
        """What the monitor predicts for new episodes: (episodes, 2) and (episodes,).

        The first array has the predicted probabilities of an outcome below the one that the episode
        really had, and of an outcome at or below it. The second is p. NaN if there is no
        prediction.
        """
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
        """For the assure (held-out) episodes: p at the step, and whether each met the target."""
        fitted = self.fitted
        assert fitted.observed is not None  # the step has ranks
        old = fitted.observed.take(fitted.assure_groups[fitted.known_outcomes] == self.group)
        met = self.target.contains(old.outcomes, fitted.grid)
        p = self.answers(old)[1]
        return p[~np.isnan(p)], met[~np.isnan(p)]

    @property
    def ranks(self) -> Ranks:
        """The ranks of the assure (held-out) episodes at the step.

        A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.
        """
        return self.fitted.at(self.t, self.group).ranks

    def drift_bet(self, level: Level) -> DriftBet:
        """A new bet that anything has changed in this group of runs."""
        seed = self.fitted.trained.seed
        return DriftBet(self.ranks.values, seed=seed, level=level, t=self.t)


def _named(order: Order | None) -> tuple[str, ArrayLike | None]:
    """The name of the column to sort the episodes by (empty if it has none), and its values."""
    if not isinstance(order, Mapping):
        return "", order
    if len(order) != 1:
        raise InputError(
            f"`order` needs one column, got {len(order)}: {', '.join(map(plain, order))}"
        )
    return next(iter(order.items()))


def _turns(new: Episodes, order: ArrayLike | None, seed: int) -> tuple[IndexArray, str]:
    """The order in which to compare the episodes, and a text why it is not their order in time.

    The text is empty if the episodes are compared in the order of their times. Otherwise they are
    shuffled by a hash of their ids, because a file that is sorted by result must not look like a
    change.
    """
    lots = keyed_hash(new.keys, seed, "drift order")
    by_lot = np.argsort(lots, kind="stable")
    if order is None:
        return by_lot, UNKNOWN_ORDER
    given = np.asarray(order)
    if given.shape != (len(new),):
        raise InputError(
            f"`order` needs one value for each of {len(new):,} episodes, got shape {given.shape}"
        )
    if any(one is None or one != one for one in given.tolist()):
        raise InputError("`order` needs a value for every episode, and some values are missing")
    try:
        places = np.unique(given, return_inverse=True)[1]
    except TypeError as error:
        raise InputError("`order` needs values of one kind: numbers, times or texts") from error
    alike = _rank_correlation(places, new.outcomes)
    if len(new) >= _ENOUGH and abs(alike) > _SORTED:
        return by_lot, (
            f"one that sorts them by their outcome (rank correlation {alike:.2f}), so it cannot be "
            "an order of time, and the runs were taken in random order"
        )
    return np.lexsort((lots, places)), ""  # runs with equal times in random order


def _rank_correlation(one: AnyArray, other: AnyArray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


_Bet: TypeAlias = tuple[int, DriftBet | HarmBet, FloatArray]


def _evidence(bets: list[_Bet], groups: IndexArray, level: Level) -> Evidence:
    """The evidence of a change from several bets together, over episodes one after the other.

    The evidence is the money of a gambler who bets on a change. Each bet gets an equal share of the
    money. The average of fair bets is again a fair bet.
    """
    limit, total = float(1 / (1 - exact_level(level))), np.zeros(groups.size)
    for g, bet, noted in bets:
        own = np.flatnonzero(groups == g)
        rows = noted.reshape(groups.size, -1)[own]
        money = np.array([1.0, *(one.evidence for one in bet.observe_noted(rows))])
        total += money[np.cumsum(groups == g)] / len(bets)
    reached = np.flatnonzero(total >= limit)
    after = int(reached[0]) + 1 if reached.size else None
    return Evidence(max(1.0, float(total.max())), limit, after)


def _places(sides: list[_Side], groups: IndexArray, limits: FloatArray) -> FloatArray:
    """(episodes,): where each outcome falls among those of its group's held-out episodes.

    The result is from 0 to 1. The held-out episodes are the assure episodes. Outcomes are compared
    by where they fall in the distributions predicted for them: ``limits`` are the predicted
    probabilities of an outcome below the actual one, and of an outcome at or below it.
    """
    found = np.empty(len(limits))
    for side in sides:
        own = groups == side.group
        below, upto = side.ranks.counts(limits[own].mean(axis=1))
        found[own] = (below + upto + 1.0) / (2.0 * side.ranks.n + 2.0)
    return found


def _fresh(times: ArrayLike | None, turn: IndexArray) -> BoolArray:
    """(episodes,): whether each episode is the first of those with the same time.

    A change can only begin with such a first episode.
    """
    ordered = np.asarray(times)[turn]
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def _since(place: FloatArray, possible: BoolArray) -> int:
    """The position of the episode with which a change most likely began.

    From this episode on, the ranks in ``place`` differ most from uniform ones. A rank says where
    the episode's outcome falls among those of the assure (held-out) episodes. ``possible`` says
    with which episodes a change can begin.
    """
    found = []
    for one in (place - 0.5, np.abs(2.0 * place - 1.0) - 0.5):
        to_the_end = np.cumsum(one[::-1])[::-1]
        found.append(to_the_end**2 / np.arange(one.size, 0, -1) / max(float(one.var()), 1e-12))
    return int(np.argmax(np.where(possible, np.maximum(*found), -1.0)))


def _risen(excess: FloatArray, possible: BoolArray) -> int:
    """The position of the episode with which p most likely became too high.

    ``excess`` is how far p is too high for each episode; ``possible`` says with which episodes a
    change can begin.
    """
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
    """How far p is off for each value of each column in ``by``.

    The 95 % ranges are widened so that they hold for all values of all columns together.
    """
    coded = []
    for column, values in by.items():
        given = np.asarray(values, dtype=object)
        if given.shape != p.shape:
            raise InputError(
                f"`by` needs one value for each of {p.size:,} episodes, got shape {given.shape} "
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
