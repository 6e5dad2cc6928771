"""`StepLaw`: the predicted distribution of the remainder at one step, with its calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.conformal.limits import TargetEnds
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.ranks import FEWEST_THINNED, Interval, Ranks
from ontarget.episodes import Behavior, Translation
from ontarget.fitted.kernels import (
    DECIDED,
    KNOTS,
    NUMBERS,
    Stored,
    leave_out,
    outlook_of_rows,
    shift_ends,
)
from ontarget.models.base import Side, check_values
from ontarget.models.guided.run import RunGuide
from ontarget.models.mixture import mixture_limits, mixture_quantile, quantile_of
from ontarget.target import Target


def bad_readings(states: FloatArray, may_miss: BoolArray) -> BoolArray:
    """(runs,): whether a feature of the state is infinite, or is missing but must not be."""
    bad: BoolArray = np.any(np.isinf(states) | (np.isnan(states) & ~may_miss), axis=1)
    return bad


def inputs_of(states: FloatArray, behavior: FloatArray | None, t: int | None) -> FloatArray:
    """(runs, inputs): what a model reads of each run at one step."""
    columns = [states]
    if behavior is not None:
        columns.append(behavior[:, None])
    if t is not None:
        columns.append(np.full((states.shape[0], 1), float(t)))
    return np.concatenate(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Question:
    """One or more targets and their complements, as arrays that the kernels read.

    Attributes
    ----------
    targets
        The targets, with their bounds rounded like outcomes (to the grid).
    values
        The finite bounds of all targets, without repeats, ascending.
    columns
        (2, components): where each component finds its lower and its upper bound in the
        concatenation ``[left | right | -inf | +inf]``. ``left`` and ``right`` are the predicted
        probabilities of an outcome below each of ``values``, and of one up to it.
    sides
        (components, 4): lower bound, upper bound, and 1 or 0 for whether each of the two belongs to
        the component.
    first
        Where the components of each target begin, then those of each target's complement.
    """

    targets: tuple[Target, ...]
    values: FloatArray
    columns: IndexArray
    sides: FloatArray
    first: IndexArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float) -> Question:
        """These targets as arrays for the kernels; bounds are rounded to multiples of ``grid``."""
        several = (targets,) if isinstance(targets, Target) else tuple(targets)
        snapped = tuple(target.shift(0.0, grid) for target in several)
        ends = TargetEnds.of([*snapped, *(target.complement() for target in snapped)], grid)
        sides = np.array(ends.components, dtype=np.float64).reshape(-1, 4)
        return cls(
            targets=snapped,
            values=ends.values,
            columns=read_only(np.stack(ends.columns())),
            sides=read_only(sides),
            first=read_only(ends.first),
        )

    @property
    def components(self) -> tuple[IndexArray, FloatArray, IndexArray]:
        """The arrays ``columns``, ``sides`` and ``first``, which describe the targets."""
        return self.columns, self.sides, self.first


_BLOCK = 256
NO_CURVE: FloatArray = read_only(np.empty(0))


@dataclass(frozen=True, eq=False)
class StepLaw:
    """The predicted distribution of the remainder at one step in one group, and its calibration.

    Attributes
    ----------
    t
        The step.
    parts
        The (weight, model) pairs whose mixture is the predicted distribution.
    is_known
        Whether models answer at this step. If not, p is known only for runs whose result is already
        decided by arithmetic (method M18).
    ranks
        Numbers from 0 to 1: where the outcomes of episodes that no model has seen fell in their
        predicted distributions. ``low`` and ``high`` come from these ranks.
    curve
        The step's calibration curve: from a predicted probability to a calibrated one. p comes from
        it. Empty with ``preset="paper"``, where p comes from the ranks.
    behavior
        What a run is judged by.
    reads_step
        Whether the models have t as an input, as those of several pooled steps do.
    amounts
        How outcomes are rounded (the grid), as the kernels read it; see `Fitted.amounts`.
    ahead
        The least and the most that can remain from this step on (method M18).
    moved
        How much is added to a remainder before models see it: t times what nearly every step earns.
        So the same outcome is the same number at all steps that share a model.
    impossible
        Outcomes that get probability 0, ascending. If there are any, the inputs end with the
        behavior so far, which is needed to turn these outcomes into remainders.
    own_map
        The target map, which corrects p for one target: the corrected p for each p in `KNOTS`, 129
        fixed probabilities; empty if there is none (method M17).
    stopped
        How many further episodes were cut off, so that they have no rank (method M24).
    guide
        A model of the mean for all steps of a run, whose prediction the models read; or None.
    """

    t: int
    parts: tuple[tuple[float, Any], ...]
    ranks: Ranks
    curve: FloatArray
    behavior: Behavior
    reads_step: bool
    amounts: FloatArray
    ahead: tuple[float, float]
    moved: float = 0.0
    impossible: FloatArray = field(default_factory=lambda: NO_CURVE)
    own_map: FloatArray = field(default_factory=lambda: NO_CURVE)
    stopped: int = 0
    guide: RunGuide | None = None
    is_known: bool = True

    @property
    def scale(self) -> float:
        """The factor from a remainder (what is still to earn) to the value that models predict."""
        return float(self.behavior.scale(self.t))

    def inputs(self, states: FloatArray, so_far: FloatArray) -> FloatArray:
        """(runs, inputs): the rows X of these runs, as the other methods take them."""
        X = inputs_of(
            states,
            so_far if self.behavior.reads_so_far else None,
            self.t if self.reads_step else None,
        )
        X = X if self.guide is None else self.guide.appended(X)
        return np.column_stack([X, so_far]) if self.impossible.size else X

    def cdf_limits(self, X: FloatArray, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """P(remainder < y) and P(remainder <= y) as predicted, at each row's values y."""
        scaled = np.asarray(y, dtype=np.float64) * self.scale
        if self.moved:
            scaled = snap(scaled + self.moved, float(self.amounts[0]))
        return self._limits(X, scaled)

    def _limits(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(value < y) and P(value <= y), where a value is a remainder in the scales."""
        if not self.impossible.size:
            return mixture_limits(self.parts, [X] * len(self.parts), y)
        values, flat = check_values(y, X.shape[0])
        read, grid = np.ascontiguousarray(X[:, :-1]), float(self.amounts[0])
        never = snap(self.impossible - X[:, -1:] + self.moved, grid)
        asked = np.column_stack([values, never])
        limits = mixture_limits(self.parts, [read] * len(self.parts), asked)
        out = np.empty(values.shape), np.empty(values.shape)
        leave_out(asked, limits, out)
        return (out[0][:, 0], out[1][:, 0]) if flat else out

    def quantile(self, X: FloatArray, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Predicted quantiles of the remainder; exact inverses of `cdf_limits`."""
        if self.impossible.size:
            found = quantile_of(self._limits, X, q, side)
        else:
            found = mixture_quantile(self.parts, [X] * len(self.parts), q, side)
        return self.remainders(found)

    def remainders(self, seen: FloatArray) -> FloatArray:
        """Convert remainders (what is still to earn) from the models' scale to that of outcomes."""
        if self.moved:
            # Back on the grid: outcomes lie there, and rounding must not move an end past one.
            return snap(seen - self.moved, float(self.amounts[0]))
        return seen if self.scale == 1.0 else seen / self.scale

    def outlook(
        self, states: FloatArray, so_far: FloatArray, question: Question, excess: FloatArray
    ) -> FloatArray:
        """(runs, targets, numbers): the monitor's answers, such as p, for each run and target."""
        if self.behavior.translation is Translation.OWN:
            return self._own_outlook(states, so_far, question, excess)
        return self._outlook(states, so_far, question, excess)

    def translated(self, question: Question, so_far: float) -> Question:
        """The targets for the remainder (what is still to earn), given the behavior so far."""
        grid, translate = float(self.amounts[0]), self.behavior.translate
        return Question.of([translate(one, so_far, self.t, grid) for one in question.targets], grid)

    def _own_outlook(
        self, states: FloatArray, so_far: FloatArray, question: Question, excess: FloatArray
    ) -> FloatArray:
        """`outlook` for a behavior class that has its own method `translate`."""
        out = np.empty((so_far.size, len(question.targets), NUMBERS))
        for value in np.unique(so_far).tolist():
            own = np.flatnonzero((so_far == value) | (np.isnan(so_far) & math.isnan(value)))
            asked = self.translated(question, value)
            out[own] = self._outlook(states[own], so_far[own], asked, excess)
        return out

    def _outlook(
        self, states: FloatArray, so_far: FloatArray, question: Question, excess: FloatArray
    ) -> FloatArray:
        translation, rows = int(self.behavior.translation), so_far.size
        left, right = self.limits_at(states, so_far, question)
        out = np.empty((rows, len(question.targets), NUMBERS))
        stored = self.stored(excess)
        run_blocks(
            lambda a, b: outlook_of_rows(
                stored,
                (left[a:b], right[a:b]),
                question.components,
                (translation, so_far[a:b], *self.ahead),
                self.amounts,
                out[a:b],
            ),
            rows,
            block=_BLOCK,
        )
        if not self.is_known:
            out[out[..., DECIDED] < 0.0] = np.nan
        return out

    def limits_at(
        self, states: FloatArray, so_far: FloatArray, question: Question
    ) -> tuple[FloatArray, FloatArray]:
        """(runs, bounds), twice: the predicted P(outcome < bound) and P(outcome <= bound)."""
        ends = np.empty((so_far.size, question.values.size))
        if not self.is_known:
            return np.zeros_like(ends), np.zeros_like(ends)
        way = (int(self.behavior.translation), self.scale)
        shift_ends(question.values, so_far - self.moved, way, self.amounts, ends)
        return self._limits(self.inputs(states, so_far), ends) if ends.size else (ends, ends)

    def stored(self, excess: FloatArray) -> Stored:
        """The arrays of this step that the kernels (compiled functions) read."""
        return self.ranks.values, read_only(excess), self.curve, self.own_map

    def level_of(self, share: float) -> float:
        """The quantile level whose quantile has this share of outcomes below it."""
        # If the model is well calibrated, the level is the share itself. The level is never 0 or 1,
        # so the quantile is finite.
        if self.curve.size:
            return float(np.interp(share, self.curve, KNOTS))
        n = self.ranks.n
        return float(self.ranks.order(min(max(round(share * (n + 1)), 1), n)))

    def likely(self, states: FloatArray, so_far: FloatArray, shares: Sequence[float]) -> FloatArray:
        """(runs, shares): the outcomes below which these shares of similar runs end."""
        levels = [self.level_of(share) for share in shares]
        remainders = self.quantile(self.inputs(states, so_far), levels)
        return self.behavior.combine(so_far[:, None], remainders)

    def pcqr(self) -> PCQR:
        """A `PCQR` (the paper's method) for intervals and promises about this step's remainders."""
        return PCQR.from_ranks(
            self,  # type: ignore[arg-type]  # it answers like a model
            self.ranks,
            stopped=self.stopped,
            thinned=self.ranks.n >= FEWEST_THINNED,
        )

    def outcomes(self, so_far: FloatArray, remainders: Interval) -> Interval:
        """An interval of remainders (what is still to earn) as an interval of outcomes (M18)."""
        combine = self.behavior.combine
        return Interval(combine(so_far, remainders.lower), combine(so_far, remainders.upper))
