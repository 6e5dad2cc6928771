"""A monitor's answers about recorded episodes at every step, and about many runs at one step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from ontarget._progress import Reached
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.errors import FewEpisodesError
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.kernels import (
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
from ontarget.live.answers import Answers, Sheet
from ontarget.live.outlook import Outlooks, Status
from ontarget.live.reasons import Reason, in_words, one_sided
from ontarget.live.rules import NO_ASSURE


def answer_episodes(
    asked: Asked,
    episodes: Sequence[Episodes],
    *,
    reached: Reached | None = None,
    since: int = 0,
) -> Answers:
    """The monitor's answers about these episodes at every step from ``since`` on."""
    met, fitted, one = asked.met(episodes), asked.fitted, episodes[0]
    groups, sheet = fitted.groups_in(one), Sheet(one.lengths, fitted.horizon)
    each = list(zip(asked.parts, episodes, strict=True))
    lost_since = np.min([part.lost_since(own) for part, own in each], axis=0)
    longest = int(one.lengths.max()) if len(one) else 0
    for t in range(since, min(fitted.horizon, longest)):
        rows = [own.at(t, grid=part.grid) for part, own in each]
        index, states = rows[0].index, rows[0].states
        bad = fitted.bad_readings(states) | (lost_since[index] <= t)
        sheet.put_bad(t, index[bad])
        for g in np.unique(groups[index]).tolist():
            own = np.flatnonzero(~bad & (groups[index] == g))
            if own.size:
                found = asked.said(t, g, states[own], [step.behavior[own] for step in rows])
                sheet.put(t, index[own], found.numbers[:, 0], int(fitted.counts[t, g]))
        if reached is not None:
            reached(t + 1)
    steps = min(fitted.horizon, one.horizon)
    if reached is not None and longest < steps:
        reached(steps)  # no episode has the steps after that
    return sheet.answers(met)


def rehearsed_answers(asked: Asked) -> Answers:
    """The monitor's answers about each learning episode, by models not trained on that episode."""
    fitted, joint = asked.parts[0], asked.joint
    if fitted.rehearsal is None:
        raise FewEpisodesError(NO_ASSURE)
    steps, lengths = fitted.rehearsal.steps, fitted.rehearsal.lengths[: joint.n_rehearsed]
    sheet = Sheet(lengths, fitted.horizon)
    for t, g, who, found in asked.rehearsed(range(steps.size)):
        if asked.own_map is not None:
            undecided = found[:, DECIDED] < 0.0
            p = asked.own_map.held_out(t, g, who[undecided], found[undecided, P])
            found[undecided, P] = p
        # A learning episode has no bad readings: a feature that it lacks may be missing.
        sheet.put(t, who, found, int(asked.fitted.learned[t, g]))
    sheet.forget(RAW)  # the stored predictions are calibrated, so there is no raw probability
    return sheet.answers(asked.rehearsed_met, promises=False)


def outlooks_at(
    asked: Asked, t: int, states: FloatArray, so_far: Sequence[FloatArray], groups: IndexArray
) -> Outlooks:
    """The monitor's answer for each run (`Outlooks`) at step t."""
    # ``states`` and ``so_far`` (the behavior so far, one array (runs,) for each behavior) must be
    # checked already, and ``so_far`` rounded to the grid (a fixed number of decimals).
    fitted, parts, rows = asked.fitted, asked.parts, len(states)
    wanted = asked.target if isinstance(asked.target, tuple) else (asked.target,)
    each = [asked if len(wanted) == 1 else Asked(asked.joint, one) for one in wanted]
    numbers = np.full((rows, len(each), NUMBERS), np.nan)
    status = np.full(rows, Status.UNKNOWN, dtype=np.int8)
    n, codes = np.zeros(rows, dtype=np.intp), np.zeros(rows, dtype=np.intp)
    details = np.zeros((rows, 2))
    said: dict[int, str] = {}  # why no model answers, by run
    finite = [np.isfinite(had) for had in so_far]
    lost = ~np.all(finite, axis=0)
    if t >= fitted.horizon and not fitted.horizon_declared:
        codes[:] = Reason.PAST
    elif t == fitted.horizon:
        met = np.stack([one.contains(so_far) for one in each], axis=1)
        numbers[~lost] = met[~lost, :, None]
        status[~lost] = Status.DONE
    else:
        reads = [part.behavior.reads_so_far for part in parts]
        lost = ~np.all([one | read for one, read in zip(finite, reads, strict=True)], axis=0)
        bad = fitted.bad_readings(states)
        for i in np.flatnonzero(bad).tolist():
            codes[i], details[i] = Reason.BAD_FEATURE, fitted.bad_feature(states[i]) or (0, 0)
        for g in np.unique(groups).tolist():
            own = groups == g
            n[own] = fitted.counts[t, g]
            some = np.flatnonzero(own & ~bad & ~lost)
            if not some.size:
                continue
            found = asked.said(t, g, states[some], [had[some] for had in so_far]).numbers
            numbers[some], known = found, ~np.isnan(found[..., P]).any(axis=1)
            status[some[known]] = Status.OK
            codes[some[~known]] = Reason.TEXT
            said.update(dict.fromkeys(some[~known].tolist(), asked.trouble(t, g)))
    codes[lost] = Reason.LOST
    fields = numbers if isinstance(asked.target, tuple) else numbers[:, 0]
    guesses = numbers[..., DECIDED] < 0.0  # NaN, where there is no answer, is none

    notes = functools.cache(one_sided)

    def words(run: int) -> str:
        """The reason of a run's status, and for which targets p has nothing to learn from."""
        told = [in_words(int(codes[run]), tuple(details[run]), fitted, text=said.get(run, ""))]
        for one in itertools.compress(each, guesses[run]):
            note = notes(one)[groups[run]]
            told.append(f"{one.target}: {note}" if note and len(each) > 1 else note)
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
