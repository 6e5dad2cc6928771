"""The measures of a quality study, and more for developers: by third of a run, jumps, seconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ontarget.evaluation import brier, ece, log_loss
from ontarget.study import filled
from yardstick.questions import Question

PHASES = ("first third", "middle third", "last third")


@dataclass(frozen=True)
class Scores:
    """How good the probabilities of one method are on one split, and how much they jump."""

    brier: float
    log_loss: float
    ece: float
    ece_by_step: float  # of each step by itself, averaged over rows
    sharpness: float  # mean p (1 − p): the expected Brier score if every p were true
    unanswered: float  # the share of rows without an answer, where the past's rate is used
    brier_by_phase: tuple[float, ...]
    jumps: dict[str, float]  # mean |p_t − p_{t−1}|, by where t lies
    seconds: float

    def plain(self) -> dict[str, object]:
        return asdict(self)


def phase_of(t: np.ndarray, length: np.ndarray) -> np.ndarray:
    """For each step, the third of its own episode that it is in: 0, 1 or 2."""
    return 3 * t // length


def jumps(p: np.ndarray, t: np.ndarray, episode: np.ndarray, horizon: int) -> dict[str, float]:
    """How much p changes from one step to the next, on average: where models change, and elsewhere.

    p is the probability of meeting the target. A block is a range of steps that share a model. In
    older versions, blocks had 5 steps each, and the model changed at the end of each block. Now
    blocks overlap (method M16 in docs/methods.md): their centres are spread evenly over the horizon
    of H steps, at most max(⌈H/4⌉, 5) steps apart. Between two centres, the two blocks around a step
    answer together; so at each centre the pair of blocks changes.
    """
    follows = (episode[1:] == episode[:-1]) & np.isfinite(p[1:]) & np.isfinite(p[:-1])
    size, at = np.abs(np.diff(p))[follows], t[1:][follows]
    n_gaps = -(-(horizon - 1) // max(-(-horizon // 4), 5))
    centres = np.linspace(0.0, horizon - 1.0, n_gaps + 1)[1:-1]
    old = at % 5 == 0
    new = (np.abs(at[:, None] - 0.5 - centres) <= 0.5 + 1e-9).any(axis=1)
    places = {"old blocks": old, "new blocks": new, "elsewhere": ~(old | new)}
    return {name: float(size[own].mean()) if own.any() else np.nan for name, own in places.items()}


def score(question: Question, p: np.ndarray, seconds: float) -> Scores:
    """Every measure of one method's probabilities ``p`` for a question about real episodes."""
    learn, asked = question.learn, question.asked
    told, phase = (
        filled(p, learn, asked),
        phase_of(asked.t, np.bincount(asked.episode)[asked.episode]),
    )
    return Scores(
        brier=brier(told, asked.met),
        log_loss=log_loss(told, asked.met, n_calibration=learn.n_episodes),
        ece=ece(told, asked.met),
        ece_by_step=ece_by_step(told, asked.met, asked.t),
        sharpness=float((told * (1.0 - told)).mean()),
        unanswered=float(np.isnan(p).mean()),
        brier_by_phase=tuple(brier(told[phase == k], asked.met[phase == k]) for k in range(3)),
        jumps=jumps(p, asked.t, asked.episode, question.horizon),
        seconds=seconds,
    )


def ece_by_step(p: np.ndarray, met: np.ndarray, t: np.ndarray) -> float:
    """The expected calibration error of each step by itself; steps with more rows count more."""
    steps = [t == step for step in np.unique(t)]
    return float(sum(at.sum() * ece(p[at], met[at]) for at in steps) / t.size)
