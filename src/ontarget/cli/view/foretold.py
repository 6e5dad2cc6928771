"""Where a run that is watched stands and will be, for the live view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ontarget.cli.view.course import Point
from ontarget.cli.view.live_view import Ahead, Place
from ontarget.errors import OntargetError
from ontarget.live import GoalContract

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Sessions

__all__ = ["foretold", "placed"]

_LEVEL = 0.9
_SHARES = (0.05, 0.95)


def foretold(monitor: GoalMonitor, sessions: Sessions, agent: str) -> Ahead | None:
    """The ranges in which an agent's run will be at later steps; None if nobody can say.

    They hold with 90 % at all steps together, so that one may look at every step.
    """
    if agent not in sessions:
        return None
    state = sessions.run_state(agent)
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
    told = [
        f"{'end' if h == monitor.horizon else f'step {h}'} {one.low:.4g} to {one.high:.4g}"
        for h, one in ((int(band.steps[k]), ranges[k]) for k in places)
    ]
    return Ahead(ranges, f"path (90 %): {', '.join(told)}" if told else "")


def placed(sessions: Sessions, agent: str) -> Place | None:
    """What an agent's run has so far, and where nine of ten runs like it end; None if unknown.

    The range is the estimate that p comes from, and no promise.
    """
    if agent not in sessions or isinstance(sessions.contract, GoalContract):
        return None
    state, fitted = sessions.run_state(agent), sessions.contract.fitted
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
