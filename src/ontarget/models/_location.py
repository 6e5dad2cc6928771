"""The centre and the spread of a feature, which models use to standardise it."""

from __future__ import annotations

import numpy as np

from ontarget._typing import FloatArray


def location(known: FloatArray) -> tuple[float, float]:
    """The mean and the standard deviation of a feature's numbers; a deviation near 0 becomes 0."""
    size = float(np.abs(known).max(initial=0.0))
    if size == 0.0:
        return 0.0, 0.0
    scaled = known / size
    centre = float(scaled.mean())
    spread = float(np.sqrt(np.square(scaled - centre).mean()))
    # A spread beyond rounding, and one whose inverse is a number.
    return centre * size, spread * size if spread > 1e-12 and spread * size > 1e-300 else 0.0
