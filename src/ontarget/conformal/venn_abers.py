"""Venn–Abers: a calibrated probability of one fixed set of outcomes.

The method is M7 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.conformal.kernels import success_slopes
from ontarget.conformal.limits import (
    CalibrationRows,
    TargetEnds,
    checked_keys,
    checked_offset,
    n_rows,
    raw_probability,
)
from ontarget.conformal.ranks import Probability
from ontarget.errors import Argument, CalibrationError, InputError, UnfittedError
from ontarget.models.base import ConditionalDistribution
from ontarget.target import Target

Predicate: TypeAlias = Callable[[Any], ArrayLike]
Score: TypeAlias = Callable[[Any], ArrayLike]


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Isotonic regression of labels on scores, computed in advance for every possible new score.

    Venn–Abers adds a new episode to the calibration episodes, once as a failure and once as a
    success, and takes the isotonic value at its score each time. Both values are stored here, so a
    new score needs only two lookups. ``if_failure[j]`` is the value for a failure if j of the
    distinct calibration scores are at most the new score. ``if_success[j]`` is the value for a
    success if j of them are below the new score.

    Examples
    --------
    >>> envelopes = Envelopes.of([0.1, 0.4, 0.6, 0.9], [False, True, False, True])
    >>> p0, p1 = envelopes.pair([0.5, 0.95])
    >>> print(p0, p1)
    [0.33333333 0.5       ] [0.66666667 1.        ]
    """

    scores: FloatArray
    if_failure: FloatArray
    if_success: FloatArray
    n: int

    @classmethod
    def of(cls, scores: ArrayLike, labels: ArrayLike) -> Envelopes:
        """The values of isotonic regression, from the score and the label of each episode."""
        points, hits = np.asarray(scores, dtype=np.float64), np.asarray(labels)
        if points.ndim != 1 or hits.shape != points.shape:
            raise InputError(
                Argument("scores"),
                " and ",
                Argument("labels"),
                f" need one entry each per episode, got shapes {points.shape} and {hits.shape}",
            )
        if not np.all(np.isfinite(points)):
            raise InputError(Argument("scores"), " needs finite numbers")
        if hits.dtype != np.bool_ and not np.all((hits == 0) | (hits == 1)):
            raise InputError(
                Argument("labels"), " needs True or False (or 1 and 0) for every episode"
            )
        if points.size == 0:
            raise CalibrationError("Venn–Abers needs at least one calibration episode, got none")
        order = np.argsort(points)
        ordered = points[order]
        start = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        weights = np.diff(start, append=points.size)
        successes = np.add.reduceat(hits[order].astype(np.intp), start)
        up = success_slopes(weights, successes)
        # A failure is a success of the mirrored problem: scores reversed, labels swapped.
        mirrored = success_slopes(weights[::-1].copy(), (weights - successes)[::-1].copy())[::-1]
        if_success = np.concatenate((up[:, 0] / up[:, 1], [1.0]))
        if_failure = np.concatenate(([0.0], (mirrored[:, 1] - mirrored[:, 0]) / mirrored[:, 1]))
        return cls(
            read_only(ordered[start]),
            read_only(if_failure),
            read_only(if_success),
            int(points.size),
        )

    def pair(self, scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Two calibrated probabilities (p0, p1) for a new episode with each of these scores."""
        points = np.asarray(scores, dtype=np.float64)
        below = np.searchsorted(self.scores, points, side="left")
        upto = below + (self.scores[np.minimum(below, self.scores.size - 1)] == points)
        return self.if_failure[upto], self.if_success[below]

    def probability(self, scores: ArrayLike) -> Probability:
        """The two numbers of `pair` as ``low`` and ``high``, and a p between them."""
        p0, p1 = self.pair(scores)
        # Between p0 and p1 in exact arithmetic; the clip keeps it there in floats.
        return Probability(p0, np.clip(p1 / (1.0 - p0 + p1), p0, p1), p1)


class VennAbers:
    """The calibrated probability of one fixed set of outcomes, by the Venn–Abers method.

    Parameters
    ----------
    model
        A fitted conditional distribution, whose uncalibrated probability of the target is used as
        the score; or a function from rows to one score per row, which is higher where success is
        more likely.
    target
        A `Target`, or a function from outcomes to True and False (``model`` must then be a function
        too). With a function, outcomes may have any shape that it accepts, such as several values
        per episode.
    grid
        Outcomes and the bounds of targets are rounded to multiples of this number before they are
        compared, so that 0.1 + 0.2 equals 0.3; None for no rounding.

    Notes
    -----
    The method gives two probabilities: p0 (``low``) assumes that the new run fails, p1 (``high``)
    that it succeeds. Assume that the calibration episodes and a new run are exchangeable, that the
    model has seen none of them, and that the target was fixed before their outcomes were looked at.
    Then the probability that belongs to what really happens is calibrated: with Z = 1 for a success
    and 0 for a failure, ``E[Z | p_Z] = p_Z``. Nothing more is promised. The single number ``p``
    between the two has no guarantee, and the true probability of success need not lie between
    ``low`` and ``high``.

    References
    ----------
    Vovk, Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of
    validity", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Target, VennAbers
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = X[:, 0] + rng.normal(size=400)
    >>> venn_abers = VennAbers(lambda rows: rows[:, 0], Target.at_least(0.0)).calibrate(X, y)
    >>> low, p, high = venn_abers.probability(np.array([[-3.0], [0.0], [3.0]]))
    >>> bool(np.all((low <= p) & (p <= high))), bool(p[0] < p[1] < p[2])
    (True, True)
    """

    def __init__(
        self,
        model: ConditionalDistribution | Score,
        target: Target | Predicate,
        *,
        grid: float | None = None,
    ) -> None:
        is_distribution = callable(getattr(model, "cdf_limits", None))
        if not is_distribution and not callable(model):
            raise InputError(
                Argument("model"),
                " needs to have a method cdf_limits, or to be a function from rows to "
                f"scores, got {type(model).__name__}",
            )
        if not isinstance(target, Target) and not callable(target):
            raise InputError(
                Argument("target"), f" needs a Target or a function of outcomes, got {target!r}"
            )
        if not isinstance(target, Target) and is_distribution:
            raise InputError(
                "a ",
                Argument("target"),
                " given as a function needs a model that is a function from rows to "
                "scores, because a predicted distribution cannot give the probability of such a "
                "target",
            )
        self.model: Any = model
        self.target: Any = target
        self._is_score = not is_distribution
        self.grid = grid
        self._envelopes: Envelopes | None = None

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        offset: ArrayLike = 0.0,
        ids: ArrayLike | None = None,
    ) -> Self:
        """The object itself, calibrated with episodes that the model has not seen.

        ``X`` has one row, and ``y`` one outcome, per episode. ``offset`` is each episode's behavior
        so far, if y contains only what follows. ``ids`` are the episodes' ids; each may appear only
        once.
        """
        rows = n_rows(X)
        moved = checked_offset(offset, rows)
        if isinstance(self.target, Target):
            checked = CalibrationRows.checked(self.model, X, y, ids=ids, grid=self.grid)
            ends = TargetEnds.of(self.target, self.grid)
            labels = ends.contains(checked.y, moved)[:, 0]
        else:
            checked_keys(self.model, ids, rows)
            labels = _labels(self.target, y, rows)
        self._envelopes = Envelopes.of(self._scores(X, moved), labels)
        return self

    def probability(self, X: ArrayLike, offset: ArrayLike = 0.0) -> Probability:
        """The probability of the target for each row, as arrays (low, p, high) of shape (rows,).

        ``low`` assumes that the new run fails, ``high`` that it succeeds; ``p`` is between them.
        """
        return self.envelopes.probability(self._scores(X, checked_offset(offset, n_rows(X))))

    @property
    def envelopes(self) -> Envelopes:
        """Tables of isotonic regression, made from the calibration episodes; see `Envelopes`."""
        if self._envelopes is None:
            raise UnfittedError("VennAbers is not calibrated; call calibrate(X, y)")
        return self._envelopes

    @property
    def n_calibration(self) -> int:
        """The number of episodes that were used to calibrate."""
        return self.envelopes.n

    def _scores(self, X: ArrayLike, offset: FloatArray) -> FloatArray:
        if not self._is_score:
            ends = TargetEnds.of(self.target, self.grid)
            return raw_probability(*ends.limits(self.model, X, offset), ends.first)[:, 0]
        scores = np.asarray(self.model(X), dtype=np.float64)
        if scores.shape != (offset.size,):
            raise InputError(
                Argument("model"),
                f" needs to return one score per row ({offset.size}), returned shape "
                f"{scores.shape}",
            )
        return scores


def _labels(predicate: Predicate, y: ArrayLike, rows: int) -> BoolArray:
    labels = np.asarray(predicate(y))
    if labels.shape != (rows,) or labels.dtype != np.bool_:
        raise InputError(
            Argument("target"),
            f" needs to return True or False per row ({rows}), returned {labels.dtype} of "
            f"shape {labels.shape}",
        )
    return labels
