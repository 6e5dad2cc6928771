"""Explains a run's p, and predicts its path, from the states that its agent reported."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ontarget.episodes.behavior import Translation
from ontarget.errors import OntargetError
from ontarget.goal import Goal
from ontarget.service.contracts import Held
from ontarget.service.messages import read_payload
from ontarget.service.service import Service
from ontarget.service.store import Run, StoredStep
from ontarget.service.web._http import Refusal
from ontarget.target import Target

_LEVEL: Final = 0.9


def why(service: Service, run: Run, step: int | None = None) -> dict[str, Any]:
    """Why a run's p is what it is: what changed p, and the recorded runs most like this run.

    The result has plain values and a text. If ``step`` names an earlier step, that step is
    explained, without a prediction of the path to come.
    """
    if step is not None and step >= run.next:
        raise Refusal(404, "unknown step", f"this run has {run.next} steps, and no step {step}")
    held = service.contracts.held(run.contract)
    if held.monitor.readings:
        return _why_of_goal(service, held, run, step)
    least = run.next - 3 if step is None else step - 1
    steps = service.store.history(run, least=max(0, least), most=step)
    told = [one for one in steps if _state(one) is not None and _answer(one)["p"] is not None]
    if not told or step not in (None, told[-1].step):
        raise _nothing(step)
    now, earlier = told[-1], told[:-1]
    follows = bool(earlier) and earlier[-1].step == now.step - 1
    seen, group = _states(service, held, run), _group(service, held, run)
    found = held.monitor.explain(
        now.step,
        seen(now),
        _so_far(now),
        Target.parse(run.target),
        before=(seen(earlier[-1]), _so_far(earlier[-1])) if follows else None,
        group=group,
        calibration=held.spec.calibration,
    )
    told_of = found.to_dict()
    _add_rests(held, told_of, _so_far(now))
    return {
        **told_of,
        "words": found.in_a_line,
        "path": _path(held, now, seen(now), group) if step is None else None,
        "behaviors": [],
    }


def _add_rests(held: Held, told: dict[str, Any], so_far: float) -> None:
    """Add to each precedent (a similar recorded run) its ``rest``, if the behavior is a sum.

    The rest is what the recorded run earned from its matching step to its end. If the present run
    went on in the same way, it would end at its present value plus this rest. People can look the
    rest up in the log. If the models learn rewards minus the usual reward of a step,
    only precedents at the same step number have a rest; the others get None.
    """
    fitted = held.fitted
    adds = fitted.behavior.translation is Translation.SHIFT and fitted.behavior.scale(1) == 1.0
    for one in told["precedents"]:
        same = not fitted.pace or one["step"] == told["t"]
        one["rest"] = one["ends_at"] - so_far if adds and same else None


def _why_of_goal(service: Service, held: Held, run: Run, step: int | None) -> dict[str, Any]:
    """Why p is what it is for a goal over several behaviors, and p of each behavior by itself.

    The stored steps do not have each behavior's value so far. So all steps of the run are passed to
    a new watch.
    """
    wanted = Goal.parse(run.target)
    watch = held.monitor.watch(
        wanted,
        group=_group(service, held, run),
        alarm=held.spec.rule,
        calibration=held.spec.calibration,
    )
    answered = False
    for one in service.store.history(run, most=step):
        if _state(one) is not None:
            now = watch.step(_state(one), _signals(one))
            answered = answered or now.known
    if not answered:
        raise _nothing(step)
    found, stands = watch.explain(), watch.run_state
    if step not in (None, found.t):
        raise _nothing(step)
    behaviors = [
        {
            "name": name,
            "target": str(wanted.projection(name)),
            "so_far": one.so_far,
            "p": now.p if now.known else None,
        }
        for (name, now), one in zip(watch.parts.items(), stands.parts or (stands,), strict=True)
    ]
    return {
        **found.to_dict(),
        "words": found.in_a_line,
        "path": None,
        "behaviors": behaviors,
    }


def _nothing(step: int | None) -> Refusal:
    none = "no step of this run has a probability yet"
    unknown = none if step is None else f"step {step} of this run has no probability"
    return Refusal(404, "nothing to explain", unknown)


def _group(service: Service, held: Held, run: Run) -> Any:
    """The group of a run, which the message of its first step contains."""
    if held.fitted.groups is None:
        return None
    first = service.store.history(run, most=0)[0]
    return read_payload(bytes(first.payload)).get("group")


def _signals(step: StoredStep) -> dict[str, Any]:
    """The values of the signals that a step reported; NaN where they are unknown."""
    sent = read_payload(bytes(step.payload))
    earned = sent.get("reward", 0.0)
    if earned is None and step.step == 0:
        earned = 0.0  # before the first step nothing is earned
    read = {**sent.get("signals", {}), "reward": earned}
    return {name: math.nan if one is None else one for name, one in read.items()}


def _states(service: Service, held: Held, run: Run) -> Callable[[StoredStep], Any]:
    """A function that returns the state of a stored step in the form that the monitor reads.

    If the monitor also reads earlier steps, all steps of the run are passed to a new watch.
    """
    if not held.monitor.fitted.history:
        return _state
    target, group = Target.parse(run.target), _group(service, held, run)
    watch = held.monitor.watch(target, group=group, alarm=held.spec.rule)
    found = {}
    for one in service.store.history(run):
        sent = read_payload(bytes(one.payload))
        if _state(one) is not None:
            watch.step(_state(one), sent.get("reward", 0.0), behavior=sent.get("behavior"))
            found[one.step] = watch.run_state.row
    return lambda step: [math.nan if value is None else value for value in found[step.step] or ()]


def _path(held: Held, now: StoredStep, seen: Any, group: Any) -> dict[str, Any] | None:
    """A range for the run's behavior at each later step; None if the monitor cannot give one."""
    monitor, so_far = held.monitor, _so_far(now)
    try:
        state = [monitor.fitted.state_schema.encode(seen)]
        groups = None if held.fitted.groups is None else [group]
        band = monitor.path_band(now.step, state, so_far, _LEVEL, groups=groups)
    except OntargetError:
        return None
    return {
        "level": band.level,
        "steps": band.steps.tolist(),
        "lower": [_finite(one) for one in band.lower[0].tolist()],
        "upper": [_finite(one) for one in band.upper[0].tolist()],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _answer(step: StoredStep) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(bytes(step.answer))
    return found


def _so_far(step: StoredStep) -> float:
    said = _answer(step)["so_far"]
    return float("nan") if said is None else float(said)


def _state(step: StoredStep) -> Any:
    """The state that a stored step reported, with NaN for missing values.

    None at the end of a run.
    """
    state = read_payload(bytes(step.payload)).get("state")
    if isinstance(state, list):
        return [math.nan if value is None else value for value in state]
    if isinstance(state, dict):
        return {name: math.nan if value is None else value for name, value in state.items()}
    return state
