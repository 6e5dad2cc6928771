"""What a model reads of a run, and which readings are bad."""

from __future__ import annotations

import numpy as np

from ontarget._typing import BoolArray, FloatArray

__all__ = ["bad_readings", "inputs_of"]


def bad_readings(states: FloatArray, may_miss: BoolArray) -> BoolArray:
    """Which states have an infinite value, or lack one that was never missing in training."""
    bad: BoolArray = np.any(np.isinf(states) | (np.isnan(states) & ~may_miss), axis=1)
    return bad


def inputs_of(states: FloatArray, behavior: FloatArray | None, t: int | None) -> FloatArray:
    """What a model reads: the state, the behavior so far if it is not additive, t if pooled."""
    columns = [states]
    if behavior is not None:
        columns.append(behavior[:, None])
    if t is not None:
        columns.append(np.full((states.shape[0], 1), float(t)))
    return np.concatenate(columns, axis=1)
