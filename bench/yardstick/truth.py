"""Processes whose true probabilities are known: how far each method is from the truth.

They are the processes of bench/distance.py. Questions about all eight have as many past
episodes as most logs have. For three of them, there are also questions with fewer and with more
past episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ontarget.domains import simulate_with_snapshots
from ontarget.episodes import Episodes
from ontarget.study import filled
from yardstick.answers import Answer
from yardstick.cases import CASES, build_case, ended, excess
from yardstick.questions import Question

PROCESSES = tuple(CASES)
GROWING = ("walk", "reservoir", "tamarisk")
REPEATS = {40: 4, 100: 3, 400: 2, 1_600: 1}  # fewer episodes, more chance, more repeats
MOST = max(REPEATS)
POOL = 3_200  # episodes that repeats take from, and that give the target its ends


@dataclass(frozen=True)
class Distance:
    """How far the probabilities of one method are from the truth, averaged over some steps."""

    excess: float  # Brier score beyond the oracle's
    absolute: float  # mean |p − p_true|
    unanswered: float

    def plain(self) -> dict[str, float]:
        return asdict(self)


class Process:
    """A simulated process: questions with different numbers of past episodes.

    All questions are about the same states of the same new episodes.
    """

    def __init__(self, name: str, cache: Path) -> None:
        self.name, self.label = name, CASES[name].label
        self.case = build_case(name, cache / "truth", n_episodes=POOL)
        self.domain = CASES[name].domain()
        run = simulate_with_snapshots(self.domain, CASES[name].n_states, 1, progress=False)
        self.past, self.new = frame_of(self.case.episodes), frame_of(ended(run, self.domain))

    def questions(self, size: int, repeats: int) -> Iterator[Question]:
        """Questions with ``size`` past episodes to learn from, different ones in every repeat."""
        for k in range(repeats):
            chosen = pl.col("episode").is_between(size * k, size * (k + 1), closed="left")
            yield Question(
                f"{self.name}-{size}-{k:02d}",
                self.past.filter(chosen),
                self.new,
                self.case.episodes.schema.names,
                (self.case.target.lower, self.case.target.upper),
                self.case.episodes.horizon,
                seed=k,
                categorical=tuple(getattr(self.domain, "categorical", ())),
            )

    def distance(self, question: Question, p: np.ndarray) -> Distance:
        """How far these probabilities, one per row of the question, are from the true ones."""
        learn, asked = question.learn, question.asked
        said = filled(p, learn, asked)
        at = [(asked.t == t, truth.p_true) for t, truth in sorted(self.case.tests.items())]
        rollouts = self.case.rollouts
        rows = np.concatenate([np.flatnonzero(own) for own, _ in at])
        return Distance(
            excess=float(np.mean([excess(said[own], truth, rollouts) for own, truth in at])),
            absolute=float(np.mean([np.abs(said[own] - truth).mean() for own, truth in at])),
            unanswered=float(np.isnan(p[rows]).mean()),
        )


def told(name: str, answer: Answer) -> dict[str, np.ndarray]:
    """The probabilities in an answer by name: calibrated ones, and raw ones if there are any."""
    return {name: answer.p} | ({} if answer.raw is None else {f"{name}, raw": answer.raw})


def frame_of(episodes: Episodes) -> pl.DataFrame:
    """The episodes as a table, one row per episode and step; the id is the episode's position."""
    parts: list[dict[str, Any]] = []
    for t in range(episodes.horizon):
        step = episodes.at(t)
        states = dict(zip(episodes.schema.names, step.states.T, strict=True))
        own = {"episode": step.index, "step": np.full(len(step), t)}
        parts.append({**own, "reward": episodes.rewards_at(t), **states})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return pl.DataFrame(columns).sort("episode", "step")
