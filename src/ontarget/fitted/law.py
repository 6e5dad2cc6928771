"""`StepLaw`: the predicted distribution of the remainder at one step, with its calibration.

The remainder is what a run still has to earn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.ranks import FEWEST_THINNED, Interval, Ranks
from ontarget.episodes import Behavior, Translation
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._impossible_kernel import leave_out
from ontarget.fitted._inputs import inputs_of
from ontarget.fitted._kernels import DECIDED, NUMBERS, Stored, outlook_of_rows, shift_ends
from ontarget.fitted.question import Question
from ontarget.models._mixture import mixture_limits, mixture_quantile, quantile_of
from ontarget.models.base import Side, check_values
from ontarget.models.guided.run import RunGuide

_BLOCK = 256
NO_CURVE: FloatArray = read_only(np.empty(0))


@dataclass(frozen=True, eq=False)
class StepLaw:
    """The predicted distribution of the remainder at one step in one group, and its calibration.

    The remainder is what the run still has to earn. The methods are those of a model, and take and
    return remainders in the units of outcomes. (Only inside the models is a discounted remainder
    scaled to the step; see method M18 in docs/methods.md.)

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
        """(runs, inputs): the rows X of these runs, as the other methods take them.

        They hold what the models read. If some outcomes are impossible, the behavior so far follows
        as the last column.
        """
        X = inputs_of(
            states,
            so_far if self.behavior.reads_so_far else None,
            self.t if self.reads_step else None,
        )
        X = X if self.guide is None else self.guide.appended(X)
        return np.column_stack([X, so_far]) if self.impossible.size else X

    def cdf_limits(self, X: FloatArray, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """P(remainder < y) and P(remainder <= y) as predicted, at each row's values y.

        The remainder is what the run still has to earn.
        """
        scaled = np.asarray(y, dtype=np.float64) * self.scale
        if self.moved:
            scaled = snap(scaled + self.moved, float(self.amounts[0]))
        return self._limits(X, scaled)

    def _limits(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(value < y) and P(value <= y), where a value is a remainder in the scale of the models.

        The remainder is what the run still has to earn.
        """
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
        """Predicted quantiles of the remainder; exact inverses of `cdf_limits`.

        The remainder is what the run still has to earn.
        """
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
        """(runs, targets, numbers): the monitor's answers, such as p, for each run and target.

        `ontarget.fitted._kernels` lists the numbers of an answer in order.

        ``excess`` has one number per assure episode (held-out run), ascending: the largest
        distance, over all steps, of its outcome from the middle of its prediction. If no model
        answers at this step, the numbers of a run are NaN, unless arithmetic decides the run.
        """
        if self.behavior.translation is Translation.OWN:
            return self._own_outlook(states, so_far, question, excess)
        return self._outlook(states, so_far, question, excess)

    def translated(self, question: Question, so_far: float) -> Question:
        """The targets for the remainder (what is still to earn), given the behavior so far.

        It is for a behavior class with its own `translate`. See method M18 in docs/methods.md.
        """
        grid, translate = float(self.amounts[0]), self.behavior.translate
        return Question.of([translate(one, so_far, self.t, grid) for one in question.targets], grid)

    def _own_outlook(
        self, states: FloatArray, so_far: FloatArray, question: Question, excess: FloatArray
    ) -> FloatArray:
        """`outlook` for a behavior class that has its own method `translate`.

        That method turns a target for the outcome into a target for what is still to come. Runs
        with the same behavior so far are answered together.
        """
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
        """(runs, bounds), twice: each run's predicted P(outcome < bound) and P(outcome <= bound).

        The bounds are the finite bounds of the targets in ``question``. Both arrays are 0 if no
        model answers at this step.
        """
        ends = np.empty((so_far.size, question.values.size))
        if not self.is_known:
            return np.zeros_like(ends), np.zeros_like(ends)
        way = (int(self.behavior.translation), self.scale)
        shift_ends(question.values, so_far - self.moved, way, self.amounts, ends)
        return self._limits(self.inputs(states, so_far), ends) if ends.size else (ends, ends)

    def stored(self, excess: FloatArray) -> Stored:
        """The arrays of this step that the kernels (compiled functions) read.

        ``excess`` has one number per assure episode (held-out run), ascending: the largest
        distance, over all steps, of its outcome from the middle of its prediction.
        """
        return self.ranks.values, read_only(excess), self.curve, self.own_map

    def level_of(self, share: float) -> float:
        """The quantile level whose quantile has this share of outcomes below it, after calibration.

        If the model is well calibrated, the level is the share itself. The level is never 0 or 1,
        so the quantile is finite.
        """
        if self.curve.size:
            return float(np.interp(share, self.curve, KNOTS))
        n = self.ranks.n
        return float(self.ranks.order(min(max(round(share * (n + 1)), 1), n)))

    def likely(self, states: FloatArray, so_far: FloatArray, shares: Sequence[float]) -> FloatArray:
        """(runs, shares): for each run, the outcomes below which these shares of similar runs end.

        These are estimates, like p; `pcqr` gives promises.
        """
        levels = [self.level_of(share) for share in shares]
        remainders = self.quantile(self.inputs(states, so_far), levels)
        return self.behavior.combine(so_far[:, None], remainders)

    def pcqr(self) -> PCQR:
        """A `PCQR` (the paper's method) for intervals and promises about this step's remainders.

        The remainder is what a run still has to earn.
        """
        return PCQR.from_ranks(
            self,  # type: ignore[arg-type]  # it answers like a model
            self.ranks,
            stopped=self.stopped,
            thinned=self.ranks.n >= FEWEST_THINNED,
        )

    def outcomes(self, so_far: FloatArray, remainders: Interval) -> Interval:
        """An interval of remainders (what is still to earn) as an interval of outcomes.

        See method M18 in docs/methods.md.
        """
        combine = self.behavior.combine
        return Interval(combine(so_far, remainders.lower), combine(so_far, remainders.upper))
