"""Calibrating one target for itself at every step (M7)."""

from __future__ import annotations

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import FloatArray
from ontarget.conformal.venn_abers import Envelopes
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import seen_before
from ontarget.errors import CalibrationError
from ontarget.fitted._kernels import RAW
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.question import Question
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.target import Target

__all__ = ["calibrate_target"]


def calibrate_target(fitted: Fitted, target: Target, episodes: Episodes) -> TargetCalibration:
    """The calibration of the target on these episodes; see `GoalMonitor.calibrate_target`."""
    episodes = fitted.alike(episodes)
    _check_unused(fitted, episodes)
    question, groups = Question.of(target, fitted.grid), fitted.groups_in(episodes)
    met = question.targets[0].contains(episodes.outcomes, fitted.grid)
    parts: dict[tuple[int, int], FloatArray] = {}
    for t, g, rows, own in fitted.known_steps(episodes, groups):
        states, so_far = rows.states[own], rows.behavior[own]
        scores = fitted.at(t, g).outlook(states, so_far, question, np.empty(0))[:, 0, RAW]
        if own.size >= fitted.min_calibration:
            parts[t, g] = _part(Envelopes.of(scores, met[rows.index[own]]))
    spans = np.zeros((fitted.horizon, fitted.n_groups, 2), dtype=np.intp)
    size = 0
    for t, g in np.ndindex(fitted.horizon, fitted.n_groups):
        if not fitted.unknown(t, g):
            if (t, g) not in parts:
                raise CalibrationError(
                    f"calibrate_target needs at least {fitted.min_calibration} episodes at every "
                    f"step that the monitor knows, got fewer at step {t}; record more"
                )
            spans[t, g] = size, size + parts[t, g].shape[1]
            size += parts[t, g].shape[1]
    table = np.concatenate([np.empty((3, 0)), *(parts[place] for place in sorted(parts))], axis=1)
    return TargetCalibration(question.targets[0], read_only(table), read_only(spans))


def _check_unused(fitted: Fitted, episodes: Episodes) -> None:
    """Refuse episodes that p has learned from already, or that alarms rest on (M7, M8)."""
    learned = "learn" if fitted.curves is not None else "train"
    for part, why in (
        (learned, "the model has seen their outcomes"),
        ("assure", "alarms are promised on them, and p must not depend on them"),
    ):
        seen = seen_before(episodes, fitted.trained.fingerprints_of(part))
        if seen.size:
            raise CalibrationError(
                f"calibrate_target cannot use {seen.size} of the {len(episodes)} episodes (first: "
                f"episode {episodes.ids[seen[0]]!s}), which are in the monitor's {part} part: "
                f"{why}; pass new ones"
            )


def _part(envelopes: Envelopes) -> FloatArray:
    scores = np.append(envelopes.scores, np.inf)
    return np.stack([scores, envelopes.if_failure, envelopes.if_success])
