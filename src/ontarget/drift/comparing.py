"""Compares new episodes with the assure episodes at one step.

One exact test tells whether new runs differ from the recorded ones (M36), a permutation test: if
nothing has changed, every division of all runs into recorded and new ones was equally likely, so
the test divides them at random many times and counts how often they differ as much as they do.
See methods M10, M26 and M36 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from ontarget._keyed import keyed_hash
from ontarget._text import plain
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.conformal.levels import Level, exact_level
from ontarget.conformal.ranks import draw_ranks
from ontarget.drift.bets import DriftBet
from ontarget.drift.change import UNKNOWN_ORDER, Bias, Drift, Evidence
from ontarget.drift.guard import check_guarded, limits_at, p_at
from ontarget.episodes import Episodes
from ontarget.episodes.facts import seen_before
from ontarget.errors import Argument, CalibrationError, EpisodesError, InputError
from ontarget.evaluation import labelled
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.goal import Goal
from ontarget.target import Target

_MOST_MOVED = 50_000_000  # runs moved in all divisions together: about a second
_CHUNK = 1_000_000  # numbers in memory at a time
_LATER = (1, 4 / 3, 2, 4, 8)  # all new runs, the last three quarters, half, quarter, eighth
_FEWEST = 10  # runs in such a last part
_LATER_COST = 0.7  # standard errors: keeps the power for a change in all new runs (bench/drift.py)
_ROUNDING = 1e-9  # divisions that differ by less differ as much


def draws_for(rate: Fraction, n: int) -> int:
    """How many random divisions of n runs to try for a test with this rate of false alarms."""
    # 9,999 for 1 %, fewer if there are very many runs. One more than this number is a multiple of
    # 1/rate (up to rounding), so that no part of the rate is lost.
    times = min(100, max(4, int(_MOST_MOVED * rate / n)))
    return math.ceil(times / rate) - 1


def suffixes(n_new: int, *, ordered: bool) -> list[int]:
    """The numbers of last new runs that are compared with all others, from all new runs down."""
    sizes = [math.ceil(n_new / by) for by in _LATER[: len(_LATER) if ordered else 1]]
    return list(dict.fromkeys([n_new, *(size for size in sizes[1:] if size >= _FEWEST)]))


def p_value(
    scores: FloatArray,
    groups: IndexArray,
    sizes: list[int],
    *,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """The chance that runs differ at least as much as these if nothing has changed.

    ``scores`` (runs, scores) has the recorded runs first, then the new ones in their order;
    ``sizes`` says how many last rows are compared with all others, from all new runs down. The
    difference is the largest over the scores and sizes, each in standard errors; the sizes after
    the first count for a little less. Runs are exchanged within their group only. The result is
    (1 + b)/(1 + draws) for b random divisions that differ as much, which makes the test exact.
    """
    centred, error = _standardised(scores, groups, sizes)
    n, k = scores.shape
    new = n - sizes[0]
    starts = sizes[0] - np.array(sizes, dtype=np.intp)
    cost = np.where(starts > 0, _LATER_COST, 0.0)

    def differences(rows: FloatArray) -> FloatArray:
        parts = np.add.reduceat(rows, starts, axis=1)
        sums = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]  # of each part and all later ones
        found: FloatArray = ((np.abs(sums) / error).max(axis=2) - cost).max(axis=1)
        return found

    least = float(differences(centred[None, new:])[0]) - _ROUNDING
    own = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    as_much, chunk = 1, max(1, _CHUNK // (n * k))
    for first in range(0, draws, chunk):
        arranged = np.empty((min(chunk, draws - first), n), dtype=np.intp)
        for rows in own:
            moved = np.broadcast_to(rows, (len(arranged), rows.size))
            arranged[:, rows] = rng.permuted(moved, axis=1)
        as_much += int(np.count_nonzero(differences(centred[arranged[:, new:]]) >= least))
    return as_much / (draws + 1)


def _standardised(
    scores: FloatArray, groups: IndexArray, sizes: list[int]
) -> tuple[FloatArray, FloatArray]:
    """The scores minus the mean of their group, and the standard errors (sizes, scores) of sums."""
    # The sums are over that many last rows, if runs are exchanged within their group. A score that
    # is the same for all runs gets an infinite error, so that it plays no part.
    centred, variance = scores.astype(np.float64), np.zeros((len(sizes), scores.shape[1]))
    for g in np.unique(groups):
        own = groups == g
        centred[own] -= centred[own].mean(axis=0)
        n = int(np.count_nonzero(own))
        spread = (centred[own] ** 2).sum(axis=0) / max(n - 1, 1)
        for row, size in enumerate(sizes):
            drawn = int(np.count_nonzero(own[len(own) - size :]))
            variance[row] += spread * drawn * (n - drawn) / n
    scale = (
        (scores**2).mean(axis=0) * len(scores) * 1e-24
    )  # of a score that differs by rounding only
    return centred, np.where(variance > scale, np.sqrt(variance), math.inf)


# One value per episode that says when it started; or a mapping from a column's name to these.
Order: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_LEVEL = 0.95  # the level of the ranges for how far p is off
# An order whose rank correlation with the outcomes exceeds _SORTED is not an order of time. With
# fewer runs than _ENOUGH this is not checked, and there is no separate range since the change.
_SORTED, _ENOUGH = 0.9, 20


def drift_of(
    asked: Asked,
    episodes: Episodes,
    *,
    order: Order | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    level: Level = 0.99,
    t: int = 0,
) -> Drift:
    """Whether these episodes show drift; see `GoalMonitor.drift`."""
    new, first = asked.alike(episodes), asked.fitted
    _refuse_seen(new[0], first)
    groups = first.groups_in(new[0])
    present = np.unique(groups).tolist()
    for part, g in product(asked.parts, present):
        check_guarded(part, t, g)

    def compared(runs: Sequence[Episodes], groups: IndexArray) -> _Runs:
        limits, p = np.full((groups.size, len(runs), 2), np.nan), np.full(groups.size, np.nan)
        for g in present:
            own = np.flatnonzero(groups == g)
            some = [one.take(own) for one in runs]
            p[own] = p_at(asked, t, g, some)
            for i, (part, one) in enumerate(zip(asked.parts, some, strict=True)):
                limits[own, i] = limits_at(part, t, g, one)
        met = asked.met(runs)
        # For one behavior, p is what p − z was made of, so that its last bit stays what it was.
        return _Runs(limits, p if asked.is_joint else met + (p - met), met, groups)

    now = compared(new, groups)
    known = first.assure_groups[first.known_outcomes]
    kept = np.flatnonzero(np.isin(known, present))
    old = compared([one.take(kept) for one in asked.observed], known[kept])
    assert not isinstance(asked.target, tuple)
    return _drift(_Asked(asked.target, t, level), old, now, new[0], order, by or {})


class _Asked(NamedTuple):
    """What a comparison of episodes is about: the target, the step and the level.

    With the probability ``level`` no change is found if there is none.
    """

    target: Target | Goal
    t: int
    level: Level


class _Runs(NamedTuple):
    """What is compared of each run: numbers that depend on the run and the fitted models only.

    ``limits`` (runs, behaviors, 2) has the predicted probabilities of an outcome below the one that
    the run really had, and of an outcome at or below it; ``p`` is p at the step (NaN if a value is
    missing or unreadable there), ``met`` whether the run met the target, ``groups`` the number of
    its group.
    """

    limits: FloatArray
    p: FloatArray
    met: BoolArray
    groups: IndexArray

    def take(self, rows: IndexArray) -> _Runs:
        """These runs only."""
        return _Runs(self.limits[rows], self.p[rows], self.met[rows], self.groups[rows])

    @property
    def excess(self) -> FloatArray:
        """How far p was above z: p − z, where z is 1 if the run met the target and 0 if not."""
        return self.p - self.met


def _drift(
    asked: _Asked,
    old: _Runs,
    new: _Runs,
    episodes: Episodes,
    order: Order | None,
    by: Mapping[str, ArrayLike],
) -> Drift:
    """The result of the comparison of new episodes with the assure episodes."""
    name, times = _named(order)
    turn, trouble = _turns(episodes, times)
    n = turn.size
    turn = turn[~np.isnan(new.p[turn])]
    if not turn.size:
        raise EpisodesError(
            f"none of these {n:,} episodes reaches step {asked.t} with a good reading, so nothing "
            "can be compared; choose an earlier step, or look at the feature columns"
        )
    old, now = old.take(np.flatnonzero(~np.isnan(old.p))), new.take(turn)
    change = _evidence(asked, old, now, _key(episodes), ordered=not trouble)
    since, later = None, turn[:0]
    if not trouble and change.won:
        scores = _scores(old, now)
        usual = scores[: old.p.size]
        since = _since(scores[old.p.size :] - usual.mean(axis=0), _fresh(times, turn))
        later = turn[since:]
    return Drift(
        target=asked.target,
        t=asked.t,
        n=int(turn.size),
        change=change,
        bias=_bias(now.p, now.met),
        before=_bias(old.p, old.met),
        since=since,
        since_value="" if since is None else str(np.asarray(times)[turn[since]]),
        order=trouble,
        parts=_parts(by, turn, new.p, new.met),
        now=_bias(new.p[later], new.met[later]) if later.size >= _ENOUGH else None,
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


def _named(order: Order | None) -> tuple[str, ArrayLike | None]:
    """The name of the column to sort the episodes by (empty if it has none), and its values."""
    if not isinstance(order, Mapping):
        return "", order
    if len(order) != 1:
        raise InputError(
            Argument("order"),
            f" needs one column, got {len(order)}: {', '.join(map(plain, order))}",
        )
    return next(iter(order.items()))


def _turns(new: Episodes, order: ArrayLike | None) -> tuple[IndexArray, str]:
    """The order in which to compare the episodes, and a text why it is not their order in time."""
    # The text is empty if the episodes are compared in the order of their times. Otherwise their
    # order plays no part: they are sorted by a hash of their ids.
    lots = keyed_hash(new.keys, 0, "drift order")
    by_lot = np.argsort(lots, kind="stable")
    if order is None:
        return by_lot, UNKNOWN_ORDER
    given = np.asarray(order)
    if given.shape != (len(new),):
        raise InputError(
            Argument("order"),
            f" needs one value for each of {len(new):,} episodes, got shape {given.shape}",
        )
    if any(one is None or one != one for one in given.tolist()):
        raise InputError(
            Argument("order"), " needs a value for every episode, and some values are missing"
        )
    try:
        places = np.unique(given, return_inverse=True)[1]
    except TypeError as error:
        raise InputError(
            Argument("order"), " needs values of one kind: numbers, times or texts"
        ) from error
    alike = _rank_correlation(places, new.outcomes)
    if len(new) >= _ENOUGH and abs(alike) > _SORTED:
        return by_lot, (
            f"one that sorts them by their outcome (rank correlation {alike:.2f}), so it cannot be "
            "an order of time, and is not used"
        )
    return np.lexsort((lots, places)), ""  # runs with equal times in random order


def _rank_correlation(one: AnyArray, other: AnyArray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _key(new: Episodes) -> int:
    """A number that depends on which episodes these are, not on their order or the fit's seed."""
    return int.from_bytes(blake2b(np.sort(new.keys).tobytes(), digest_size=8).digest(), "little")


def _evidence(asked: _Asked, old: _Runs, new: _Runs, key: int, *, ordered: bool) -> Evidence:
    """Whether new runs differ from the old ones: one test, one rate of false alarms (M36)."""
    rate = 1 - exact_level(asked.level)
    bets = rate / 4 if ordered else Fraction(0)
    allowed = rate - bets
    groups = np.concatenate([old.groups, new.groups])
    chance = p_value(
        _scores(old, new),
        groups,
        suffixes(new.p.size, ordered=ordered),
        draws=draws_for(rate, groups.size),
        rng=np.random.default_rng(key),
    )
    found = Evidence(chance, float(allowed), float(rate))
    if not ordered:
        return found
    money, limit = _money(asked, old, new, key), float(1 / bets)
    reached = np.flatnonzero(money >= limit)
    after = int(reached[0]) + 1 if reached.size else None
    return found._replace(highest=max(1.0, float(money.max())), limit=limit, alarm_after=after)


def _scores(old: _Runs, new: _Runs) -> FloatArray:
    """(runs, scores): what is compared of each run, the old runs first."""
    limits, groups = (np.concatenate([getattr(one, name) for one in (old, new)])
                      for name in ("limits", "groups"))  # fmt: skip
    places = np.empty(limits.shape[:2])
    for g in np.unique(groups):
        own = groups == g
        ranks = rankdata(limits[own].mean(axis=2), axis=0)
        places[own] = ndtri((ranks - 0.5) / np.count_nonzero(own))
    excess, met = (np.concatenate(one) for one in ((old.excess, new.excess), (old.met, new.met)))
    return np.column_stack([places, places**2, excess, met])


def _money(asked: _Asked, old: _Runs, new: _Runs, key: int) -> FloatArray:
    """(new runs,): the money of gamblers who bet on a change, after each run in time (M10)."""
    groups, behaviors = np.unique(new.groups), new.limits.shape[1]
    total: FloatArray = np.zeros(new.p.size)
    seed = key
    for g in groups.tolist():
        own, past = new.groups == g, old.limits[old.groups == g]
        counts = np.arange(len(past), dtype=np.uint64)
        for i in range(behaviors):
            seed += 1  # draws of their own for each bet
            keys = keyed_hash(counts, seed, "drift assure")
            left, right = past[:, i, 0], past[:, i, 1]
            ranks = draw_ranks(left, right, keys, seed=seed, step=asked.t)
            bet = DriftBet(ranks, seed=seed, level=asked.level, t=asked.t)
            readings = bet.observe_noted(new.limits[own, i])
            total += np.array([1.0, *(one.evidence for one in readings)])[np.cumsum(own)]
    total /= groups.size * behaviors
    return total


def _fresh(times: ArrayLike | None, turn: IndexArray) -> BoolArray:
    """(episodes,): whether each episode is the first of those with the same time."""
    ordered = np.asarray(times)[turn]
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def _since(changed: FloatArray, possible: BoolArray) -> int:
    """The position of the episode with which a change most likely began."""
    to_the_end = np.cumsum(changed[::-1], axis=0)[::-1]
    found = to_the_end**2 / np.arange(len(changed), 0, -1)[:, None]
    found /= np.maximum(changed.var(axis=0), 1e-12)
    return int(np.argmax(np.where(possible, found.max(axis=1), -1.0)))


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
    """How far p is off for each value of each column in ``by``."""
    # The 95 % ranges are widened so that they hold for all values of all columns together.
    coded = []
    for column, values in by.items():
        given = np.asarray(values, dtype=object)
        if given.shape != p.shape:
            raise InputError(
                Argument("by"),
                f" needs one value for each of {p.size:,} episodes, got shape {given.shape} "
                f"for {column!r}",
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
