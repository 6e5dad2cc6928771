"""Reads from recorded paths what runs gained after a recorded row (M22)."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.fitted.kernels import snap_value


@kernel
def even_samples(
    members: tuple[IntArray, IntArray, FloatArray], n_rows: int, samples: IntArray
) -> None:
    """Write, for each run, a sample of training rows that each stand for an equal weight."""
    counts, rows, mass = members
    n_samples = samples.shape[1]
    dense = np.zeros(n_rows)
    for i in range(counts.size):
        total = 0.0
        for m in range(counts[i]):
            dense[rows[i, m]] += mass[i, m]
            total += mass[i, m]
        last, taken, upto = n_rows, 0, 0.0
        for row in range(n_rows):
            if dense[row] > 0.0:
                last, upto = row, upto + dense[row]
                dense[row] = 0.0
                while taken < n_samples and upto * n_samples > (taken + 0.5) * total:
                    samples[i, taken] = row
                    taken += 1
        for j in range(taken, n_samples):
            samples[i, j] = last


@inner_kernel
def _gain(
    paths: FloatArray,
    origin: tuple[int, int],
    lead: int,
    way: tuple[bool, FloatArray, float],
    amounts: FloatArray,
) -> float:
    """What a recorded run gained in ``lead`` steps after its row."""
    episode, step = origin
    adds_up, scales, scale = way
    later = paths[episode, min(step + lead, paths.shape[1] - 1)]
    if not adds_up:
        return float(later)
    return float(snap_value((later - paths[episode, step]) * (scales[step] / scale), amounts))


@kernel
def gains_of_samples(
    samples: IntArray,
    recorded: tuple[IndexArray, IndexArray, FloatArray],
    leads: IndexArray,
    way: tuple[bool, FloatArray, float],
    amounts: FloatArray,
    gains: FloatArray,
) -> None:
    """Write what recorded runs gained after a row, for each of several numbers of steps.

    The result is (runs, leads, samples).
    """
    episodes, steps, paths = recorded
    for i in range(samples.shape[0]):
        for j in range(samples.shape[1]):
            row = samples[i, j]
            if j > 0 and row == samples[i, j - 1]:
                gains[i, :, j] = gains[i, :, j - 1]
                continue
            origin = episodes[row], steps[row]
            for c in range(leads.size):  # along a path, which is contiguous in memory
                gains[i, c, j] = _gain(paths, origin, leads[c], way, amounts)
