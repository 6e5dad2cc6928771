"""What a run is judged by: a number that summarises it so far, updated reward by reward (M1).

One ``update`` serves arrays (recorded episodes) and floats (a live run), so both give the same
bits: sums go left to right, one step at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ontarget._typing import FloatArray
from ontarget.errors import EpisodesError

__all__ = [
    "Behavior",
    "Column",
    "DiscountedSum",
    "Last",
    "Max",
    "Mean",
    "Min",
    "Sum",
    "behavior_of",
]

Number = TypeVar("Number", float, FloatArray)


@dataclass(frozen=True)
class Behavior:
    """A summary of a run through time t. Its value at the end of the run is the outcome.

    An *additive* behavior splits into what was earned and what remains: models learn the remainder
    given the state, and the target moves by what was earned. For any other behavior models learn
    the outcome given the state and the behavior so far.
    """

    @property
    def additive(self) -> bool:
        """Whether the outcome is what was earned plus what remains."""
        return False

    @property
    def initial(self) -> float:
        """The value before the first step: 0 for an amount that adds up, else unknown."""
        return 0.0 if self.additive else math.nan

    @property
    def spec(self) -> str:
        """The text that `behavior_of` turns back into this behavior."""
        return type(self).__name__.lower()

    def update(self, behavior: Number, reward: Number, step: int) -> Number:
        """The behavior through ``step + 1``, from that through ``step`` and the step's reward."""
        raise TypeError(f"{self.spec} is not computed from rewards")


@dataclass(frozen=True)
class Sum(Behavior):
    """The sum of the rewards: the default."""

    @property
    def additive(self) -> bool:  # noqa: D102
        return True

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        return behavior + reward


@dataclass(frozen=True)
class DiscountedSum(Behavior):
    """The sum of γ^t times the reward of step t.

    Parameters
    ----------
    gamma
        The discount γ, above 0 and at most 1.
    """

    gamma: float

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma <= 1.0:
            raise EpisodesError(f"discounted needs a gamma above 0 and at most 1, got {self.gamma}")

    @property
    def additive(self) -> bool:  # noqa: D102
        return True

    @property
    def spec(self) -> str:  # noqa: D102
        return f"discounted:{self.gamma!r}"

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        # The power is Python's for arrays too: NumPy's may differ from it in the last bit.
        return behavior + float(self.gamma) ** step * reward


@dataclass(frozen=True)
class Last(Behavior):
    """The last reward."""

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        return reward


@dataclass(frozen=True)
class Max(Behavior):
    """The largest reward."""

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        largest: Number = np.fmax(behavior, reward)
        return largest


@dataclass(frozen=True)
class Min(Behavior):
    """The smallest reward."""

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        smallest: Number = np.fmin(behavior, reward)
        return smallest


@dataclass(frozen=True)
class Mean(Behavior):
    """The mean reward."""

    def update(self, behavior: Number, reward: Number, step: int) -> Number:  # noqa: D102
        return reward if step == 0 else behavior + (reward - behavior) / (step + 1)


@dataclass(frozen=True)
class Column(Behavior):
    """A number that the user's own data hold: its value **after** each step.

    Parameters
    ----------
    column
        The column's name.
    accumulates
        True for an amount that starts at 0 and piles up (energy used so far), so that what remains
        does not depend on what was used; False for a reading (height, temperature).
    """

    column: str
    accumulates: bool = False

    @property
    def additive(self) -> bool:  # noqa: D102
        return self.accumulates

    @property
    def spec(self) -> str:  # noqa: D102
        return f"{'total' if self.accumulates else 'column'}:{self.column}"


_NAMED: dict[str, Behavior] = {b.spec: b for b in (Sum(), Last(), Max(), Min(), Mean())}


def behavior_of(spec: str | Behavior, *, columns: tuple[str, ...] = ()) -> Behavior:
    """The behavior that a text names.

    Parameters
    ----------
    spec
        ``"sum"``, ``"last"``, ``"max"``, ``"min"``, ``"mean"``, ``"discounted:0.99"``, a column's
        name, ``"column:NAME"`` for a column named like one of these, or ``"total:NAME"`` for a
        column that piles up from 0.
    columns
        The columns at hand.

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
            return DiscountedSum(float(rest))
        except ValueError as error:
            if isinstance(error, EpisodesError):
                raise
            raise EpisodesError(f"discounted needs a number as gamma, got {rest!r}") from error
    if kind in ("column", "total") and rest:
        return Column(rest, accumulates=kind == "total")
    if spec in columns:
        return Column(spec)
    known = ", ".join([*_NAMED, "discounted:GAMMA", "column:NAME", "total:NAME"])
    at_hand = f" or a column ({', '.join(columns)})" if columns else ""
    raise EpisodesError(f"behavior needs one of {known}{at_hand}, got {spec!r}")
