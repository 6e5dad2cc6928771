"""What recorded runs gained after a recorded row, and where a path lies among them (M22)."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.fitted._kernels import snap_value

__all__ = ["even_samples", "gains_of_samples", "limits_of_paths"]


@kernel
def even_samples(
    members: tuple[IntArray, IntArray, FloatArray], n_rows: int, samples: IntArray
) -> None:
    """Write, for each row asked, training rows that stand for equal shares of its members' mass.

    Training rows are numbered in the order of their outcomes, so the samples are spread evenly over
    the outcomes. A row without members gets ``n_rows``, which is no training row.
    """
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
    """What a recorded run gained in so many steps after its row, or what it had come to then."""
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
    """Write the gain of each sampled row after so many steps: (rows, leads, samples).

    Parameters
    ----------
    samples
        (rows, samples): numbers of training rows.
    recorded
        The episode and the step of each training row, and the path of each episode: the behavior
        before every step, and after the last, (episodes, steps + 1).
    leads
        How many steps after its row each gain is taken.
    way
        Whether the behavior adds up, so that a gain is a difference; the scale of each step, and
        that of the step asked (M18).
    amounts
        As for `snap_value`.
    """
    episodes, steps, paths = recorded
    for i in range(samples.shape[0]):
        for c in range(leads.size):
            for j in range(samples.shape[1]):
                row = samples[i, j]
                gains[i, c, j] = _gain(paths, (episodes[row], steps[row]), leads[c], way, amounts)


@kernel
def limits_of_paths(
    samples: IntArray,
    recorded: tuple[IndexArray, IndexArray, FloatArray],
    cells: tuple[IndexArray, IndexArray],
    way: tuple[bool, FloatArray, float],
    amounts: FloatArray,
    values: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write which share of the sampled gains lies below each value of a path, and up to it.

    ``cells`` are a lead for each cell, and where the values of each cell begin, with their end:
    each value is judged by the gains of its cell. ``values`` and both ``out`` are (rows, values);
    the rest is as for `gains_of_samples`.
    """
    episodes, steps, paths = recorded
    leads, starts = cells
    n_samples, n_values = samples.shape[1], values.shape[1]
    below, upto = np.empty(n_values, dtype=np.int64), np.empty(n_values, dtype=np.int64)
    for i in range(samples.shape[0]):
        below[:], upto[:] = 0, 0
        j = 0
        while j < n_samples:
            row, first = samples[i, j], j
            while j < n_samples and samples[i, j] == row:  # equal ones stand side by side
                j += 1
            origin = episodes[row], steps[row]
            for c in range(leads.size):
                gain = _gain(paths, origin, leads[c], way, amounts)
                for h in range(starts[c], starts[c + 1]):
                    below[h] += j - first if gain < values[i, h] else 0
                    upto[h] += j - first if gain <= values[i, h] else 0
        for h in range(n_values):
            out[0][i, h], out[1][i, h] = below[h] / n_samples, upto[h] / n_samples
