"""The episode and the step that each training row of a forest came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, IntArray
from ontarget.models._stored import flat_array, require
from ontarget.models.base import TrainingRows

_SMALL = np.iinfo(np.uint16).max


class RowOrigins(NamedTuple):
    """The episode and the step of each training row, rows sorted as by `in_canonical_order`.

    Episodes are numbered in the order of their sorted ids, or as `number_episodes` sets them; in a
    monitor, the number is the episode's position in the learn part. Steps are stored as they are if
    they are whole numbers from 0 to below 2**32; otherwise they are numbered in order.
    """

    episode: IntArray  # uint16, or uint32 where a number needs it; so is the step
    step: IntArray

    @classmethod
    def of(cls, rows: TrainingRows) -> Self:
        """The episode and the step of each row; rows must be sorted as by `in_canonical_order`."""
        labels = rows.step_labels
        kept = labels.dtype.kind in "iu" and labels[0] >= 0 and labels[-1] < 2**32
        step = labels[rows.steps] if kept else rows.steps
        return cls(in_few_bytes(rows.units), in_few_bytes(step))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_rows: int) -> Self:
        """The episode and the step of each training row, from arrays, or a `ModelFileError`."""
        return cls(_numbers(arrays, "row_episode", n_rows), _numbers(arrays, "row_step", n_rows))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The episode and the step of each training row, as flat read-only arrays by name."""
        return {"row_episode": self.episode, "row_step": self.step}


def in_few_bytes(numbers: AnyArray) -> IntArray:
    """Whole numbers from 0 up as 16-bit integers, or as 32-bit integers if one needs it."""
    return read_only(numbers.astype(_type_of(numbers)))


def _numbers(arrays: Mapping[str, AnyArray], name: str, n_rows: int) -> IntArray:
    wide = name in arrays and arrays[name].dtype == np.uint32
    found: IntArray = flat_array(arrays, name, np.uint32 if wide else np.uint16)
    require(found.size == n_rows, f"{name} needs one number per training row ({n_rows})")
    require(
        found.dtype == _type_of(found), f"{name} needs two-byte numbers unless one is above 65,535"
    )
    return found


def _type_of(numbers: AnyArray) -> type[np.unsignedinteger]:
    return np.uint16 if numbers.max() <= _SMALL else np.uint32
