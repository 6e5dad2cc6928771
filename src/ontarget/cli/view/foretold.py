"""Where a run that is watched will be, in a line for the live view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ontarget.errors import OntargetError

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Sessions

__all__ = ["foretold"]

_LEVEL = 0.9


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
