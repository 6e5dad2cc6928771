"""Computes why p is what it is: what changed it, and which recorded runs count most for it.

To find what each cause changed, the model is asked about states that mix values of two steps. See
method M28 in docs/methods.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import BoolArray, FloatArray
from ontarget.conformal.ranks import Interval
from ontarget.episodes import Schema
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted._kernels import P
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.law import StepLaw
from ontarget.fitted.question import Question
from ontarget.fitted.target_map import TargetMap
from ontarget.live._shapley import shapley
from ontarget.live.explanation import Contribution, Explanation, Precedent
from ontarget.target import Target

REWARD, TIME = "reward earned", "time"

KEPT: Final = 64  # readings, besides the first; even a very long run must not take much memory
_LISTED = 8


class Reading(NamedTuple):
    """What was known of a run at one step: its state, and its behavior so far.

    The behavior so far is rounded to the grid (a fixed number of decimals). ``unknown`` has the
    categories of the state that count as missing because they are not known, by feature.
    """

    t: int
    state: FloatArray
    so_far: float
    unknown: Mapping[str, str] = MappingProxyType({})


class _Known(Protocol):
    @property
    def state(self) -> FloatArray: ...
    @property
    def unknown(self) -> Mapping[str, str]: ...


class _AtStep(Protocol):
    @property
    def t(self) -> int: ...


R = TypeVar("R", bound=_AtStep)


class Seen(Generic[R]):
    """What was known of a run at the steps that can be explained: the first and the last ones."""

    __slots__ = ("_first", "_latest")

    def __init__(self) -> None:
        self._first: R | None = None
        self._latest: deque[R] = deque(maxlen=KEPT)

    def add(self, reading: R) -> None:
        """Store what was known of the run at one more step."""
        if self._first is None:
            self._first = reading
        self._latest.append(reading)

    def pair(self, since: Any = None) -> tuple[R, R | None]:
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


class _Asking(NamedTuple):
    """All that p depends on, apart from the run's state and its behavior so far."""

    fitted: Fitted
    question: Question
    calibration: TargetMap | None
    group: int

    def law(self, t: int) -> StepLaw:
        """The predicted distribution at step t. It is an error if no model answers at this step."""
        trouble = (
            self.fitted.unknown(t, self.group)
            if 0 <= t < self.fitted.horizon
            else "the run has no such step"
        )
        if trouble:
            raise CalibrationError(f"step {t} cannot be explained: {trouble}")
        return self.fitted.at(t, self.group, self.calibration)

    def p(self, law: StepLaw, states: FloatArray, so_far: FloatArray) -> FloatArray:
        """(rows,): p at one step, for each row of states and behaviors so far."""
        excess = self.fitted.sorted_excess[self.group]
        found = law.outlook(states, so_far, self.question, excess)
        return found[:, 0, P]


def explained(
    fitted: Fitted,
    now: Reading,
    before: Reading | None,
    target: Target,
    *,
    calibration: TargetMap | None = None,
    group: int = 0,
    most: int = 10,
) -> Explanation:
    """Why p is what it is now, and what changed it since an earlier step.

    ``now`` and ``before`` are what was known of the run at the two steps. ``most`` is the largest
    number of precedents (similar recorded runs) to return.
    """
    asking = _Asking(fitted, Question.of(target, fitted.grid), calibration, group)
    law = asking.law(now.t)
    for one in (now, before):
        if one is not None:
            fitted.check_readings(one.state[None], np.array([one.so_far]))
    parts: tuple[Contribution, ...] = ()
    p_before = None
    if before is None:
        p = float(asking.p(law, now.state[None], np.array([now.so_far]))[0])
    else:
        parts, p_before, p = _contributions(asking, law, now, before)
    precedents, missed, share = _precedents(fitted, law, now, target, most)
    return Explanation(
        t=now.t,
        p=p,
        target=str(target),
        t_before=None if before is None else before.t,
        p_before=p_before,
        contributions=parts,
        precedents=precedents,
        missed=missed,
        row_share=share,
        together=moving_together(parts, fitted, {REWARD} if fitted.clocks.so_far else set()),
    )


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
    asking: _Asking, law: StepLaw, now: Reading, before: Reading
) -> tuple[tuple[Contribution, ...], float, float]:
    """What each cause contributed to the change of p, the largest first; p before; and p now.

    A feature that did not change contributes nothing and is left out.
    """
    if before.t >= now.t:
        raise InputError(
            Argument("before"), f" needs a step earlier than t={now.t}, got step {before.t}"
        )
    earlier = asking.law(before.t)
    differs = np.flatnonzero(differ(now.state, before.state))
    earned = bool(differ(np.array(now.so_far), np.array(before.so_far)))
    n = differs.size

    def worth(sets: BoolArray) -> FloatArray:
        """For each set of causes, p of a state with these causes as now, others as before."""
        states = np.repeat(before.state[None], len(sets), axis=0)
        states[:, differs] = np.where(sets[:, :n], now.state[differs], before.state[differs])
        so_far = np.full(len(sets), before.so_far)
        so_far[sets[:, n] if earned else []] = now.so_far
        found = np.empty(len(sets))
        for later, step in ((False, earlier), (True, law)):
            own = np.flatnonzero(sets[:, -1] == later)
            if own.size:
                found[own] = asking.p(step, states[own], so_far[own])
        return found

    shares = shapley(worth, n + earned + 1)
    schema = asking.fitted.state_schema
    told: list[tuple[str, float | str, float | str]] = [
        (schema.names[j], value_of(schema, j, before), value_of(schema, j, now))
        for j in differs.tolist()
    ]
    told += [(REWARD, before.so_far, now.so_far)] * earned + [(TIME, before.t, now.t)]
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


def value_of(schema: Schema, feature: int, reading: _Known) -> float | str:
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
    fitted: Fitted, law: StepLaw, now: Reading, target: Target, most: int
) -> tuple[tuple[Precedent, ...], float | None, float]:
    """The precedents (the recorded runs that count most for p), and two shares.

    The first share is how many of the precedents, by weight, would miss the target. It is None if
    no recorded run is behind the answer; there are no precedents then. The second is how much of
    the model's answer comes from recorded runs, from 0 to 1.
    """
    so_far = np.array([now.so_far])
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
    ends = law.outcomes(np.full(rest.size, now.so_far), Interval(rest, rest)).lower
    ends = snap(ends, fitted.grid)
    met, mass = target.contains(ends, fitted.grid), mass / mass.sum()
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
