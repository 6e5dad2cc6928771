"""Computes the monitor's answers about goals over several behaviors (M21)."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted.kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    PLAUSIBILITY,
    RAW,
    SLACK,
    SPREAD_HIGH,
    SPREAD_LOW,
    UNPROVED,
    P,
    Stored,
    distance,
    gather,
    on_curve,
    outlook_of_row,
    share_high,
    share_low,
)

# A piece (interval) of a target: the probabilities at its two ends, calibrated and uncalibrated.
N_SIDES: Final = 4
# For each behavior, row and target: the numbers of its outlook, its pieces, and how far the target
# and its complement are from the median. The behaviors are the first axis.
Pieces: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


@kernel
def pieces_of_rows(
    stored: Stored,
    limits: tuple[FloatArray, FloatArray],
    target: tuple[IndexArray, FloatArray, IndexArray],
    asked: tuple[int, FloatArray, float, float],
    amounts: FloatArray,
    out: Pieces,
) -> None:
    """Write where each target of one behavior lies in each run's predicted distribution.

    ``out`` is as in `Pieces` for one behavior, (runs, targets, …); the other arguments are those of
    `outlook_of_rows`.
    """
    numbers, pieces, away = out
    columns, sides, first = target
    room = (np.empty(columns.shape[1]), np.empty(columns.shape[1]))
    translation, so_far, least, most = asked
    n_targets = (first.size - 1) // 2
    for i in range(so_far.size):
        here = (limits[0][i], limits[1][i])
        known = (translation, so_far[i], least, most)
        for j in range(n_targets):
            own = (columns, sides, first, j)
            outlook_of_row(stored, here, own, known, amounts, room, numbers[i, j])
            decided = numbers[i, j, DECIDED]
            pieces[i, j] = 0.0
            if decided >= 0.0:
                away[i, j, 0] = 0.0 if decided == 1.0 else np.inf
                away[i, j, 1] = np.inf if decided == 1.0 else 0.0
                if decided == 1.0:
                    pieces[i, j, 0, 1], pieces[i, j, 0, 3] = 1.0, np.inf
                    pieces[i, j, 0, 2] = -np.inf
                continue
            for other in range(2):
                at = j + other * n_targets
                spans = (columns, sides, first[at], first[at + 1])
                kept, _ = gather(here, spans, known, amounts, room)
                away[i, j, other] = np.inf
                for c in range(kept):
                    low, high = room[0][c], room[1][c]
                    far = distance(stored[0], stored[2], low, high)
                    away[i, j, other] = min(away[i, j, other], far)
                    if other == 0:
                        pieces[i, j, c, 0] = on_curve(stored[2], low)
                        pieces[i, j, c, 1] = on_curve(stored[2], high)
                        pieces[i, j, c, 2], pieces[i, j, c, 3] = low, high


@inner_kernel
def _cover(pieces: FloatArray, ranks: FloatArray, covered: FloatArray) -> None:
    """Write how much of each episode's cell the pieces of a target cover, from 0 to 1."""
    n = ranks.size
    covered[:] = 0.0
    for c in range(pieces.shape[0]):
        low, high = pieces[c, 0] * n, pieces[c, 1] * n
        if high > low:
            for i in range(n):
                covered[i] += max(0.0, min(high, ranks[i] + 1.0) - max(low, ranks[i]))


@inner_kernel
def _share(
    pieces: FloatArray,
    row: int,
    boxes: IndexArray,
    learned: tuple[FloatArray, int],
    room: FloatArray,
) -> float:
    """The probability of a goal: how much of the learning episodes' cells its boxes cover."""
    # For each behavior, the probabilities from 0 to 1 are divided into equal cells, one per
    # episode, in the order of the episodes' ranks (where their outcomes fell in their predicted
    # distributions). A box asks several behaviors to meet one target each. ``boxes`` must be
    # disjoint. ``learned`` has the position of each episode in this order, (behaviors, episodes),
    # and the position of the row's own episode, which is left out (-1 for none). ``room`` is (3,
    # episodes), to work in.
    ranks, own = learned
    total, inside, covered = room[0], room[1], room[2]
    total[:] = 0.0
    for b in range(boxes.shape[0]):
        inside[:] = 1.0
        for c in range(boxes.shape[1]):
            if boxes[b, c] >= 0:
                _cover(pieces[c, row, boxes[b, c]], ranks[c], covered)
                for i in range(inside.size):
                    inside[i] *= covered[i]
        for i in range(inside.size):
            total[i] += inside[i]
    if own >= 0:
        total[own] = 0.0
    whole = 0.0
    for i in range(total.size):
        whole += total[i]
    return float(whole / max(1, total.size - (1 if own >= 0 else 0)))


@inner_kernel
def _ranks_inside(pieces: FloatArray, row: int, boxes: IndexArray, ranks: FloatArray) -> int:
    """How many assure episodes (held-out runs) have their ranks inside any of the boxes."""
    inside = 0
    for i in range(ranks.shape[0]):
        for b in range(boxes.shape[0]):
            every = True
            for c in range(boxes.shape[1]):
                if boxes[b, c] < 0:
                    continue
                own, some = pieces[c, row, boxes[b, c]], False
                for k in range(own.shape[0]):
                    some = some or own[k, 2] < ranks[i, c] <= own[k, 3]
                every = every and some
            if every:
                inside += 1
                break
    return inside


@inner_kernel
def _decided(numbers: FloatArray, row: int, boxes: IndexArray) -> int:
    """1 if the run is certain to meet some box, 0 if it can meet none any more, otherwise -1."""
    possible = False
    for b in range(boxes.shape[0]):
        certain, open_still = True, True
        for c in range(boxes.shape[1]):
            if boxes[b, c] >= 0:
                decided = numbers[c, row, boxes[b, c], DECIDED]
                certain = certain and decided == 1.0
                open_still = open_still and decided != 0.0
        if certain:
            return 1
        possible = possible or open_still
    return -1 if possible else 0


@inner_kernel
def _bound(numbers: FloatArray, row: int, boxes: IndexArray, out: FloatArray) -> None:
    """Write ``low`` and ``high`` of the goal, from those of each behavior's targets."""
    out[LOW], out[HIGH] = 0.0, 0.0
    for b in range(boxes.shape[0]):
        missed, high = 0.0, 1.0
        for c in range(boxes.shape[1]):
            if boxes[b, c] >= 0:
                missed += 1.0 - numbers[c, row, boxes[b, c], LOW]
                high = min(high, numbers[c, row, boxes[b, c], HIGH])
        out[LOW] = max(out[LOW], 1.0 - missed)
        out[HIGH] = min(1.0, out[HIGH] + high)


@inner_kernel
def _away(away: FloatArray, row: int, boxes: IndexArray, complement: bool) -> float:
    """How far the goal is from the medians, in probability; +inf if impossible."""
    found = 0.0 if complement else np.inf
    for b in range(boxes.shape[0]):
        own = np.inf if complement else 0.0
        for c in range(boxes.shape[1]):
            if boxes[b, c] >= 0 and complement:
                own = min(own, away[c, row, boxes[b, c], 1])
            elif boxes[b, c] >= 0:
                own = max(own, away[c, row, boxes[b, c], 0])
        found = max(found, own) if complement else min(found, own)
    return found


@inner_kernel
def _plausible(excess: FloatArray, away: float) -> float:
    """The plausibility of a goal at this distance from the medians; 0 if the goal is impossible."""
    if away == np.inf:
        return 0.0
    below = np.searchsorted(excess, away - SLACK)
    return (1 + excess.size - below) / (excess.size + 1)


@kernel
def goals_of_rows(
    parts: Pieces,
    boxes: tuple[IndexArray, IndexArray],
    episodes: tuple[FloatArray, IndexArray, FloatArray],
    stored: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Write the monitor's answer about a goal for each run: p and other numbers."""
    numbers, pieces, away = parts
    given, apart = boxes
    learned, own, assured = episodes
    excess, own_map = stored
    room = np.empty((3, learned.shape[1]))
    stopped = excess.size - int(np.searchsorted(excess, 1.0))
    n = assured.shape[0] + stopped
    for i in range(out.shape[0]):
        decided = _decided(numbers, i, given)
        out[i, DECIDED] = decided
        if decided >= 0:
            for place in range(DECIDED):
                out[i, place] = decided
            out[i, RAW] = decided
            continue
        p = _share(pieces, i, apart, (learned, own[i]), room)
        p = min(max(p, UNPROVED), 1.0 - UNPROVED)
        out[i, RAW] = p
        if own_map.size > 0:
            p = min(max(on_curve(own_map, p), UNPROVED), 1.0 - UNPROVED)
        out[i, P] = p
        _bound(numbers, i, given, out[i])
        out[i, PLAUSIBILITY] = _plausible(excess, _away(away, i, given, False))
        out[i, ASSURANCE] = 1.0 - _plausible(excess, _away(away, i, given, True))
        inside = _ranks_inside(pieces, i, given, assured)
        out[i, SPREAD_LOW] = min(share_low(inside, n), p)
        out[i, SPREAD_HIGH] = max(share_high(inside + stopped, n), p)
