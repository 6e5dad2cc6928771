"""The arithmetic of the comparison; scores are those of `ontarget.evaluation` (M12)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ontarget.evaluation import brier, ece, log_loss
from yardstick.questions import Question

PHASES = ("first third", "middle third", "last third")


@dataclass(frozen=True)
class Scores:
    """How good one method's probabilities are on one split."""

    brier: float
    log_loss: float
    ece: float  # all rows pooled
    ece_by_step: float  # of each step by itself, averaged over rows
    brier_by_phase: tuple[float, ...]
    unanswered: float  # share of the rows; they count as the past's rate at that step
    jumps: dict[str, float]  # mean |p_t − p_{t−1}|, by where t lies
    seconds: float

    def plain(self) -> dict[str, object]:
        return asdict(self)


def fill(p: np.ndarray, t: np.ndarray, past_t: np.ndarray, past_met: np.ndarray) -> np.ndarray:
    """p, and where there is none the share of past episodes alive at t that met the target."""
    size = int(max(t.max(), past_t.max())) + 1
    alive = np.bincount(past_t, minlength=size)
    hits = np.bincount(past_t, weights=past_met, minlength=size)
    rate = np.where(alive > 0, hits / np.maximum(alive, 1), past_met.mean())
    return np.where(np.isfinite(p), p, rate[t])


def ece_by_step(p: np.ndarray, met: np.ndarray, t: np.ndarray) -> float:
    """The ECE of each step by itself, averaged over rows: a step counts by who is alive there."""
    steps = [t == step for step in np.unique(t)]
    return float(sum(at.sum() * ece(p[at], met[at]) for at in steps) / t.size)


def phase_of(t: np.ndarray, length: np.ndarray) -> np.ndarray:
    """0, 1 or 2: the third of its own episode that a step lies in."""
    return 3 * t // length


def jumps(p: np.ndarray, t: np.ndarray, episode: np.ndarray, horizon: int) -> dict[str, float]:
    """Mean |p_t − p_{t−1}| where blocks of steps meet, old or new ones, and elsewhere.

    Old blocks are of 5 steps. New ones overlap (M16): their centres are spread evenly over the
    horizon, at most max(⌈H/4⌉, 5) steps apart, and at a centre one neighbour gives way to another.
    """
    follows = (episode[1:] == episode[:-1]) & np.isfinite(p[1:]) & np.isfinite(p[:-1])
    size, at = np.abs(np.diff(p))[follows], t[1:][follows]
    n_gaps = -(-(horizon - 1) // max(-(-horizon // 4), 5))
    centres = np.linspace(0.0, horizon - 1.0, n_gaps + 1)[1:-1]
    old = at % 5 == 0
    new = (np.abs(at[:, None] - 0.5 - centres) <= 0.5 + 1e-9).any(axis=1)
    places = {"old blocks": old, "new blocks": new, "elsewhere": ~(old | new)}
    return {name: float(size[own].mean()) if own.any() else np.nan for name, own in places.items()}


def corrected_se(differences: np.ndarray, n_new: int, n_past: int) -> float:
    """The standard error of a mean difference over J splits of the same episodes.

    Splits overlap, so their differences are not independent: Nadeau and Bengio (2003) multiply the
    variance by 1/J + n_new/n_past where independence would give 1/J.
    """
    splits = len(differences)
    if splits < 2:
        return float("nan")
    variance = np.var(differences, ddof=1)
    return float(np.sqrt(variance * (1.0 / splits + n_new / n_past)))


def score(question: Question, p: np.ndarray, seconds: float) -> Scores:
    """Every measure of one answer to a question of real episodes."""
    learn, asked = question.learn, question.asked
    filled = np.clip(fill(p, asked.t, learn.t, learn.met), 0.0, 1.0)
    phase = phase_of(asked.t, asked.length)
    return Scores(
        brier=brier(filled, asked.met),
        log_loss=log_loss(filled, asked.met, n_calibration=int(learn.episode[-1]) + 1),
        ece=ece(filled, asked.met),
        ece_by_step=ece_by_step(filled, asked.met, asked.t),
        brier_by_phase=tuple(brier(filled[phase == k], asked.met[phase == k]) for k in range(3)),
        unanswered=float(np.isnan(p).mean()),
        jumps=jumps(p, asked.t, asked.episode, question.horizon),
        seconds=seconds,
    )
