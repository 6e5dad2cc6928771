"""Reads from recorded paths what runs gained after a recorded row.

See method M22 in docs/methods.md.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.fitted._kernels import snap_value


@kernel
def even_samples(
    members: tuple[IntArray, IntArray, FloatArray], n_rows: int, samples: IntArray
) -> None:
    """Write, for each run, a sample of training rows that each stand for an equal weight.

    ``members`` are the training rows that make up each run's prediction: how many, which, and their
    weights. Training rows are numbered in the order of their outcomes, so the sample is spread
    evenly over the outcomes. If no training rows make up a run's prediction, the run gets
    ``n_rows``, which is no training row.
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
    """What a recorded run gained in ``lead`` steps after its row.

    For a behavior that is not a sum, the result is the value of the behavior at that step.
    ``origin`` is the episode and the step of the row; ``way`` is as for `gains_of_samples`.
    """
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

    Parameters
    ----------
    samples
        (runs, samples): numbers of training rows.
    recorded
        The episode and the step of each training row, and the path of each episode: the behavior
        before every step, and after the last, (episodes, steps + 1).
    leads
        How many steps after its row each gain is taken.
    way
        Three things: whether the behavior is a sum, so that a gain is a difference; the factor by
        which the models of each step scale what is still to earn; and this factor at the step that
        is asked about (method M18 in docs/methods.md).
    amounts
        How values are rounded, as for `snap_value`.
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
    """Write which share of the sampled gains is below each value of a path, and at most as high.

    A gain is what a recorded run added after its row. A cell is a range of later steps. ``cells``
    has the lead (number of steps ahead) of each cell, and where the values of each cell begin and
    end. Each value is compared with the gains at its cell's lead. ``values`` and both arrays in
    ``out`` are (runs, values); the rest is as for `gains_of_samples`.
    """
    episodes, steps, paths = recorded
    leads, starts = cells
    n_samples = samples.shape[1]
    gains = np.empty((leads.size, n_samples))
    for i in range(samples.shape[0]):
        for j in range(n_samples):
            row = samples[i, j]
            if j > 0 and row == samples[i, j - 1]:
                gains[:, j] = gains[:, j - 1]
                continue
            origin = episodes[row], steps[row]
            for c in range(leads.size):  # along a path, which is contiguous in memory
                gains[c, j] = _gain(paths, origin, leads[c], way, amounts)
        for c in range(leads.size):
            for h in range(starts[c], starts[c + 1]):
                below, upto = 0, 0
                for j in range(n_samples):
                    below += 1 if gains[c, j] < values[i, h] else 0
                    upto += 1 if gains[c, j] <= values[i, h] else 0
                out[0][i, h], out[1][i, h] = below / n_samples, upto / n_samples
