"""A monitor's answers about recorded episodes at every step, and about many runs at one step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from ontarget._progress import Reached
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.rounding import check_sides
from ontarget.errors import FewEpisodesError
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    RAW,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
)
from ontarget.fitted._rehearsed import rehearsed_steps
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.question import Question
from ontarget.fitted.target_map import TargetMap
from ontarget.live._reasons import Reason, in_words, one_sided
from ontarget.live.answers import Answers, Sheet
from ontarget.live.outlook import Outlooks, Status
from ontarget.live.rules import NO_ASSURE
from ontarget.target import Target


def answer_episodes(
    fitted: Fitted,
    episodes: Episodes,
    target: Target,
    *,
    calibration: TargetMap | None = None,
    reached: Reached | None = None,
    since: int = 0,
) -> Answers:
    """The monitor's answers about these episodes at every step from ``since`` on.

    ``reached`` is a function that is called with the number of steps done, to show progress.
    """
    episodes = fitted.alike(episodes)
    check_sides(episodes._unrounded, target, fitted.grid)
    question, groups = Question.of(target, fitted.grid), fitted.groups_in(episodes)
    sheet, lost_since = Sheet(episodes.lengths, fitted.horizon), fitted.lost_since(episodes)
    longest = int(episodes.lengths.max()) if len(episodes) else 0
    for t in range(since, min(fitted.horizon, longest)):
        rows = episodes.at(t, grid=fitted.grid)
        bad = fitted.bad_readings(rows.states) | (lost_since[rows.index] <= t)
        sheet.put_bad(t, rows.index[bad])
        for g in np.unique(groups[rows.index]).tolist():
            own = np.flatnonzero(~bad & (groups[rows.index] == g))
            if not own.size:
                continue
            step, index = fitted.at(t, g, calibration), rows.index[own]
            found = step.outlook(
                rows.states[own], rows.behavior[own], question, fitted.sorted_excess[g]
            )
            sheet.put(t, index, found[:, 0], step.ranks.n)
        if reached is not None:
            reached(t + 1)
    steps = min(fitted.horizon, episodes.horizon)
    if reached is not None and longest < steps:
        reached(steps)  # no episode has the steps after that
    met = question.targets[0].contains(episodes.outcomes, fitted.grid)
    return sheet.answers(met)


def rehearsed_answers(
    fitted: Fitted, target: Target, *, calibration: TargetMap | None = None
) -> Answers:
    """The monitor's answers about each learning episode, by models not trained on that episode.

    The predicted distribution of the outcome was stored at some outcomes only, so p at the limits
    of the target is interpolated between these. Bounds and plausibility are NaN.
    """
    rehearsal = fitted.rehearsal
    if rehearsal is None:
        raise FewEpisodesError(NO_ASSURE)
    question = Question.of(target, fitted.grid)
    sheet = Sheet(rehearsal.lengths, fitted.horizon)
    places = range(rehearsal.steps.size)
    for t, g, episodes, found in rehearsed_steps(fitted, question, places):
        if calibration is not None:
            undecided = found[:, DECIDED] < 0.0
            mapped = calibration.held_out(t, g, episodes[undecided], found[undecided, P])
            found[undecided, P] = mapped
        # A learning episode has no bad readings: a feature that it lacks may be missing.
        sheet.put(t, episodes, found, int(fitted.learned[t, g]))
    sheet.forget(RAW)  # the stored predictions are calibrated, so there is no raw probability
    met = question.targets[0].contains(rehearsal.outcomes, fitted.grid)
    return sheet.answers(met, promises=False)


def outlooks_at(
    fitted: Fitted,
    t: int,
    states: FloatArray,
    so_far: FloatArray,
    target: Target | Sequence[Target],
    groups: IndexArray,
    *,
    calibration: TargetMap | None = None,
) -> Outlooks:
    """The monitor's answer for each run (`Outlooks`) at step t.

    ``states`` and ``so_far`` (the behavior so far) must be checked already, and ``so_far`` rounded
    to the grid (a fixed number of decimals).
    """
    question = Question.of(target, fitted.grid)
    rows, n_targets = so_far.size, len(question.targets)
    numbers = np.full((rows, n_targets, NUMBERS), np.nan)
    status = np.full(rows, Status.UNKNOWN, dtype=np.int8)
    n, codes = np.zeros(rows, dtype=np.intp), np.zeros(rows, dtype=np.intp)
    details = np.zeros((rows, 2))
    lost = ~np.isfinite(so_far)
    if t >= fitted.horizon and not fitted.horizon_declared:
        codes[:] = Reason.PAST
    elif t == fitted.horizon:
        met = np.stack([one.contains(so_far, fitted.grid) for one in question.targets], axis=1)
        numbers[~lost] = met[~lost, :, None]
        status[~lost] = Status.DONE
    else:
        lost &= not fitted.behavior.reads_so_far
        bad = fitted.bad_readings(states)
        for i in np.flatnonzero(bad).tolist():
            codes[i], details[i] = Reason.BAD_FEATURE, fitted.bad_feature(states[i]) or (0, 0)
        for g in np.unique(groups).tolist():
            own = groups == g
            n[own] = fitted.counts[t, g]
            some = np.flatnonzero(own & ~bad & ~lost)
            if not some.size:
                continue
            step, excess = fitted.at(t, g, calibration), fitted.sorted_excess[g]
            found = step.outlook(states[some], so_far[some], question, excess)
            numbers[some], known = found, ~np.isnan(found[..., P]).any(axis=1)
            status[some[known]] = Status.OK
            codes[some[~known]] = Reason.FEW if fitted.is_trained(t) else Reason.UNTRAINED
            details[some[~known], 0] = fitted.learned[t, g]
    codes[lost] = Reason.LOST
    fields = numbers[:, 0] if isinstance(target, Target) else numbers
    guesses = numbers[..., DECIDED] < 0.0  # NaN, where there is no answer, is none

    notes = functools.cache(lambda one: one_sided(fitted, one))

    def words(run: int) -> str:
        """The reason of a run's status, and for which targets p has nothing to learn from."""
        told = [in_words(int(codes[run]), tuple(details[run]), fitted)]
        for one in itertools.compress(question.targets, guesses[run]):
            note = notes(one)[groups[run]]
            told.append(f"{one}: {note}" if note and n_targets > 1 else note)
        return "; ".join(filter(None, told))

    return Outlooks(
        t=np.full(rows, t, dtype=np.intp),
        p=fields[..., P],
        spread=fields[..., SPREAD_LOW : SPREAD_HIGH + 1],
        low=fields[..., LOW],
        high=fields[..., HIGH],
        plausibility=fields[..., PLAUSIBILITY],
        assurance=fields[..., ASSURANCE],
        n=n,
        status=status,
        words=words,
    )
