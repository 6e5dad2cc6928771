"""The behaviors that come with the library, and their names.

The same ``update`` works on arrays (recorded episodes) and on floats (a run that is being watched),
so recorded and watched runs give exactly the same numbers. Sums are computed in the order of the
steps.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from ontarget._typing import FloatArray
from ontarget.episodes.behavior import Behavior, Bounds, Translation
from ontarget.errors import Argument, EpisodesError

Number = TypeVar("Number", float, FloatArray)

_COMPARISONS: Final[dict[str, Callable[[Any, float], Any]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
# The largest factor that `scale` returns. The weights of very late steps are far below the
# precision of outcomes, so scaling them up further would only enlarge rounding errors.
_LARGEST_SCALE = 1e12
_FURTHER: Final = (
    *("discounted:GAMMA", "column:NAME", "total:NAME"),
    *("first:CONDITION:NUMBER", "share:CONDITION"),
)
_CONDITIONAL: Final = re.compile(r"(first|share):\s*(<=|>=|<|>)\s*([^:]+?)(?::([^:]+))?")


class _BuiltIn(Behavior):
    """A behavior that remembers only its value so far."""

    vectorised: ClassVar[bool] = True

    @property
    def spec(self) -> str:
        return type(self).__name__.lower()


class _Reward(_BuiltIn):
    """A behavior between the smallest and the largest reward of a run."""

    def ahead(self, t: int, *, bounds: Bounds, horizon: int, declared: bool) -> tuple[float, float]:
        return _ends(bounds)


@dataclass(frozen=True)
class Sum(_BuiltIn):
    """Judges a run by the sum of its rewards; this is the default."""

    label = "sum of rewards"
    translation = Translation.SHIFT

    def start(self) -> float:  # noqa: D102
        return 0.0

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        return state + reward

    def ahead(  # noqa: D102
        self, t: int, *, bounds: Bounds, horizon: int, declared: bool
    ) -> tuple[float, float]:
        return _span(1.0, horizon - t if declared else math.inf, bounds)


@dataclass(frozen=True)
class DiscountedSum(Sum):
    """Judges a run by its discounted sum of rewards: the reward of step t is multiplied by γ^t.

    Parameters
    ----------
    gamma
        The discount γ, above 0 and at most 1.
    """

    gamma: float
    label = "discounted sum of rewards"

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma <= 1.0:
            raise EpisodesError(
                f"behavior 'discounted' needs a gamma above 0 and at most 1, got {self.gamma}"
            )

    @property
    def spec(self) -> str:  # noqa: D102
        return f"discounted:{self.gamma!r}"

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        return state + self._weight(t) * reward

    def scale(self, t: int) -> float:  # noqa: D102
        weight = self._weight(t)
        return 1.0 / weight if weight * _LARGEST_SCALE > 1.0 else _LARGEST_SCALE

    def ahead(  # noqa: D102
        self, t: int, *, bounds: Bounds, horizon: int, declared: bool
    ) -> tuple[float, float]:
        if self.gamma == 1.0:
            return super().ahead(t, bounds=bounds, horizon=horizon, declared=declared)
        steps = horizon - t if declared else math.inf
        first = self._weight(t)
        # 1 + γ + … + γ^(steps − 1), exact to the last digits for a γ near 1 too; at most 1/(1 − γ).
        whole = first * -math.expm1(steps * math.log(self.gamma)) / (1.0 - self.gamma)
        return _span(first, whole, bounds)

    def _weight(self, t: int) -> float:
        # The power is Python's for arrays too: NumPy's may differ from it in the last bit.
        return float(self.gamma) ** t


@dataclass(frozen=True)
class Last(_Reward):
    """Judges a run by its last reward."""

    label = "last reward"
    forgets = True

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        return reward


@dataclass(frozen=True)
class Max(_Reward):
    """Judges a run by its largest reward."""

    label = "largest reward"
    translation = Translation.FLOOR

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        largest: Number = np.fmax(state, reward)
        return largest


@dataclass(frozen=True)
class Min(_Reward):
    """Judges a run by its smallest reward."""

    label = "smallest reward"
    translation = Translation.CEILING

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        smallest: Number = np.fmin(state, reward)
        return smallest


@dataclass(frozen=True)
class Mean(_Reward):
    """Judges a run by the mean of its rewards."""

    label = "mean reward"

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        return reward if t == 0 else state + (reward - state) / (t + 1)


@dataclass(frozen=True)
class Column(_BuiltIn):
    """Judges a run by a column of your data, which has the value **after** each step.

    Parameters
    ----------
    column
        The column's name.
    accumulates
        True for an amount that starts at 0 and adds up, such as the energy used so far; models then
        predict what is still to come. False for a reading, such as a height or a temperature.
    """

    column: str = field()  # without the base class's default of None
    accumulates: bool = False

    @property
    def spec(self) -> str:  # noqa: D102
        return f"{'total' if self.accumulates else 'column'}:{self.column}"

    @property
    def label(self) -> str:  # noqa: D102
        return self.column

    @property
    def translation(self) -> Translation:  # noqa: D102
        return Translation.SHIFT if self.accumulates else Translation.KEEP

    def start(self) -> float:  # noqa: D102
        return 0.0 if self.accumulates else math.nan

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        return reward  # the column's own value


@dataclass(frozen=True)
class _Conditional(_BuiltIn):
    """Judges a run by the steps at which its reward fulfils a condition, such as ``< 0.3``."""

    comparison: str
    bound: float

    def __post_init__(self) -> None:
        if self.comparison not in _COMPARISONS:
            known = ", ".join(_COMPARISONS)
            raise EpisodesError(f"a condition needs one of {known}, got {self.comparison!r}")
        if not math.isfinite(self.bound):
            raise EpisodesError(f"a condition needs a finite number, got {self.bound}")

    @property
    def condition(self) -> str:
        """The condition on the reward as text, such as "<0.3"."""
        return f"{self.comparison}{self.bound:g}"

    def _holds(self, reward: Number) -> Any:
        return _COMPARISONS[self.comparison](reward, self.bound)


@dataclass(frozen=True)
class FirstStep(_Conditional):
    """Judges a run by the first step at which its reward fulfils a condition, such as ``< 0.3``.

    Parameters
    ----------
    comparison, bound
        The condition: ``"<"``, ``"<="``, ``">"`` or ``">="``, and a number.
    never
        The outcome of a run in which the condition never holds, or holds only after this step.
        Choose a number above every step that a target may name, so that "by step 50" does not count
        such a run as a success.
    """

    never: float
    translation = Translation.CEILING

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.never) and self.never > 0.0):
            raise EpisodesError(
                Argument("never"), f" needs a finite number above 0, got {self.never}"
            )

    @property
    def spec(self) -> str:  # noqa: D102
        return f"first:{self.condition}:{self.never:g}"

    @property
    def label(self) -> str:  # noqa: D102
        return f"first step {self.condition}"

    def start(self) -> float:  # noqa: D102
        return float(self.never)

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        # Written as a minimum, so that it can be computed from the last step back as well.
        came: Any = np.where(self._holds(reward), float(t), self.never)
        earliest: Number = np.fmin(state, came)
        return earliest

    def ahead(  # noqa: D102
        self, t: int, *, bounds: Bounds, horizon: int, declared: bool
    ) -> tuple[float, float]:
        return min(float(t), self.never), float(self.never)


@dataclass(frozen=True)
class ShareOfSteps(_Conditional):
    """Judges a run by the share of its steps (0 to 1) whose reward is, for example, ``< 0.3``.

    Parameters
    ----------
    comparison, bound
        The condition: ``"<"``, ``"<="``, ``">"`` or ``">="``, and a number.
    """

    @property
    def spec(self) -> str:  # noqa: D102
        return f"share:{self.condition}"

    @property
    def label(self) -> str:  # noqa: D102
        return f"share of steps {self.condition}"

    def update(self, state: Number, reward: Number, t: int) -> Number:  # noqa: D102
        held: Any = np.where(self._holds(reward), 1.0, 0.0) + 0.0
        share: Number = held if t == 0 else state + (held - state) / (t + 1)
        return share

    def ahead(  # noqa: D102
        self, t: int, *, bounds: Bounds, horizon: int, declared: bool
    ) -> tuple[float, float]:
        return 0.0, 1.0


_NAMED: dict[str, Behavior] = {b.spec: b for b in (Sum(), Last(), Max(), Min(), Mean())}


def behavior_of(spec: str | Behavior, *, columns: tuple[str, ...] = ()) -> Behavior:
    """The behavior with this name.

    A behavior object is returned as it is.

    Parameters
    ----------
    spec
        ``"sum"``, ``"last"``, ``"max"``, ``"min"``, ``"mean"``, ``"discounted:0.99"``, a column's
        name, ``"column:NAME"`` for a column whose name is one of these words, ``"total:NAME"`` for
        a column that adds up from 0, ``"first:<0.3:200"`` for the first step with a reward below
        0.3 (200 if there is none), or ``"share:<0.3"`` for the share of such steps.
    columns
        The columns of the table, if ``spec`` may be a column's name.

    Examples
    --------
    >>> behavior_of("discounted:0.9")
    DiscountedSum(gamma=0.9)
    >>> behavior_of("height", columns=("height", "speed"))
    Column(column='height', accumulates=False)
    """
    if isinstance(spec, Behavior):
        return spec
    if spec in _NAMED:
        return _NAMED[spec]
    kind, _, rest = spec.partition(":")
    if kind == "discounted" and rest:
        try:
            gamma = float(rest)
        except ValueError as error:
            raise EpisodesError(
                f"behavior 'discounted:GAMMA' needs a number as GAMMA, got {rest!r}"
            ) from error
        return DiscountedSum(gamma)
    if kind in ("column", "total") and rest:
        return Column(rest, accumulates=kind == "total")
    conditional = _CONDITIONAL.fullmatch(spec)
    if conditional is not None:
        return _conditional(spec, *conditional.groups())
    if spec in columns:
        return Column(spec)
    if kind == "own" and rest:
        raise EpisodesError(
            f"behavior {spec!r} is a class that you wrote, and its name is not enough to load it; "
            f"pass behavior={rest}"
        )
    known = ", ".join([*_NAMED, *_FURTHER])
    at_hand = f" or a column ({', '.join(columns)})" if columns else ""
    raise EpisodesError(Argument("behavior"), f" needs one of {known}{at_hand}, got {spec!r}")


def _conditional(
    spec: str, kind: str, comparison: str, bound: str, never: str | None
) -> FirstStep | ShareOfSteps:
    """The behavior that a text such as "first:<0.3:200" describes, from the parts of the text."""
    try:
        if kind == "share" and never is None:
            return ShareOfSteps(comparison, float(bound))
        if kind == "first" and never is not None:
            return FirstStep(comparison, float(bound), float(never))
    except ValueError as error:
        if isinstance(error, EpisodesError):
            raise
        raise EpisodesError(f"behavior {spec!r} needs numbers in its condition") from error
    raise EpisodesError(
        f"behavior {spec!r} needs the form first:CONDITION:N, where N is the outcome of a run in "
        "which the condition never holds, or share:CONDITION; a condition is like <0.3"
    )


def _ends(bounds: Bounds) -> tuple[float, float]:
    low, high = bounds
    return -math.inf if low is None else low, math.inf if high is None else high


def _span(first: float, whole: float, bounds: Bounds) -> tuple[float, float]:
    """The smallest and the largest possible weighted sum of rewards, given bounds on a reward."""
    low, high = _ends(bounds)
    # The weights of late steps may vanish, and 0 times an infinite bound is NaN.
    lower = first * low if low >= 0.0 else whole * low if math.isfinite(low) else low
    upper = first * high if high <= 0.0 else whole * high if math.isfinite(high) else high
    return lower, upper
