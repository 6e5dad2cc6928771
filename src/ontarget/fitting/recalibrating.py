"""Recalibrates a fitted monitor: its models stay, but its promises come from new episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import KeyArray
from ontarget.episodes import Episodes
from ontarget.episodes.facts import MOST_FINGERPRINTS, known_by, seen_before
from ontarget.errors import CalibrationError, FewEpisodesError, GroupError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.recorded import Rehearsal
from ontarget.fitting._rehearsing import Stage, rehearsed
from ontarget.fitting.ranking import (
    Part,
    kept_episodes,
    predicted_limits,
    ranks_in_tasks,
    whole_run_excess,
)
from ontarget.fitting.tasks import Limits, step_rows


def recalibrated(fitted: Fitted, episodes: Episodes, *, seed: int, renew_p: bool) -> Fitted:
    """The same models, with promises that are computed from these new episodes."""
    new = _admitted(fitted, episodes)
    in_halves = renew_p or fitted.curves is None
    first, second = _halves(new, seed) if in_halves else (None, new)
    if second is None or second.cut_off.all() or (in_halves and first is None):
        raise FewEpisodesError(
            f"recalibrate needs new episodes that were not cut off (in each half, if they are "
            f"divided in halves), got {len(new)} episodes, {np.count_nonzero(new.cut_off)} of them "
            f"cut off; record more"
        )
    if second.cut_off.any():
        second = kept_episodes(second, seed)  # their ranks all have to be kept
    _check_groups(fitted, second)
    kept = kept_episodes(second, seed).compact()
    own = _part(fitted, kept)
    by_ranks = fitted.curves is None and first is not None
    ranks = ranks_in_tasks(
        fitted, _part(fitted, first if by_ranks and first is not None else second), seed=seed
    )
    teaches = first if fitted.curves is not None else None
    rehearsal = fitted.rehearsal
    if teaches is not None:
        rehearsal = _rehearsal(fitted, teaches, seed)
    sizes, known = _seen(fitted, first, second)
    return replace(
        fitted,
        ranks=ranks,
        assure=kept,
        excess=whole_run_excess(predicted_limits(fitted, own), own, ranks, fitted.curves),
        rehearsal=rehearsal,
        trained=replace(
            fitted.trained,
            seed=seed,
            sizes=sizes,
            censoring=new.censoring,
            fingerprints=read_only(known),
            chosen=replace(fitted.trained.chosen, held_out=None),
        ),
    )


def _admitted(fitted: Fitted, episodes: Episodes) -> Episodes:
    """The new episodes, with categories coded as in the monitor."""
    new = fitted.alike(episodes, cut_off=True)
    seen = seen_before(new, fitted.trained.fingerprints)
    if seen.size:
        raise CalibrationError(
            f"recalibrate needs new episodes, and {seen.size:,} of these {len(new):,} are among "
            f"those that the monitor was fitted on (first: episode {new.ids[seen[0]]!s}); leave "
            f"them out, or recalibrate an earlier monitor that has not seen them"
        )
    declared = fitted.horizon_declared
    store = replace(
        new._alone, horizon=fitted.horizon, horizon_declared=declared, dropped=new.dropped
    )
    return Episodes(store, grid=fitted.grid)


def _halves(new: Episodes, seed: int) -> tuple[Episodes | None, Episodes | None]:
    """Two halves of the new episodes: one to estimate p from, one for promises."""
    if len(new) < 2:
        return None, None
    parts = new.split(0.5, 0.5, seed=seed, by_group=None if new.groups is None else "stratify")
    ended = np.flatnonzero(~parts.learn.cut_off)
    return (parts.learn.take(ended) if ended.size else None), parts.assure


def _check_groups(fitted: Fitted, assure: Episodes) -> None:
    """Raise a `GroupError` if a group would be left without assure episodes (held-out runs)."""
    counts = np.bincount(fitted.groups_in(assure), minlength=fitted.n_groups)
    if fitted.groups is not None and not counts.all():
        lacking = fitted.groups[int(np.argmin(counts))]
        raise GroupError(
            f"recalibrate needs new episodes of every group, got none of {lacking!r}; record "
            f"some, or fit a new monitor without that group"
        )


def _seen(
    fitted: Fitted, first: Episodes | None, second: Episodes
) -> tuple[dict[str, int], KeyArray]:
    """How many episodes each part of the split now has, and hashes of all these episodes."""
    # The former assure episodes, which backed the promises before, are no longer in any part,
    # because nothing depends on them now.
    trained = fitted.trained
    sizes = dict(trained.sizes)
    found = {name: trained.fingerprints_of(name) for name in sizes}
    if first is not None and fitted.curves is None:
        sizes["calibrate"], found["calibrate"] = len(first), known_by(first)
    elif first is not None:
        both = np.concatenate([found["learn"], known_by(first)])
        sizes["learn"], found["learn"] = sizes["learn"] + len(first), both[:MOST_FINGERPRINTS]
    sizes["assure"], found["assure"] = len(second), known_by(second)
    return sizes, np.concatenate(list(found.values()))


def _part(fitted: Fitted, episodes: Episodes) -> Part:
    return Part(episodes, fitted.groups_in(episodes), fitted.may_miss)


def _rehearsal(fitted: Fitted, episodes: Episodes, seed: int) -> Rehearsal:
    """The predictions for the new episodes, which no model has seen, as a `Rehearsal`."""
    stage = Stage.of(episodes, seed, pace=fitted.pace, sets_alarms=False)
    limits: Limits = {}
    asked = stage.asking(
        step_rows(
            stage.episodes,
            stage.steps,
            grid=fitted.grid,
            reads_step=fitted.reads_step,
            pace=fitted.pace,
            guide=fitted.guide,
        )
    )
    for one in asked:
        if not fitted.is_trained(one.step):
            continue
        law, rows = fitted.at(one.step), stage.episodes.at(one.step, grid=fitted.grid)
        good = np.flatnonzero(~fitted.bad_readings(rows.states))
        left, right = np.full((2, *one.y.shape), np.nan)
        if good.size:
            inputs = law.inputs(rows.states[good], rows.behavior[good])
            left[good], right[good] = law._limits(inputs, one.y[good])
        limits[one.step] = left, right
    groups = fitted.groups_in(stage.episodes)
    return rehearsed(limits, stage, groups, seed)
