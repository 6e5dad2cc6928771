"""The forecasts of several methods for the same rows, and the differences between the methods.

A row is one step of one episode. There are one or several splits into past and new episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.errors import InputError
from ontarget.evaluation import (
    Difference,
    Reliability,
    corrected_difference,
    log_losses,
    paired_difference,
    reliability,
    squared_errors,
)
from ontarget.goal import Goal
from ontarget.study.measures import MEASURES, Scores, filled, past_rate, score
from ontarget.study.rows import Rows
from ontarget.target import Target

OURS: Final = "ontarget"
BASELINE: Final = "the past's rate"


@dataclass(frozen=True, eq=False)
class Trial:
    """The forecasts of all methods for the same new episodes, and how these episodes ended.

    Attributes
    ----------
    n_past
        How many episodes there were to learn from.
    ids
        The ids of the new episodes.
    t, episode, met
        One entry per row: the step, the position of the row's episode, and whether that episode met
        the target.
    p
        By method: one probability per row. Where a method gave no answer, the probability is the
        share of past episodes reaching that step that met the target.
    scores
        By method: its Brier score and the other measures (`Scores`).
    why
        Why the monitor gave no answer for some rows, as text; empty if it answered for all.
    """

    n_past: int
    ids: AnyArray
    t: IndexArray
    episode: IndexArray
    met: BoolArray
    p: Mapping[str, FloatArray]
    scores: Mapping[str, Scores]
    why: str = ""

    @classmethod
    def of(
        cls, learn: Rows, asked: Rows, answers: Mapping[str, FloatArray], ids: AnyArray
    ) -> Trial:
        """The forecasts of all methods for the rows in ``asked``.

        ``answers`` are the methods' probabilities. The past success rate at each step is added as a
        further method.
        """
        told = {**answers, BASELINE: past_rate(learn, asked.t)}
        return cls(
            n_past=learn.n_episodes,
            ids=ids,
            t=asked.t,
            episode=asked.episode,
            met=asked.met,
            p=MappingProxyType({name: filled(p, learn, asked) for name, p in told.items()}),
            scores=MappingProxyType({name: score(p, learn, asked) for name, p in told.items()}),
        )

    @property
    def n_new(self) -> int:
        """How many new episodes were forecast."""
        return int(self.ids.size)

    def losses(self, method: str, measure: str) -> FloatArray:
        """(steps, episodes): the losses of one method's forecasts, NaN where an episode is over."""
        p = self.p[method]
        own = (
            squared_errors(p, self.met)
            if measure == "brier"
            else log_losses(p, self.met, n_calibration=self.n_past)
        )
        panel = np.full((int(self.t.max()) + 1, self.n_new), np.nan)
        panel[self.t, self.episode] = own
        return panel


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """A monitor and classifiers (its rivals), forecasting the same rows (steps of new episodes).

    The monitor is the first method.
    """

    target: Target | Goal
    trials: tuple[Trial, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods: the monitor, its rivals, and the past rate of success at each step."""
        return tuple(self.trials[0].p)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The classifiers that the monitor is compared with."""
        return tuple(name for name in self.methods if name not in (OURS, BASELINE))

    @property
    def n_past(self) -> int:
        """How many past episodes the methods learn from in each split."""
        return self.trials[0].n_past

    @property
    def n_new(self) -> int:
        """How many new episodes the methods forecast in each split."""
        return self.trials[0].n_new

    def scores(self, method: str) -> Scores:
        """Every measure of one method, averaged over the splits into past and new episodes."""
        each = [asdict(trial.scores[method]) for trial in self.trials]
        return Scores(**{name: float(np.mean([one[name] for one in each])) for name in each[0]})

    def difference(self, rival: str, measure: str = "brier") -> Difference:
        """The monitor's measure minus the classifier's (``rival``), with a 95 % interval.

        Below 0 the monitor is better. With several splits into past and new episodes, the interval
        is computed by `corrected_difference`. With one set of new episodes, it is computed by
        `paired_difference`, and only for the Brier score and log loss.
        """
        if rival not in self.methods or measure not in MEASURES:
            raise InputError(
                f"`rival` needs one of {', '.join(self.methods[1:])}, and `measure` one of "
                f"{', '.join(MEASURES)}, got {rival!r} and {measure!r}"
            )
        return self._differences[rival, measure]

    @cached_property
    def _differences(self) -> dict[tuple[str, str], Difference]:
        return {
            (rival, measure): self._difference(rival, measure)
            for rival in self.methods
            for measure in MEASURES
        }

    def _difference(self, rival: str, measure: str) -> Difference:
        if len(self.trials) == 1 and measure in ("brier", "log_loss"):
            (trial,) = self.trials
            ours, theirs = (trial.losses(name, measure) for name in (OURS, rival))
            return paired_difference(ours, theirs, ids=trial.ids)
        drawn = [
            getattr(trial.scores[OURS], measure) - getattr(trial.scores[rival], measure)
            for trial in self.trials
        ]
        return corrected_difference(drawn, n_past=self.n_past, n_new=self.n_new)

    def brier_by_step(self, method: str) -> FloatArray:
        """(steps,): the Brier score at each step over all splits; NaN if no episode is there."""
        total = np.zeros(self.n_steps)
        for trial in self.trials:
            errors = squared_errors(trial.p[method], trial.met)
            total += np.bincount(trial.t, errors, minlength=self.n_steps)
        alive = self.forecasts_by_step
        return np.where(alive > 0, total / np.maximum(alive, 1), np.nan)

    @property
    def forecasts_by_step(self) -> IndexArray:
        """How many new episodes reach each step, all splits together."""
        return np.bincount(np.concatenate([one.t for one in self.trials]))

    @property
    def n_steps(self) -> int:
        """The number of steps of the longest new episode."""
        return max(int(trial.t.max()) + 1 for trial in self.trials)

    def reliability(self, method: str, bins: int = 10) -> Reliability:
        """How often the forecasts of one method came true, by ranges of p, all splits together."""
        p, met, ids = (
            np.concatenate(parts)
            for parts in zip(
                *((one.p[method], one.met, one.ids[one.episode]) for one in self.trials),
                strict=True,
            )
        )
        # An episode that several splits ask about is still one episode.
        return reliability(p, met, bins, episode=np.unique(ids, return_inverse=True)[1])
