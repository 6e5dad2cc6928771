"""Explains a run's p, and predicts its path, from the states that its agent reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ontarget.episodes.behavior import Translation
from ontarget.errors import OntargetError
from ontarget.goal import Goal
from ontarget.live import Watch
from ontarget.live.protocol import earned, reading
from ontarget.service.held import Held
from ontarget.service.messages import read_payload
from ontarget.service.service import Service
from ontarget.service.store import Run, StoredStep
from ontarget.service.web._http import Refusal
from ontarget.target import Target

_LEVEL: Final = 0.9


def why(service: Service, run: Run, step: int | None = None) -> dict[str, Any]:
    """Why a run's p is what it is: what changed p, and the recorded runs most like this run."""
    if step is not None and step >= run.next:
        raise Refusal(404, "unknown step", f"this run has {run.next} steps, and no step {step}")
    held = service.contracts.held(run.contract)
    # The stored steps have neither each behavior's value so far nor what models read of the past.
    replays = bool(held.monitor.readings) or bool(held.fitted.history)
    least = 0 if replays else max(0, run.next - 3 if step is None else step - 1)
    steps = [_Step(one) for one in service.store.history(run, least=least, most=step)]
    group = None
    if held.fitted.groups is not None:  # the message of the first step contains it
        group = _Step(service.store.history(run, most=0)[0]).sent.get("group")
    watch = _replayed(held, run, group, steps) if replays else None
    told = [one for one in steps if one.state is not None and one.answer["p"] is not None]
    if not told or step not in (None, told[-1].step):
        raise _nothing(step)
    now, before = told[-1], told[-2] if len(told) > 1 else None
    if watch is not None and held.monitor.readings:
        found = watch.explain()
        if step not in (None, found.t):
            raise _nothing(step)
        said = found.to_dict()
    else:
        if before is not None and before.step != now.step - 1:
            before = None
        found = held.monitor.explain(
            now.step,
            now.state,
            now.so_far,
            Target.parse(run.target),
            before=None if before is None else (before.state, before.so_far),
            group=group,
            calibration=held.spec.calibration,
        )
        said = found.to_dict()
        _add_rests(held, said, now.so_far)
    alone = step is None and not held.monitor.readings
    return {
        **said,
        "words": found.in_a_line,
        "path": _path(held, now, group) if alone else None,
        "behaviors": [] if watch is None else _behaviors(held, run, watch),
    }


def _nothing(step: int | None) -> Refusal:
    none = "no step of this run has a probability yet"
    unknown = none if step is None else f"step {step} of this run has no probability"
    return Refusal(404, "nothing to explain", unknown)


class _Step:
    """A stored step, with NaN for what its message or its answer does not know."""

    def __init__(self, stored: StoredStep) -> None:
        self.step = stored.step
        self.sent = read_payload(bytes(stored.payload))
        self.answer: dict[str, Any] = msgspec.json.decode(bytes(stored.answer))
        self.state = reading(self.sent.get("state"))  # None at the end of a run
        so_far = self.answer["so_far"]
        self.so_far = math.nan if so_far is None else float(so_far)


def _replayed(held: Held, run: Run, group: Any, steps: Sequence[_Step]) -> Watch:
    """A watch that has taken these steps of a run."""
    watch = held.monitor.watch(
        held.asked(run.target),
        group=group,
        alarm=held.spec.rule,
        calibration=held.spec.calibration,
    )
    named, recalls = bool(held.monitor.readings), bool(held.fitted.history)
    for one in steps:
        if one.state is not None:
            signals = one.sent.get("signals", {}) if named else None
            reward = earned(one.sent.get("reward", 0.0), signals, first=one.step == 0)
            watch.step(one.state, reward, behavior=one.sent.get("behavior"))
            if recalls and not named:
                one.state = reading(list(watch.run_state.row or ()))
    return watch


def _behaviors(held: Held, run: Run, watch: Watch) -> list[dict[str, Any]]:
    """P of each behavior by itself, of a run that is watched for a goal."""
    if not held.monitor.readings:
        return []
    wanted, stands = Goal.parse(run.target), watch.run_state
    each = zip(watch.parts.items(), stands.parts or (stands,), strict=True)
    return [
        {
            "name": name,
            "target": str(wanted.projection(name)),
            "so_far": one.so_far,
            "p": now.p if now.known else None,
        }
        for (name, now), one in each
    ]


def _add_rests(held: Held, told: dict[str, Any], so_far: float) -> None:
    """Add to each precedent (a similar recorded run) its ``rest``, if the behavior is a sum."""
    # The rest is what the recorded run earned from its matching step to its end. If the present run
    # went on in the same way, it would end at its present value plus this rest. People can look the
    # rest up in the log. If the models learn rewards minus the usual reward of a step, only
    # precedents at the same step number have a rest; the others get None.
    fitted = held.fitted
    adds = fitted.behavior.translation is Translation.SHIFT and fitted.behavior.scale(1) == 1.0
    for one in told["precedents"]:
        same = not fitted.pace or one["step"] == told["t"]
        one["rest"] = one["ends_at"] - so_far if adds and same else None


def _path(held: Held, now: _Step, group: Any) -> dict[str, Any] | None:
    """A range for the run's behavior at each later step; None if the monitor cannot give one."""
    monitor = held.monitor
    try:
        state = [monitor.fitted.state_schema.encode(now.state)]
        groups = None if held.fitted.groups is None else [group]
        band = monitor.path_band(now.step, state, now.so_far, _LEVEL, groups=groups)
    except OntargetError:
        return None
    lower, upper = (
        [one if math.isfinite(one) else None for one in own[0].tolist()]
        for own in (band.lower, band.upper)
    )
    return {"level": band.level, "steps": band.steps.tolist(), "lower": lower, "upper": upper}
