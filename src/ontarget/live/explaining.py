"""Computes why p is what it is: what changed it, and which recorded runs count most for it.

To find what each cause changed, the model is asked about states that mix values of two steps. See
method M28 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import factorial, fsum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.ranks import Interval
from ontarget.episodes import Schema
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked, Said
from ontarget.fitted.kernels import P
from ontarget.fitted.law import StepLaw
from ontarget.live.explanation import Contribution, Explanation, Precedent

REWARD, TIME = "reward earned", "time"

KEPT: Final = 64  # readings, besides the first; even a very long run must not take much memory
_LISTED = 8


class Reading(NamedTuple):
    """What was known of a run at one step: its state, and the value so far of each behavior.

    The values so far are rounded to the grid (a fixed number of decimals). ``unknown`` has the
    categories of the state that count as missing because they are not known, by feature.
    """

    t: int
    state: FloatArray
    so_far: tuple[float, ...]
    unknown: Mapping[str, str] = MappingProxyType({})


class Seen:
    """What was known of a run at the steps that can be explained: the first and the last ones."""

    __slots__ = ("_first", "_latest")

    def __init__(self) -> None:
        self._first: Reading | None = None
        self._latest: deque[Reading] = deque(maxlen=KEPT)

    def add(self, reading: Reading) -> None:
        """Store what was known of the run at one more step."""
        if self._first is None:
            self._first = reading
        self._latest.append(reading)

    def pair(self, since: Any = None) -> tuple[Reading, Reading | None]:
        """What was known of the run at its last step, and at an earlier step to compare it with."""
        if not self._latest:
            raise InputError("explain needs a step that had an outlook; call step first")
        *earlier, now = self._latest
        if since is None:
            return now, earlier[-1] if earlier else None
        since = whole_number("since", since, least=0)
        assert self._first is not None
        kept = {one.t: one for one in (self._first, *earlier) if one is not now}
        if since not in kept:
            raise InputError(
                Argument("since"),
                " needs an earlier step that had an outlook and that the watch still keeps "
                f"({_in_words(list(kept))}), got {since}",
            )
        return now, kept[since]


def _in_words(steps: list[int]) -> str:
    if not steps:
        return "there is none yet"
    if len(steps) <= _LISTED:
        return ", ".join(map(str, steps))
    return f"{steps[0]}, and some of {steps[1]} to {steps[-1]}"


def explained(
    asked: Asked, now: Reading, before: Reading | None = None, *, group: int = 0, most: int = 10
) -> Explanation:
    """Why p is what it is now, and what changed it since an earlier step."""
    for one in (now, before):
        if one is not None:
            _check(asked, one, group)
    parts: tuple[Contribution, ...] = ()
    p_before = None
    found = _said(asked, group, now.t, now.state[None], np.array([now.so_far]))
    p, each = float(found.numbers[0, 0, P]), found.parts[:, 0, P]
    if before is not None:
        parts, p_before, p = _contributions(asked, group, now, before)
    runs, missed, share = _precedents(asked, group, now, most)
    counting = {_cause(asked, c) for c, fitted in enumerate(asked.parts) if fitted.clocks.so_far}
    return Explanation(
        t=now.t,
        p=p,
        target=str(asked.target),
        t_before=None if before is None else before.t,
        p_before=p_before,
        contributions=parts,
        precedents=runs,
        missed=missed,
        row_share=share,
        culprit=asked.names[int(np.argmin(each))] if asked.is_joint and each.size else "",
        together=moving_together(parts, asked.fitted, counting),
    )


def _check(asked: Asked, reading: Reading, group: int) -> None:
    """Raise an error if no model answers at the step of this reading, or a value is bad."""
    for had, fitted in zip(reading.so_far, asked.parts, strict=True):
        inside = 0 <= reading.t < fitted.horizon
        trouble = fitted.unknown(reading.t, group) if inside else "the run has no such step"
        if trouble:
            raise CalibrationError(f"step {reading.t} cannot be explained: {trouble}")
        fitted.check_readings(reading.state[None], np.array([had]))


def _said(asked: Asked, group: int, t: int, states: FloatArray, so_far: FloatArray) -> Said:
    """The answers at step t; ``so_far`` is (rows, behaviors)."""
    return asked.said(t, group, states, list(np.ascontiguousarray(so_far.T)))


def _cause(asked: Asked, behavior: int) -> str:
    """The name, in an explanation, of the cause "value so far of this behavior"."""
    return f"{asked.names[behavior]} so far" if asked.is_joint else REWARD


def moving_together(
    parts: tuple[Contribution, ...], fitted: Fitted, others: set[str]
) -> tuple[str, ...]:
    """The causes in ``parts`` that, like time, only rise or only fall during a run."""
    clocks = fitted.clocks.features | others | {TIME}
    found = tuple(one.cause for one in parts if one.cause in clocks)
    return found if len(found) > 1 else ()


def _contributions(
    asked: Asked, group: int, now: Reading, before: Reading
) -> tuple[tuple[Contribution, ...], float, float]:
    """What each cause contributed to the change of p, the largest first; p before; and p now."""
    if before.t >= now.t:
        raise InputError(
            Argument("before"), f" needs a step earlier than t={now.t}, got step {before.t}"
        )
    had, has = np.array(before.so_far), np.array(now.so_far)
    differs = np.flatnonzero(differ(now.state, before.state))
    earned = np.flatnonzero(differ(has, had))
    n = differs.size

    def worth(sets: BoolArray) -> FloatArray:
        """For each set of causes, p of a state with these causes as now, others as before."""
        states = np.repeat(before.state[None], len(sets), axis=0)
        states[:, differs] = np.where(sets[:, :n], now.state[differs], before.state[differs])
        so_far = np.repeat(had[None], len(sets), axis=0)
        so_far[:, earned] = np.where(sets[:, n : n + earned.size], has[earned], had[earned])
        found = np.empty(len(sets))
        for later, t in ((False, before.t), (True, now.t)):
            own = np.flatnonzero(sets[:, -1] == later)
            if own.size:
                found[own] = _said(asked, group, t, states[own], so_far[own]).numbers[:, 0, P]
        return found

    shares = shapley(worth, n + earned.size + 1)
    schema = asked.fitted.state_schema
    told: list[tuple[str, float | str, float | str]] = [
        (schema.names[j], value_of(schema, j, before), value_of(schema, j, now))
        for j in differs.tolist()
    ]
    told += [(_cause(asked, c), float(had[c]), float(has[c])) for c in earned.tolist()]
    told.append((TIME, before.t, now.t))
    found = [
        Contribution(*one, change, error)
        for one, change, error in zip(
            told, shares.values.tolist(), shares.errors.tolist(), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.change))), shares.none, shares.all


def differ(one: FloatArray, other: FloatArray) -> BoolArray:
    """Where two arrays of feature values differ; two missing values (NaN) count as equal."""
    different: BoolArray = (one != other) & ~(np.isnan(one) & np.isnan(other))
    return different


def value_of(schema: Schema, feature: int, reading: Reading) -> float | str:
    """A feature's value as in the log: a number, a category, "missing", or "unknown (…)"."""
    own, value = schema.features[feature], float(reading.state[feature])
    if own.name in reading.unknown:
        return f"unknown ({reading.unknown[own.name]})"
    if own.categories is None:
        return value
    if math.isnan(value):
        return "missing"
    assert own.codes is not None
    return own.categories[int(value)] if value in own.codes else f"unknown ({value:g})"


def _precedents(
    asked: Asked, group: int, now: Reading, most: int
) -> tuple[tuple[Precedent, ...], float | None, float]:
    """The precedents (the recorded runs that count most for p), and two shares.

    The first share is how many of the precedents, by weight, would miss the target. It is None if
    no recorded run is behind the answer; there are no precedents then. The second is how much of
    the models' answer comes from recorded runs, from 0 to 1. For several behaviors, the weights are
    averaged over their predictions.
    """
    laws = [fitted.at(now.t, group) for fitted in asked.parts]
    each = zip(asked.parts, laws, now.so_far, strict=True)
    behind = [one for one in (_behind(*part, now.state) for part in each) if one is not None]
    if len(behind) < len(laws):
        return (), None, 0.0
    share = float(np.mean([one.share for one in behind]))
    keys: IndexArray = behind[0].keys
    mass: FloatArray = behind[0].mass
    if asked.is_joint:
        keys, place = np.unique(np.concatenate([one.keys for one in behind]), return_inverse=True)
        weights = [one.mass / one.mass.sum() for one in behind]
        mass = np.bincount(place, weights=np.concatenate(weights)).astype(np.float64)
    rests = [one.rest_of(keys) if asked.is_joint else one.rest for one in behind]
    reached = [law.ahead for law in laws]
    possible = np.all(
        [(rest >= low) & (rest <= high) for rest, (low, high) in zip(rests, reached, strict=True)],
        axis=0,
    )
    if not possible.any():
        return (), None, share
    keys, mass = keys[possible], mass[possible]
    mass = mass / mass.sum()
    ends = []
    for fitted, law, had, rest in zip(asked.parts, laws, now.so_far, rests, strict=True):
        own = Interval(rest[possible], rest[possible])
        ends.append(snap(law.outcomes(np.full(keys.size, had), own).lower, fitted.grid))
    met = asked.contains(ends)
    missed = float(mass[~met].sum())
    ids, outcomes = asked.parts[0].runs.ids, [one.runs.outcomes for one in asked.parts]
    known = [one for one in outcomes if one is not None]
    if ids is None or len(known) < len(outcomes):
        return (), missed, share

    def shown(values: Sequence[FloatArray], place: int) -> float | dict[str, float]:
        """One number or, if behaviors have names, one for each."""
        numbers = [float(own[place]) for own in values]
        return dict(zip(asked.names, numbers, strict=True)) if asked.is_joint else numbers[0]

    episode, step = np.divmod(keys, asked.fitted.horizon + 1)
    by_run = np.bincount(episode, weights=mass)
    heaviest = np.argsort(-by_run, kind="stable")[:most]
    precedents = []
    for run in heaviest[by_run[heaviest] > 0.0].tolist():
        rows = np.flatnonzero(episode == run)
        row = int(rows[np.argmax(mass[rows])])
        precedents.append(
            Precedent(
                run=ids[run : run + 1].tolist()[0],
                step=int(step[row]),
                weight=float(by_run[run]),
                outcome=shown(known, run),
                ends_at=shown(ends, row),
                met=bool(met[row]),
            )
        )
    return tuple(precedents), missed, share


class _Behind(NamedTuple):
    """The recorded rows behind the prediction of one behavior.

    A row is an episode at a step, and its key a number made of both. The rows have a weight
    (``mass``) and what each still earned after its step (``rest``); ``stored`` has the keys of all
    rows that the models store, and what these earned. ``share`` is how much of the prediction comes
    from recorded rows.
    """

    keys: IndexArray
    mass: FloatArray
    rest: FloatArray
    stored: tuple[IndexArray, FloatArray]
    share: float

    def rest_of(self, keys: IndexArray) -> FloatArray:
        """What the rows with these keys still earned; NaN for rows that are not stored."""
        known, first = np.unique(self.stored[0], return_index=True)
        place = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return np.where(known[place] == keys, self.stored[1][first[place]], np.nan)


def _behind(fitted: Fitted, law: StepLaw, so_far: float, state: FloatArray) -> _Behind | None:
    """What is behind the prediction of one behavior; None if no model weighs recorded rows."""
    X = law.inputs(state[None], np.array([so_far]))[:, : fitted.width]
    keys, mass, rest, stored, earned, share = [], [], [], [], [], 0.0
    for weight, model in law.parts:
        if hasattr(model, "row_weights"):
            share += weight * model.row_share
            rows = model.row_weights(X)
            steps = model.training_steps_.astype(np.intp)
            stored.append(model.training_episodes_.astype(np.intp) * (fitted.horizon + 1) + steps)
            earned.append(law.remainders(model.training_outcomes_))
            keys.append(stored[-1][rows.indices])
            rest.append(earned[-1][rows.indices])
            mass.append(weight * rows.data)
    if not keys:
        return None
    whole = np.concatenate(stored), np.concatenate(earned)
    return _Behind(np.concatenate(keys), np.concatenate(mass), np.concatenate(rest), whole, share)


MOST_EXACT = 8
# If sampled: about this many sets of causes, but at least four orders and their reverses.
_SETS = 220
_FEWEST = 4
_SEED = 0


class Shares(NamedTuple):
    """The contribution of each cause to a change (its Shapley value), and its standard error.

    The standard error is 0 if the contribution is exact. ``none`` and ``all`` are the worth of no
    cause and of all causes: here, p before and p after the change.
    """

    values: FloatArray
    errors: FloatArray
    none: float  # the worth of no cause
    all: float  # the worth of all causes


def shapley(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    """The contributions of n causes; they add up to the worth of all causes minus that of none.

    Parameters
    ----------
    worth
        A function of sets of causes, given as flags (sets, causes). It returns the worth of each
        set: here, the p if only the causes in the set had changed.
    n
        How many causes there are. For up to eight, all orders in which causes can be added are
        used. For more, some orders are drawn with a fixed seed, each together with its reverse.

    Examples
    --------
    >>> shapley(lambda sets: sets @ np.array([1.0, 2.0]) + sets.all(axis=1), 2).values
    array([1.5, 2.5])
    """
    return _exact(worth, n) if n <= MOST_EXACT else _sampled(worth, n)


def _exact(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    numbers = np.arange(2**n)
    sets = (numbers[:, None] >> np.arange(n)) & 1 == 1
    found, size = worth(sets), sets.sum(axis=1)
    weight = np.array([factorial(k) * factorial(n - k - 1) / factorial(n) for k in range(n)] or [0])
    values = np.empty(n)
    for i in range(n):
        without = np.flatnonzero(~sets[:, i])
        gains = weight[size[without]] * (found[without | 1 << i] - found[without])
        values[i] = fsum(gains)  # a matrix product would depend on the processor in the last bits
    return Shares(values, np.zeros(n), float(found[0]), float(found[-1]))


class _Design(NamedTuple):
    """Some orders in which causes are added one by one, and the sets of causes on the way."""

    place: IndexArray  # (orders, causes): the place of each cause in each order
    sets: BoolArray  # (sets, causes), all different
    met: IndexArray  # (orders, causes + 1): the set after each addition


@cache
def _design(n: int) -> _Design:
    """Some random orders of n causes, each with its reverse; the same ones at every call."""
    rng, n_pairs = np.random.default_rng(_SEED), max(_FEWEST, _SETS // (2 * n))
    orders = np.array([rng.permutation(n) for _ in range(n_pairs)])
    orders = np.stack([orders, orders[:, ::-1]], axis=1).reshape(-1, n)
    place = np.argsort(orders, axis=1)
    sets = place[:, None, :] < np.arange(n + 1)[None, :, None]
    distinct, back = np.unique(sets.reshape(-1, n), axis=0, return_inverse=True)
    return _Design(place, distinct, back.reshape(-1, n + 1))


def _sampled(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    design = _design(n)
    found = worth(design.sets)[design.met]
    gains = np.take_along_axis(np.diff(found, axis=1), design.place, axis=1)
    pairs = gains.reshape(-1, 2, n).mean(axis=1)
    errors = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
    return Shares(pairs.mean(axis=0), errors, float(found[0, 0]), float(found[0, -1]))
