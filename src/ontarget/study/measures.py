"""Measures of how good probabilities are (method M12 in docs/methods.md).

Where a method gives no probability, the past success rate at that step is used instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.evaluation import brier, ece, log_loss, sharpness
from ontarget.study.rows import Rows


@dataclass(frozen=True)
class Scores:
    """How good one method's probabilities are on the rows of one split.

    Attributes
    ----------
    brier, log_loss
        The Brier score and the log loss: lower is better.
    ece
        The expected calibration error over all rows together.
    ece_by_step
        The expected calibration error of each step by itself, averaged over rows.
    sharpness
        The Brier score that would result if all probabilities were exactly right.
    unanswered
        The share of rows for which the method gave no answer; there the past success rate at that
        step is used, as a user would have to.
    """

    brier: float
    log_loss: float
    ece: float
    ece_by_step: float
    sharpness: float
    unanswered: float


# The measures that can be compared, and what people call them.
MEASURES = {
    "brier": "Brier score",
    "log_loss": "log loss",
    "ece": "ECE",
    "ece_by_step": "ECE by step",
    "sharpness": "sharpness",
}


def past_rate(learn: Rows, t: IndexArray) -> FloatArray:
    """For each step t: of the past episodes that reach this step, the share that met the target.

    One more episode is counted, which met the target as often as all do, so that the rate of the
    few episodes at a late step is never 0 or 1.
    """
    size = int(max(t.max(), learn.t.max())) + 1
    alive = np.bincount(learn.t, minlength=size)
    hits = np.bincount(learn.t, weights=learn.met, minlength=size)
    of_all = (np.count_nonzero(learn.met) + 0.5) / (len(learn) + 1)
    rate: FloatArray = (hits + of_all) / (alive + 1)
    return rate[t]


def filled(p: FloatArray, learn: Rows, asked: Rows) -> FloatArray:
    """The probabilities, with each NaN replaced by the past success rate at that row's step."""
    return np.clip(np.where(np.isfinite(p), p, past_rate(learn, asked.t)), 0.0, 1.0)


def score(p: FloatArray, learn: Rows, asked: Rows) -> Scores:
    """Every measure of one method's probabilities ``p``: one per row of ``asked``, NaN for none.

    Where ``p`` is NaN, the success rate in the past rows ``learn`` is used.
    """
    told = filled(p, learn, asked)
    return Scores(
        brier=brier(told, asked.met),
        log_loss=log_loss(told, asked.met, n_calibration=learn.n_episodes),
        ece=ece(told, asked.met),
        ece_by_step=_ece_by_step(told, asked.met, asked.t),
        sharpness=sharpness(told),
        unanswered=float(np.isnan(p).mean()),
    )


def _ece_by_step(p: FloatArray, met: BoolArray, t: IndexArray) -> float:
    """The expected calibration error of each step by itself, averaged over rows.

    So steps with more rows count more.
    """
    steps = [t == step for step in np.unique(t)]
    return float(sum(at.sum() * ece(p[at], met[at]) for at in steps) / t.size)
