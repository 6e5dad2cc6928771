"""Explains p of a goal over several behaviors (methods M21 and M28 in docs/methods.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ontarget._grid import snap
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.ranks import Interval
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted._kernels import P
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import GoalQuestion, Joint
from ontarget.fitted.law import StepLaw
from ontarget.fitted.target_map import TargetMap
from ontarget.live._explaining import TIME, differ, moving_together, value_of
from ontarget.live._shapley import shapley
from ontarget.live.explanation import Contribution, Explanation, Precedent
from ontarget.live.goals._answers import map_at


class GoalReading(NamedTuple):
    """What was known of a run at one step: its state, and the value so far of each behavior.

    The behaviors are in the order of the names in the goal's question, and rounded to a fixed
    number of decimals (their grids). ``unknown`` is as in `Reading`.
    """

    t: int
    state: FloatArray
    so_far: FloatArray
    unknown: Mapping[str, str] = MappingProxyType({})


class _Asking(NamedTuple):
    """All that p of a goal depends on, apart from the run's state and its behaviors so far."""

    joint: Joint
    question: GoalQuestion
    own_map: TargetMap | None
    group: int

    def check(self, reading: GoalReading) -> None:
        """Raise an error if no model answers at the step, or a value is bad.

        ``reading`` is what was known of the run at the step.
        """
        first, t = self.joint.first, reading.t
        for name, had in zip(self.question.names, reading.so_far.tolist(), strict=True):
            own = self.joint.parts[name]
            trouble = (
                own.unknown(t, self.group) if 0 <= t < first.horizon else "the run has no such step"
            )
            if trouble:
                raise CalibrationError(f"step {t} cannot be explained: {trouble}")
            own.check_readings(reading.state[None], np.array([had]))

    def numbers(self, t: int, states: FloatArray, so_far: FloatArray) -> tuple[FloatArray, ...]:
        """Arrays (rows,) with p at step t: first of the goal, then of each behavior by itself."""
        mapped, had = map_at(self.own_map, t, self.group), list(np.ascontiguousarray(so_far.T))
        found = self.joint.outlook(self.question, t, self.group, states, had, mapped)
        return found.numbers[:, P], *found.parts[:, :, P]


def explained_goal(
    joint: Joint,
    question: GoalQuestion,
    now: GoalReading,
    before: GoalReading | None,
    *,
    own_map: TargetMap | None = None,
    group: int = 0,
    most: int = 10,
) -> Explanation:
    """Why p of the goal is what it is now, and what changed it since an earlier step.

    ``now`` and ``before`` are what was known of the run at the two steps. ``most`` is the largest
    number of precedents (similar recorded runs) to return.
    """
    asking = _Asking(joint, question, own_map, group)
    for one in (now, before):
        if one is not None:
            asking.check(one)
    parts: tuple[Contribution, ...] = ()
    p_before = None
    found = asking.numbers(now.t, now.state[None], now.so_far[None])
    p, each = float(found[0][0]), [float(one[0]) for one in found[1:]]
    if before is not None:
        parts, p_before, p = _contributions(asking, now, before)
    precedents, missed, share = _precedents(asking, now, most)
    counting = {_had(name) for name in question.names if joint.parts[name].clocks.so_far}
    return Explanation(
        t=now.t,
        p=p,
        target=str(question.goal),
        t_before=None if before is None else before.t,
        p_before=p_before,
        contributions=parts,
        precedents=precedents,
        missed=missed,
        row_share=share,
        culprit=question.names[int(np.argmin(each))] if each else "",
        together=moving_together(parts, joint.first, counting),
    )


def _had(name: str) -> str:
    """The name, in an explanation, of the cause "value of this behavior so far"."""
    return f"{name} so far"


def _contributions(
    asking: _Asking, now: GoalReading, before: GoalReading
) -> tuple[tuple[Contribution, ...], float, float]:
    """What each cause contributed to the change of p, the largest first; p before; and p now."""
    if before.t >= now.t:
        raise InputError(
            Argument("before"), f" needs a step earlier than t={now.t}, got step {before.t}"
        )
    differs = np.flatnonzero(differ(now.state, before.state))
    earned = np.flatnonzero(differ(now.so_far, before.so_far))
    n = differs.size

    def worth(sets: BoolArray) -> FloatArray:
        """For each set of causes, p of a state with these causes as now, others as before."""
        states = np.repeat(before.state[None], len(sets), axis=0)
        states[:, differs] = np.where(sets[:, :n], now.state[differs], before.state[differs])
        so_far = np.repeat(before.so_far[None], len(sets), axis=0)
        chosen = sets[:, n : n + earned.size]
        so_far[:, earned] = np.where(chosen, now.so_far[earned], before.so_far[earned])
        found = np.empty(len(sets))
        for later, t in ((False, before.t), (True, now.t)):
            own = np.flatnonzero(sets[:, -1] == later)
            if own.size:
                found[own] = asking.numbers(t, states[own], so_far[own])[0]
        return found

    shares = shapley(worth, n + earned.size + 1)
    schema, names = asking.joint.first.state_schema, asking.question.names
    told: list[tuple[str, float | str, float | str]] = [
        (schema.names[j], value_of(schema, j, before), value_of(schema, j, now))
        for j in differs.tolist()
    ]
    told += [
        (_had(names[c]), float(before.so_far[c]), float(now.so_far[c])) for c in earned.tolist()
    ]
    told.append((TIME, before.t, now.t))
    found = [
        Contribution(*one, change, error)
        for one, change, error in zip(
            told, shares.values.tolist(), shares.errors.tolist(), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.change))), shares.none, shares.all


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


def _precedents(
    asking: _Asking, now: GoalReading, most: int
) -> tuple[tuple[Precedent, ...], float | None, float]:
    """The precedents (the recorded runs that count most for p), and two shares.

    The first share is how many of the precedents, by weight, would miss the goal. The second is how
    much of the predictions comes from recorded runs, averaged over the behaviors. A precedent's
    weight is the average of its weights in the predictions of all behaviors.
    """
    joint, names = asking.joint, asking.question.names
    laws = {name: joint.parts[name].at(now.t, asking.group) for name in names}
    had = dict(zip(names, now.so_far.tolist(), strict=True))
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
    met = asking.question.goal.contains(ends, joint.grids)
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
