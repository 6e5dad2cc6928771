"""The inputs that a model gets about a run, and which readings of a state are bad."""

from __future__ import annotations

import numpy as np

from ontarget._typing import BoolArray, FloatArray


def bad_readings(states: FloatArray, may_miss: BoolArray) -> BoolArray:
    """(runs,): whether a feature of the state is infinite, or is missing but must not be."""
    bad: BoolArray = np.any(np.isinf(states) | (np.isnan(states) & ~may_miss), axis=1)
    return bad


def inputs_of(states: FloatArray, behavior: FloatArray | None, t: int | None) -> FloatArray:
    """(runs, inputs): what a model reads of each run at one step."""
    columns = [states]
    if behavior is not None:
        columns.append(behavior[:, None])
    if t is not None:
        columns.append(np.full((states.shape[0], 1), float(t)))
    return np.concatenate(columns, axis=1)
