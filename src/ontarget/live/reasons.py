"""The reasons for a run's status: the codes that compiled code writes, and texts for them.

A reason is also that p has nothing to learn from: all learning runs met the target, or all missed
it. That p is close to 1 (or 0) then says little about a new run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Translation
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.goal import Box, Goal
from ontarget.target import Target

OVER = "the run is over; call reset to begin another"


class Reason(IntEnum):
    """The codes of the reasons for a run's status."""

    NONE = 0
    WAITING = 1
    ALARM = 2  # what was compared, and the threshold
    DECIDED = 3  # the behavior so far
    ENDED = 4  # whether inside, and the outcome
    UNTRAINED = 5
    FEW = 6  # how many episodes calibrate p
    OVER = 7
    UNBEGUN = 8
    EARLY = 9  # the reward
    BAD_REWARD = 10  # the reward, the step
    BAD_BEHAVIOR = 11  # the value
    NOT_TOLD = 12
    LOST = 13
    OUT_OF_BOUNDS = 14  # the reward, the step
    BAD_FEATURE = 15  # which feature, its value
    TEXT = 16  # in words of its own
    PAST = 17  # the longest run seen
    CUT_OFF = 18  # after how many steps


def past(longest: int) -> str:
    """The reason, as text, why nothing is known about a run longer than every learning run."""
    return (
        f"the run is longer than the longest run learned from ({longest} steps), and no horizon "
        "was declared; end the run when it is over"
    )


def in_words(
    code: int,
    details: tuple[float, float],
    fitted: Fitted,
    *,
    compares: tuple[str, str] = ("p", "below"),
    text: str = "",
) -> str:
    """The reason for a run's status, as text."""
    one, other = details
    match code:
        case Reason.WAITING:
            return "waiting for the first state"
        case Reason.ALARM:
            return f"{compares[0]} = {one:.3g}, alarm {compares[1]} {other:.3g}"
        case Reason.DECIDED:
            return f"the target is out of reach with {fitted.label} at {one + 0.0:.6g}"
        case Reason.ENDED:
            # Adding 0 turns -0 into 0.
            return f"ended {'inside' if one else 'outside'} the target at {other + 0.0:.6g}"
        case Reason.UNTRAINED:
            return "no model was fitted for this step"
        case Reason.FEW:
            return (
                f"{one:.0f} {fitted.calibrated_by} episodes reach this step, fewer than "
                f"{fitted.min_calibration}"
            )
        case Reason.OVER:
            return OVER
        case Reason.UNBEGUN:
            return "the run ended before its first step"
        case Reason.EARLY:
            return f"nothing is earned before the first step, so its reward is 0, got {text or one}"
        case Reason.BAD_REWARD:
            return f"reward needs a number, got {text or one} at step {other:.0f}"
        case Reason.BAD_BEHAVIOR:
            return f"behavior needs a number, got {text or one}"
        case Reason.NOT_TOLD:
            return (
                f"behavior {fitted.behavior.spec!r} is not computed from rewards: pass its value "
                "as behavior="
            )
        case Reason.LOST:
            return "the behavior so far is unknown"
        case Reason.OUT_OF_BOUNDS:
            low, high = fitted.reward_bounds
            return (
                f"reward {one:g} at step {other:.0f} is outside the declared bounds ({low:g}, "
                f"{high:g}), so nothing can be said about this run"
            )
        case Reason.PAST:
            return past(fitted.horizon)
        case Reason.CUT_OFF:
            steps = "1 step" if one == 1.0 else f"{one:.0f} steps"
            early = f", before the monitor's horizon of {fitted.horizon}"
            early *= one < fitted.horizon
            return f"the run was cut off after {steps}{early}, so its outcome is unknown"
        case Reason.BAD_FEATURE:
            return fitted.feature_in_words(int(one), other)
    return text


def one_sided(asked: Asked) -> tuple[str, ...]:
    """For each group, why p of this target has nothing to learn from; empty if it has something."""
    parts = dict(zip(asked.names, asked.parts, strict=True))
    if isinstance(asked.target, Goal):
        boxes: Sequence[Box] = asked.target.boxes  # none, for a goal given by a function
    else:
        boxes = [((asked.names[0], asked.targets[0][0]),)]
    sure = [[_decided(parts[name], target) for name, target in box] for box in boxes]
    if sure and (any(all(box) for box in sure) or all(False in box for box in sure)):
        return ("",) * asked.fitted.n_groups
    return _one_sided(asked.parts, asked.contains)


def _decided(fitted: Fitted, target: Target) -> bool | None:
    """Whether arithmetic alone decides the target before the first step: met, missed or None."""
    least, most = fitted.ahead[0].tolist()
    own = fitted.behavior.translation is Translation.OWN
    possible = Target() if own else Target(least, most)
    if not possible & ~target:
        return True
    return None if possible & target else False


def _one_sided(
    parts: Sequence[Fitted], met: Callable[[Sequence[FloatArray]], BoolArray]
) -> tuple[str, ...]:
    """For each group, the sentence; ``parts`` are the behaviors, fitted on the same episodes."""
    first = parts[0]
    each = zip(*(one.learned_outcomes for one in parts), strict=False)
    known = [_of_all(met, outcomes) for outcomes in each]
    if not known:
        return ("",) * first.n_groups
    kept = first.runs.outcomes is not None or first.rehearsal is not None
    part = "learning" if kept else "assure"
    whole = _words(np.concatenate(known), part)
    if whole or first.groups is None:
        return (whole,) * first.n_groups
    hits, groups = _by_group(parts, met)
    part = "assure" if first.rehearsal is None else "learning"
    return tuple(_words(hits[groups == g], part, name) for g, name in enumerate(first.groups))


def _by_group(
    parts: Sequence[Fitted], met: Callable[[Sequence[FloatArray]], BoolArray]
) -> tuple[BoolArray, IndexArray]:
    """Whether each rehearsed run met the target, and the number of its group."""
    first = parts[0]
    if first.rehearsal is None:
        kept = [one.observed.outcomes for one in parts if one.observed is not None]
        groups = first.assure_groups[first.known_outcomes]
    else:
        kept = [one.rehearsal.outcomes for one in parts if one.rehearsal is not None]
        groups = first.rehearsal.groups
    hits = _of_all(met, kept) if kept else np.zeros(0, dtype=np.bool_)
    return hits, groups[: hits.size]


def _of_all(
    met: Callable[[Sequence[FloatArray]], BoolArray], each: Sequence[FloatArray]
) -> BoolArray:
    """Whether each run met the target, for the runs whose outcome in every behavior is kept."""
    n = min(map(len, each))
    return met([one[:n] for one in each])


def _words(met: BoolArray, part: str, group: Any = None) -> str:
    """The sentence about these runs, of all groups or of one; empty if some met and some missed."""
    n, hits = met.size, int(np.count_nonzero(met))
    if not n or 0 < hits < n:
        return ""
    where, there = ("", "") if group is None else (f" in group {group!r}", " there")
    runs = f"all {n:,} {part} runs" if n > 1 else f"the only {part} run"
    did = "met" if hits else "missed"
    return f"p has nothing to learn from{where}: {runs}{there} {did} the target"
