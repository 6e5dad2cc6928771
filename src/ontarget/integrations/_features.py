"""Turns an environment's observations into the rows that a monitor was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes import Schema
from ontarget.errors import InputError
from ontarget.reading.observations import ObservationLayout


class MonitorView:
    """Turns observations into rows with the monitor's features in the monitor's order.

    Features are matched by name if the names of layout and monitor agree. If only their number
    agrees, because the user chose other names, features are matched by position.

    Parameters
    ----------
    layout
        How an observation becomes a row of named numbers.
    schema
        The monitor's features.
    """

    def __init__(self, layout: ObservationLayout, schema: Schema) -> None:
        if len(layout) != len(schema):
            raise InputError(
                f"the monitor was fitted on {len(schema)} features ({_listed(schema.names)}), but "
                f"this environment's observations have {len(layout)} ({_listed(layout.names)}); "
                "record this environment and fit again, or wrap it in a "
                "gymnasium.wrappers.TransformObservation"
            )
        self._layout = layout
        self._order: IndexArray | None = None
        if layout.names != schema.names and set(layout.names) == set(schema.names):
            place = {name: i for i, name in enumerate(layout.names)}
            self._order = np.array([place[name] for name in schema.names], dtype=np.intp)

    def row(self, observation: Any) -> FloatArray:
        """One observation as a row of numbers, in the order of the monitor's features."""
        return self._ordered(self._layout.row(observation).astype(np.float64))

    def rows(self, observations: Any, n: int) -> FloatArray:
        """A batch of n observations as rows of numbers, in the order of the monitor's features."""
        return self._ordered(self._layout.rows(observations, n).astype(np.float64))

    def _ordered(self, values: FloatArray) -> FloatArray:
        if self._order is None:
            return values
        ordered: FloatArray = values[..., self._order]
        return ordered


def _listed(names: tuple[str, ...], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
