"""Where a run that is watched stands and will be, for the live view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ontarget.cli.view.live_view import Place
from ontarget.errors import OntargetError
from ontarget.live import GoalContract

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Sessions

__all__ = ["foretold", "placed"]

_LEVEL = 0.9
_SHARES = (0.05, 0.95)


def foretold(monitor: GoalMonitor, sessions: Sessions, agent: str) -> str:
    """The ranges in which an agent's run will be at a few later steps; empty if nobody can say.

    They hold with 90 % at all steps together, so that one may look at every step.
    """
    if agent not in sessions:
        return ""
    state = sessions.run_state(agent)
    t = state.step - 1
    if state.row is None or state.ended or not 0 <= t < monitor.horizon:
        return ""
    so_far = np.nan if state.so_far is None else state.so_far
    row = np.array(state.row, dtype=np.float64)  # None is missing
    try:
        band = monitor.path_band(t, row[None], so_far, _LEVEL, all_steps=True, groups=state.group)
    except OntargetError:
        return ""
    places = np.unique(np.linspace(0, band.steps.size - 1, 4).round().astype(int))[1:]
    ranges = [
        f"{'end' if h == monitor.horizon else f'step {h}'} {low:.4g} to {high:.4g}"
        for h, low, high in zip(
            band.steps[places], band.lower[0, places], band.upper[0, places], strict=True
        )
    ]
    return f"path (90 %): {', '.join(ranges)}" if ranges else ""


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
