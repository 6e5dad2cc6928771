"""The support of a predicted distribution: its outcomes, which of them are atoms, and its tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.errors import ModelFileError
from ontarget.models.stored import flat_array

_MIX = 1e-6
# 1 - (1 - mix) is exact in floats, so that the two parts of the mixture sum to exactly 1.
_EXACT_MIX = 1.0 - (1.0 - _MIX)


@dataclass(frozen=True, slots=True)
class Support:
    """The sorted distinct training outcomes, which of them are atoms, and the tails beyond them.

    A model gives probabilities to ``values``. An *atom* is a value that keeps its probability, so
    the CDF jumps there. The probability of any other value is spread evenly over the gap before the
    value. The gap before the first value is as wide as the mean gap. One millionth of all
    probability follows a logistic distribution around the training median, with the interquartile
    range as its scale. So the CDF is strictly increasing on the whole line.

    If **all** values are atoms, or there is only one value, nothing is spread out and the CDF is a
    step function. The millionth then follows the distribution of all training outcomes, so that no
    outcome that was seen has probability 0. In a model without smoothing, the CDF is a step
    function and there is no such millionth.

    ``tail`` holds four numbers: the start of the first gap, and the centre, scale and share of the
    logistic part. A scale of 0 means that all values are atoms. A share of 0 means that the model
    is not smoothed.
    """

    values: FloatArray
    atoms: BoolArray
    tail: FloatArray

    def __post_init__(self) -> None:
        values, atoms, tail = self.values, self.atoms, self.tail
        # Beyond that the distance of two outcomes is no number. NaN fails the comparison too.
        if values.ndim != 1 or values.size == 0 or not (np.abs(values) <= LARGEST_OUTCOME).all():
            raise ModelFileError(
                "the model's array `support` needs at least one outcome, and none above 1e300 in "
                "absolute value"
            )
        if (values[1:] <= values[:-1]).any():
            raise ModelFileError(
                "the model's array `support` needs outcomes in strictly ascending order"
            )
        if atoms.shape != values.shape or atoms.dtype != np.bool_:
            raise ModelFileError(
                f"the model's array `atoms` needs one True or False per outcome ({values.size})"
            )
        if tail.shape != (4,) or not (np.isfinite(tail).all() and 0.0 <= tail[3] < 1.0):
            raise ModelFileError(
                "the model's array `tail` needs a start, a centre, a scale and a share below 1"
            )
        if tail[2] == 0.0 and not (atoms.all() and tail[0] == tail[1] == 0.0):
            raise ModelFileError(
                "the model's array `tail` needs a scale above 0 unless all outcomes are atoms"
            )
        if tail[2] != 0.0 and not (tail[2] > 0.0 and tail[3] > 0.0 and tail[0] <= values[0]):
            raise ModelFileError(
                "the model's array `tail` needs a scale above 0, a share above 0, and a start at "
                "or below the lowest outcome"
            )

    @classmethod
    def of(cls, values: FloatArray, atoms: BoolArray, mass: FloatArray, *, smooth: bool) -> Self:
        """The `Support` of training outcomes: how the probability of each outcome is spread out."""
        if not smooth or atoms.all() or values.size == 1:
            atoms = np.ones(values.size, dtype=np.bool_)
            tail = np.array([0.0, 0.0, 0.0, _EXACT_MIX if smooth else 0.0])
        else:
            cumulative = np.cumsum(mass)
            spots = np.searchsorted(cumulative, np.array([0.25, 0.5, 0.75]) * cumulative[-1])
            low, centre, high = values[np.minimum(spots, values.size - 1)]
            span = values[-1] - values[0]
            start = values[0] - span / (values.size - 1)
            # The quartiles may coincide where one value recurs over pooled steps.
            tail = np.array([start, centre, high - low if high > low else span, _EXACT_MIX])
        return cls(read_only(values), read_only(atoms), read_only(tail))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The training outcomes and how they are smoothed, as flat read-only arrays by name."""
        return {"support": self.values, "atoms": self.atoms, "tail": self.tail}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The `Support` (training outcomes and smoothing), from the arrays of `to_arrays`."""
        return cls(
            flat_array(arrays, "support", np.float64),
            flat_array(arrays, "atoms", np.bool_),
            flat_array(arrays, "tail", np.float64),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernels would compile once more for them.
        return type(self).from_arrays, (self.to_arrays(),)

    def as_tuple(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """The arrays ``values``, ``atoms`` and ``tail``, which kernels take in this order."""
        return self.values, self.atoms, self.tail


def find_atoms(ranks: IndexArray, episodes: IndexArray, steps: IndexArray) -> BoolArray:
    """Which of the distinct outcomes are atoms (values that keep a positive probability) (M2)."""
    n_values, n_steps, n_episodes = (int(part.max()) + 1 for part in (ranks, steps, episodes))
    values_at_steps, place = np.unique(ranks * n_steps + steps, return_inverse=True)
    # One entry per (value, step, episode): an episode counts once however many rows it has.
    entries = np.unique(place * n_episodes + episodes) // n_episodes
    n_sharing = np.bincount(entries, minlength=values_at_steps.size)
    shared = n_sharing >= 2
    atoms = np.zeros(n_values, dtype=np.bool_)
    if 2 * n_sharing[shared].sum() > entries.size:
        atoms[:] = True
    atoms[values_at_steps[shared] // n_steps] = True
    return atoms


def location(known: FloatArray) -> tuple[float, float]:
    """The mean and the standard deviation of a feature's numbers; a deviation near 0 becomes 0."""
    # The numbers are scaled first, so that their squares neither overflow nor vanish.
    size = float(np.abs(known).max(initial=0.0))
    if size == 0.0:
        return 0.0, 0.0
    scaled = known / size
    centre = float(scaled.mean())
    spread = float(np.sqrt(np.square(scaled - centre).mean()))
    # A spread beyond rounding, and one whose inverse is a number.
    return centre * size, spread * size if spread > 1e-12 and spread * size > 1e-300 else 0.0
