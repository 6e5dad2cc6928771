"""Computes why p is what it is: what changed it, and which recorded runs count most for it.

To find what each cause changed, the model is asked about states that mix values of two steps. See
method M28 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
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
from ontarget.live._shapley import shapley
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
        """What was known of the run at its last step, and at an earlier step to compare it with.

        The earlier step is ``since``; by default the one before the last. It is None if the run has
        no earlier step.
        """
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
    """Why p is what it is now, and what changed it since an earlier step.

    ``now`` and ``before`` are what was known of the run at the two steps. ``most`` is the largest
    number of precedents (similar recorded runs) to return.
    """
    for one in (now, before):
        if one is not None:
            _check(asked, one, group)
    parts: tuple[Contribution, ...] = ()
    p_before = None
    found = _said(asked, group, now.t, now.state[None], np.array([now.so_far]))
    p, each = float(found.numbers[0, 0, P]), found.parts[:, 0, P]
    if before is not None:
        parts, p_before, p = _contributions(asked, group, now, before)
    precedents = _precedents_of_goal if asked.is_joint else _precedents
    runs, missed, share = precedents(asked, group, now, most)
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
    """The causes in ``parts`` that, like time, only rise or only fall during a run.

    These are time itself, the features that only rise or only fall in all recorded runs, and the
    causes named in ``others``. The result is empty if there are fewer than two of them.
    """
    clocks = fitted.clocks.features | others | {TIME}
    found = tuple(one.cause for one in parts if one.cause in clocks)
    return found if len(found) > 1 else ()


def _contributions(
    asked: Asked, group: int, now: Reading, before: Reading
) -> tuple[tuple[Contribution, ...], float, float]:
    """What each cause contributed to the change of p, the largest first; p before; and p now.

    A feature that did not change contributes nothing and is left out.
    """
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
    the model's answer comes from recorded runs, from 0 to 1.
    """
    fitted, so_far = asked.fitted, np.array(now.so_far)
    law = fitted.at(now.t, group)
    X = law.inputs(now.state[None], so_far)[:, : fitted.width]
    found, share = [], 0.0
    for weight, model in law.parts:
        if hasattr(model, "row_weights"):
            share += weight * model.row_share
            rows = model.row_weights(X)
            found.append(
                (
                    weight * rows.data,
                    model.training_episodes_[rows.indices].astype(np.intp),
                    model.training_steps_[rows.indices].astype(np.intp),
                    model.training_outcomes_[rows.indices],
                )
            )
    if not found:
        return (), None, 0.0
    mass, episode, step, seen = (np.concatenate(column) for column in zip(*found, strict=True))
    rest = law.remainders(seen)
    possible = (rest >= law.ahead[0]) & (rest <= law.ahead[1])
    if not possible.any():
        return (), None, share
    mass, episode, step, rest = (one[possible] for one in (mass, episode, step, rest))
    ends = law.outcomes(np.full(rest.size, now.so_far[0]), Interval(rest, rest)).lower
    ends = snap(ends, fitted.grid)
    met, mass = asked.contains([ends]), mass / mass.sum()
    missed = float(mass[~met].sum())
    runs = fitted.runs
    if runs.ids is None or runs.outcomes is None:
        return (), missed, share
    by_run = np.bincount(episode, weights=mass)
    heaviest = np.argsort(-by_run, kind="stable")[:most]
    precedents = []
    for run in heaviest[by_run[heaviest] > 0.0].tolist():
        own = np.flatnonzero(episode == run)
        row = own[np.argmax(mass[own])]
        precedents.append(
            Precedent(
                run=runs.ids[run : run + 1].tolist()[0],
                step=int(step[row]),
                weight=float(by_run[run]),
                outcome=float(runs.outcomes[run]),
                ends_at=float(ends[row]),
                met=bool(met[row]),
            )
        )
    return tuple(precedents), missed, share


class _Behind(NamedTuple):
    """The recorded rows that count for the prediction of one behavior.

    A row is an episode at a step; its key is a number made of both. ``keys`` and ``mass`` are the
    keys and weights of the rows behind the prediction. ``known`` has the keys of all rows that the
    models store, and ``rest`` what each still earned after its step. ``share`` is how much of the
    prediction comes from recorded rows, from 0 to 1.
    """

    keys: IndexArray
    mass: FloatArray
    known: IndexArray
    rest: FloatArray
    share: float


def _behind(fitted: Fitted, law: StepLaw, state: FloatArray, so_far: float) -> _Behind | None:
    X = law.inputs(state[None], np.array([so_far]))[:, : fitted.width]
    keys, mass, known, rest, share = [], [], [], [], 0.0
    for weight, model in law.parts:
        if hasattr(model, "row_weights"):
            share += weight * model.row_share
            rows = model.row_weights(X)
            steps = model.training_steps_.astype(np.intp)
            own = model.training_episodes_.astype(np.intp) * (fitted.horizon + 1) + steps
            keys.append(own[rows.indices])
            mass.append(weight * rows.data)
            known.append(own)
            rest.append(law.remainders(model.training_outcomes_))
    if not keys:
        return None
    every, first = np.unique(np.concatenate(known), return_index=True)
    weights = np.concatenate(mass)
    return _Behind(
        np.concatenate(keys),
        weights / weights.sum(),
        every,
        np.concatenate(rest)[first],
        share,
    )


def _precedents_of_goal(
    asked: Asked, group: int, now: Reading, most: int
) -> tuple[tuple[Precedent, ...], float | None, float]:
    """The precedents (the recorded runs that count most for p), and two shares.

    The first share is how many of the precedents, by weight, would miss the goal. The second is how
    much of the predictions comes from recorded runs, averaged over the behaviors. A precedent's
    weight is the average of its weights in the predictions of all behaviors.
    """
    joint, names = asked.joint, asked.names
    laws = {name: joint.parts[name].at(now.t, group) for name in names}
    had = dict(zip(names, now.so_far, strict=True))
    behind = {name: _behind(joint.parts[name], laws[name], now.state, had[name]) for name in names}
    found = {name: one for name, one in behind.items() if one is not None}
    if len(found) < len(names):
        return (), None, 0.0
    share = float(np.mean([one.share for one in found.values()]))
    keys, place = np.unique(
        np.concatenate([one.keys for one in found.values()]), return_inverse=True
    )
    mass = np.bincount(place, weights=np.concatenate([one.mass for one in found.values()]))
    common = np.ones(keys.size, dtype=np.bool_)
    for name, one in found.items():
        least, furthest = laws[name].ahead
        possible = one.known[(one.rest >= least) & (one.rest <= furthest)]
        common &= np.isin(keys, possible)
    if not common.any():
        return (), None, share
    keys, mass = keys[common], mass[common] / mass[common].sum()
    ends = {}
    for name, one in found.items():
        rest = one.rest[np.searchsorted(one.known, keys)]
        reached = laws[name].outcomes(np.full(rest.size, had[name]), Interval(rest, rest)).lower
        ends[name] = snap(reached, joint.parts[name].grid)
    met = asked.contains([ends[name] for name in names])
    missed = float(mass[~met].sum())
    runs = {name: joint.parts[name].runs for name in names}
    ids = runs[names[0]].ids
    if ids is None or any(one.outcomes is None for one in runs.values()):
        return (), missed, share
    episode, step = np.divmod(keys, joint.first.horizon + 1)
    by_run = np.bincount(episode, weights=mass)
    heaviest = np.argsort(-by_run, kind="stable")[:most]
    precedents = []
    for run in heaviest[by_run[heaviest] > 0.0].tolist():
        own = np.flatnonzero(episode == run)
        row = own[np.argmax(mass[own])]
        outcome = {name: one.outcomes for name, one in runs.items() if one.outcomes is not None}
        precedents.append(
            Precedent(
                run=ids[run : run + 1].tolist()[0],
                step=int(step[row]),
                weight=float(by_run[run]),
                outcome={name: float(ended[run]) for name, ended in outcome.items()},
                ends_at={name: float(reached[row]) for name, reached in ends.items()},
                met=bool(met[row]),
            )
        )
    return tuple(precedents), missed, share
