"""The present state of a watched run and its predicted path, for the live view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ontarget._plain import plain
from ontarget.cli.view.course import Point
from ontarget.cli.view.digits import alike
from ontarget.cli.view.track import Ahead, Place
from ontarget.errors import OntargetError
from ontarget.fitted._kernels import P
from ontarget.live import GoalContract

if TYPE_CHECKING:
    from ontarget import GoalMonitor, RunState, Sessions
    from ontarget.fitted.fitted import Fitted

_LEVEL = 0.9
_SHARES = (0.05, 0.95)
_NUMBERS = 6  # where the numbers of an outlook begin in a stored run


def foretold(monitor: GoalMonitor, sessions: Sessions, agent: str) -> Ahead | None:
    """The ranges in which an agent's run will be at later steps; None if nothing is known.

    The ranges hold with 90 % probability at all steps together, so you may look at every step. For
    several behaviors, the ranges are about the behavior with the lowest p.
    """
    if agent not in sessions:
        return None
    state, whose = sessions.run_state(agent), ""
    if isinstance(sessions.contract, GoalContract):
        if sessions.contract.question.is_function:
            return None  # no behavior is more at fault than another
        each = zip(sessions.contract.question.names, state.parts, strict=True)
        name, state = min(each, key=lambda one: _p(one[1]))
        monitor, whose = monitor.only(name), f"{plain(name)} "
    t = state.step - 1
    if state.row is None or state.ended or not 0 <= t < monitor.horizon:
        return None
    so_far = np.nan if state.so_far is None else state.so_far
    row = np.array(state.row, dtype=np.float64)  # None is missing
    try:
        band = monitor.path_band(t, row[None], so_far, _LEVEL, all_steps=True, groups=state.group)
    except OntargetError:
        return None
    ends = zip(band.lower[0].tolist(), band.upper[0].tolist(), strict=True)
    ranges = tuple(Point(low, low, high, high) for low, high in ends)
    places = np.unique(np.linspace(0, band.steps.size - 1, 4).round().astype(int))[1:].tolist()
    written = alike(*(end for k in places for end in (ranges[k].low, ranges[k].high)))
    told = [
        f"{'end' if h == monitor.horizon else f'step {h}'} {low} to {high}"
        for h, low, high in zip(
            band.steps[places].tolist(), written[::2], written[1::2], strict=True
        )
    ]
    return Ahead(ranges, f"{whose}path (90 %): {', '.join(told)}" if told else "")


def _p(state: RunState) -> float:
    found: Any = state.outlook[_NUMBERS + P]
    return 2.0 if found is None else float(found)


def placed(sessions: Sessions, agent: str) -> dict[str, Place]:
    """An agent's behavior so far, and the range in which nine of ten similar runs end.

    The keys are the names of the behaviors, or "" if there is only one. The range is an estimate,
    like p, and not a promise.
    """
    if agent not in sessions:
        return {}
    state, contract = sessions.run_state(agent), sessions.contract
    if not isinstance(contract, GoalContract):
        found = _place(contract.fitted, state)
        return {} if found is None else {"": found}
    each = {
        name: _place(part.fitted, own)
        for name, part, own in zip(
            contract.question.names, contract.parts, state.parts, strict=True
        )
    }
    return {name: found for name, found in each.items() if found is not None}


def _place(fitted: Fitted, state: RunState) -> Place | None:
    t, group = state.step - 1, fitted.group_of(state.group)
    if state.row is None or state.ended or not 0 <= t < fitted.horizon or fitted.unknown(t, group):
        return None
    so_far = np.array([np.nan if state.so_far is None else state.so_far])
    row = np.array([state.row], dtype=np.float64)  # None is missing
    try:
        fitted.check_readings(row, so_far)
    except OntargetError:
        return None
    low, high = fitted.at(t, group).likely(row, so_far, _SHARES)[0]
    return Place(float(so_far[0]), float(low), float(high))
