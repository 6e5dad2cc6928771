"""Everything that a monitor says about new runs, as plain lists and numbers.

Words are left out: a reason counts by what kind of reason it is, so a sentence may be reworded.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ontarget import Episodes, Goal, GoalMonitor, Outlook, Outlooks, Target
from ontarget.errors import AlarmWarning, OntargetError
from tests.golden.cases import FEATURES, Case

ASKED = (0, 2, 4)  # steps
LEVEL = 0.8
SHOWN = 5  # runs that are followed live
NUMBERS = ("p", "spread", "low", "high", "plausibility", "assurance", "n")
# A reason by the words that only this kind of reason has.
REASONS = {
    "": r"$",
    "alarm": r"alarm (below|at|when)",
    "waiting": r"waiting for the first state",
    "out of reach": r"out of reach",
    "ended inside": r"ended inside",
    "ended outside": r"ended outside",
    "cut off": r"cut off",
    "few runs": r"reach this step|no model was fitted",
    "past the longest run": r"longer than the longest",
    "bad reading": r"needs a number|missing|reading|is not computed from rewards",
    "reward lost": r"behavior so far is unknown",
    "reward outside bounds": r"declared bounds",
    "stepped in": r"taken over",
}


def answers(case: Case, monitor: GoalMonitor) -> dict[str, Any]:
    """All answers of a monitor to the questions of a case, by name."""
    new = case.new()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlarmWarning)
        found: dict[str, Any] = {
            "batch": {str(t): _batch(case, monitor, new, t) for t in ASKED},
            "alarm curve": _or_refusal(
                lambda: _plain(monitor.alarm_curve(case.target, group=_group(monitor)))
            ),
            "watch": [_watched(case, monitor, new, i) for i in range(SHOWN)],
            "fleet": _fleet(case, monitor, new),
            "sessions": _sessions(case, monitor, new),
            "service": _service(case, monitor, new),
            "explain": _or_refusal(lambda: _explained(case, monitor, new)),
            "evaluate": _or_refusal(lambda: _evaluated(monitor.evaluate(new, case.target))),
            "drift": _or_refusal(lambda: _drift(monitor, new, case.target)),
            "guards": _guards(monitor, new, case.target),
        }
        if case.own_targets:
            found["own targets"] = _evaluated(monitor.evaluate_own(new))
            found["own watch"] = [_own_watched(case, monitor, new, i) for i in range(3)]
    return found


def _batch(case: Case, monitor: GoalMonitor, new: Episodes, t: int) -> dict[str, Any]:
    """Answers about the runs still going at step t, before any of them is watched."""
    long = np.flatnonzero(new.lengths > t)[:12]
    if not long.size:
        return {}
    going = new.take(long)
    states, so_far, groups = _at(monitor, going, t)
    found: dict[str, Any] = {}
    for number, target in enumerate((case.target, *case.more)):
        for calibration in ("common", "target"):
            ask = {"groups": groups, "calibration": calibration}
            found[f"outlook {number} {calibration}"] = _or_refusal(
                lambda target=target, ask=ask: _numbers(
                    monitor.outlook(t, states, so_far, target, **ask)
                )
            )
    if isinstance(case.target, Goal):
        for everywhere in (False, True):
            found[f"box {everywhere}"] = _or_refusal(
                lambda everywhere=everywhere: _plain(
                    monitor.box(t, states, so_far, LEVEL, groups=groups, all_steps=everywhere)
                )
            )
        return found
    for name in ("interval", "band", "promise", "path_band"):
        for confidence in (None, 0.9):
            ask = {"groups": groups, "confidence": confidence}
            found[f"{name} {confidence}"] = _or_refusal(
                lambda name=name, ask=ask: _plain(
                    getattr(monitor, name)(t, states, so_far, LEVEL, **ask)
                )
            )
    return found


def _watched(case: Case, monitor: GoalMonitor, new: Episodes, i: int) -> list[Any]:
    """One run followed live.

    Run 1 has a bad reading, in run 2 somebody steps in, run 3 is cut off, and run 4 outlasts the
    longest recorded one where no horizon was declared.
    """
    states, rewards, group = _told(monitor, new, i)
    watch = monitor.watch(case.target, group=group, **case.alarm)
    found = []
    for t, state in enumerate(states):
        read = np.where(np.arange(state.size) == 0, np.nan, state) if (i, t) == (1, 2) else state
        found.append(_outlook(_stepped(watch, monitor, read, rewards[t])))
        if (i, t) == (2, 1):
            found.append(_outlook(watch.intervene()))
    if i == 4 and not monitor.horizon_declared:
        more = monitor.horizon + 1 - len(states)
        found += [_outlook(_stepped(watch, monitor, states[-1], 0.5)) for _ in range(more)]
    ended = _stepped(watch, monitor, None, rewards[len(states)], truncated=i == 3)
    return [*found, _outlook(ended)]


def _own_watched(case: Case, monitor: GoalMonitor, new: Episodes, i: int) -> list[Any]:
    """One run followed live towards its own target."""
    states, rewards, _ = _told(monitor, new, i)
    watch = monitor.watch_own(**case.alarm)
    assert new.targets is not None
    watch.reset(new.targets[i])
    return [_outlook(watch.step(state, rewards[t])) for t, state in enumerate(states)]


def _fleet(case: Case, monitor: GoalMonitor, new: Episodes) -> list[Any]:
    """Several runs followed together, until the first of them ends."""
    told = [_told(monitor, new, i) for i in range(SHOWN)]
    groups = None if told[0][2] is None else [group for _, _, group in told]
    fleet = monitor.fleet(case.target, SHOWN, groups=groups, **case.alarm)
    found = []
    for t in range(min(len(states) for states, _, _ in told)):
        states = np.array([states[t] for states, _, _ in told])
        found.append(_numbers(_earned(fleet.step, monitor, [r[t] for _, r, _ in told], states)))
    return found


def _sessions(case: Case, monitor: GoalMonitor, new: Episodes) -> list[Any]:
    """Runs by name, in the words of the JSON protocol."""
    sessions = monitor.sessions(case.target, **case.alarm)
    messages = [message for i in range(2) for message in _messages(monitor, new, i)]
    return [_answered(sessions.answer(message)) for message in messages]


def _service(case: Case, monitor: GoalMonitor, new: Episodes) -> list[Any]:
    """The same runs, reported to a service."""
    from starlette.testclient import TestClient

    from ontarget.service.contracts import ContractSpec
    from ontarget.service.service import Service
    from ontarget.service.web.api import create_app

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        monitor.save(folder / "m.ontarget")
        spec = ContractSpec(
            name="golden",
            model=str(folder / "m.ontarget"),
            target=_typed(case.target),
            **case.alarm,
        )
        service = Service(str(folder / "s.db"), [spec], models=folder / "models")
        found = []
        with TestClient(create_app(service), base_url="http://127.0.0.1:8400") as client:
            for i in range(2):
                for step, message in enumerate(_messages(monitor, new, i)):
                    sent = {**message, "run": "1", "step": step}
                    found.append(_answered(client.post("/v1/steps", json=sent).json()))
    return found


def _typed(target: Target | Goal) -> str:
    """A target of one piece as one types it, or a goal."""
    if isinstance(target, Goal):
        return str(target)
    low, high = target.lower, target.upper
    return f"{low if np.isfinite(low) else ''}:{high if np.isfinite(high) else ''}"


def _messages(monitor: GoalMonitor, new: Episodes, i: int) -> list[dict[str, Any]]:
    """A run as JSON messages."""
    states, rewards, group = _told(monitor, new, i)
    earned = "behavior" if _reads_behavior(monitor) else "reward"
    found: list[dict[str, Any]] = []
    for t in range(len(states) + 1):
        message: dict[str, Any] = {"agent": f"agent {i}"}
        if t < len(states):
            values = [None if np.isnan(x) else float(x) for x in states[t]]
            message["state"] = dict(zip(FEATURES, values, strict=True))
        else:
            message["end"] = True
        if t:
            message[earned] = rewards[t]
        elif group is not None:
            message["group"] = group
        found.append(message)
    return found


def _explained(case: Case, monitor: GoalMonitor, new: Episodes) -> Any:
    states, so_far, groups = _at(monitor, new.take([0]), 2)
    before, had, _ = _at(monitor, new.take([0]), 1)
    one = _first(so_far), _first(had)
    told = monitor.explain(
        2,
        states[0],
        one[0],
        case.target,
        before=(before[0], one[1]),
        group=None if groups is None else groups[0],
    ).to_dict()
    return {name: _plain(value) for name, value in told.items() if not isinstance(value, str)}


def _evaluated(seen: Any) -> dict[str, Any]:
    """What `evaluate` measures on new runs."""
    quality = _or_refusal(lambda: seen.alarms(false_alarm_rate=0.2))
    return {
        **{name: _plain(getattr(seen, name)) for name in ("p", "low", "high", "spread", "met")},
        **{name: _plain(getattr(seen, name)) for name in ("plausibility", "assurance", "raw")},
        **{name: _plain(getattr(seen, name)()) for name in ("ece", "brier", "log_loss")},
        "reliability": _plain(seen.reliability),
        "alarms": quality if isinstance(quality, str) else _plain([quality.first, quality.quality]),
        "wrongly": _or_refusal(
            lambda: _plain([seen.ruled_out_wrongly(0.1), seen.assured_wrongly(0.1)])
        ),
        "curve": _or_refusal(lambda: _plain(seen.alarm_curve())),
    }


def _drift(monitor: GoalMonitor, new: Episodes, target: Any) -> dict[str, Any]:
    found = {}
    for name, order in (("ordered", np.arange(len(new))), ("unordered", None)):
        seen = monitor.drift(new, target, order=order)
        found[name] = _plain([seen.n, seen.since, seen.bias, seen.before, seen.judgement.name])
    return found


def _guards(monitor: GoalMonitor, new: Episodes, target: Any) -> dict[str, Any]:
    """What the live guards say after some finished runs of one group."""
    group = _group(monitor)
    mine = new if group is None else new.take(np.flatnonzero(new.groups == group))
    guards = {
        "drift": lambda: monitor.drift_guard(group=group),
        "harm": lambda: monitor.harm_guard(target, group=group),
    }
    return {
        name: _or_refusal(lambda made=made: _plain(made().observe(mine)))
        for name, made in guards.items()
    }


def _group(monitor: GoalMonitor) -> Any:
    return None if monitor.groups is None else monitor.groups[0]


def _at(monitor: GoalMonitor, runs: Episodes, t: int) -> tuple[np.ndarray, Any, Any]:
    """States, behavior so far and groups of runs at step t, as batch methods take them."""
    shown = runs.with_history(monitor.history or 0) if getattr(monitor, "history", 0) else runs
    groups = None if monitor.groups is None else runs.groups
    if not monitor.readings:
        step = shown.at(t, grid=monitor.grid)
        return step.states, step.behavior, groups
    parts = {name: shown.only(name).at(t) for name in monitor.readings}
    first = next(iter(parts.values()))
    return first.states, {name: part.behavior for name, part in parts.items()}, groups


def _told(monitor: GoalMonitor, new: Episodes, i: int) -> tuple[np.ndarray, list[Any], Any]:
    """States of a run, what was earned before each and before the end, and its group."""
    run = new.take([i])
    length = int(run.lengths[0])
    whole = run.only(run.names[0]) if run.names else run
    states = np.array([whole.at(t).states[0] for t in range(length)])
    group = None if monitor.groups is None else run.groups[0]
    if _reads_behavior(monitor):
        so_far = [float(whole.at(t).behavior[0]) for t in range(length)]
        return states, [*so_far, float(whole.outcomes[0])], group
    earned: list[Any] = [0.0, *(float(whole.rewards_at(t)[0]) for t in range(length))]
    if monitor.readings:
        earned = [dict.fromkeys(("reward",), one) for one in earned]
    return states, earned, group


def _reads_behavior(monitor: GoalMonitor) -> bool:
    return not monitor.readings and monitor.behavior.spec.startswith(("column:", "total:"))


def _stepped(
    watch: Any, monitor: GoalMonitor, state: Any, earned: Any, truncated: bool = False
) -> Outlook:
    """A live step, or the end if there is no state."""
    told = {"behavior": earned} if _reads_behavior(monitor) else {"reward": earned}
    if state is not None:
        return watch.step(state, **told)
    return watch.end(**told, truncated=truncated)


def _earned(step: Callable[..., Outlooks], monitor: GoalMonitor, earned: Any, states: Any) -> Any:
    if monitor.readings:
        return step(states, {name: np.array([e[name] for e in earned]) for name in earned[0]})
    return step(states, **{"behavior" if _reads_behavior(monitor) else "rewards": earned})


def _first(so_far: Any) -> Any:
    return (
        {name: float(values[0]) for name, values in so_far.items()}
        if isinstance(so_far, Mapping)
        else float(so_far[0])
    )


def _numbers(seen: Outlooks) -> dict[str, Any]:
    found = {name: _plain(getattr(seen, name)) for name in NUMBERS}
    return {**found, "status": _plain(seen.status), "reason": [kind_of(r) for r in seen.reason]}


def _outlook(seen: Outlook) -> dict[str, Any]:
    found = {name: _plain(getattr(seen, name)) for name in NUMBERS}
    return {**found, "t": seen.t, "status": seen.status.name, "reason": kind_of(seen.reason)}


def _answered(told: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON answer without the clock, its reason by its kind."""
    return {
        name: kind_of(value) if name == "reason" else _plain(value)
        for name, value in told.items()
        if name not in ("at", "time", "id")
    }


def kind_of(reason: str) -> str:
    """Which kind of reason these words give."""
    for kind, words in REASONS.items():
        if re.match(words, reason) or (kind and re.search(words, reason)):
            return kind
    return reason


def _or_refusal(ask: Callable[[], Any]) -> Any:
    """The answer, or the class of the error if the monitor refuses."""
    try:
        return ask()
    except OntargetError as error:
        return f"refused: {type(error).__name__}"


def _plain(value: Any) -> Any:
    """A value as JSON has it, to the last bit: NaN is None, infinities are named."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None if np.isnan(value) else str(value)
    if isinstance(value, Target | Goal):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
