"""Where a forest's training rows came from: the episode and the step of each (M28)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import AnyArray, IndexArray, IntArray
from ontarget.models._stored import flat_array, require
from ontarget.models.base import TrainingRows

__all__ = ["RowOrigins"]

_SMALL = np.iinfo(np.uint16).max


class RowOrigins(NamedTuple):
    """The episode and the step of each training row, rows in their canonical order.

    Episodes are numbered in the order of their sorted ids, or as `number_episodes` says; in a
    monitor they are those of its learning part. Steps are kept as they are if they are
    whole numbers from 0 below 2**32, and else numbered in their order.
    """

    episode: IntArray  # uint32
    step: IntArray  # uint16, or uint32 where a step needs it

    @classmethod
    def of(cls, rows: TrainingRows, episodes: IndexArray | None = None) -> Self:
        """Those of rows in their canonical order; other numbers of their episodes may be given."""
        labels = rows.step_labels
        kept = labels.dtype.kind in "iu" and labels[0] >= 0 and labels[-1] < 2**32
        step = labels[rows.steps] if kept else rows.steps
        number = rows.units if episodes is None else episodes
        return cls(read_only(number.astype(np.uint32)), read_only(step.astype(_step_type(step))))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_rows: int) -> Self:
        """Those that gave these arrays, one per training row, or a `ModelFileError`."""
        episode = flat_array(arrays, "row_episode", np.uint32)
        require(episode.size == n_rows, f"row_episode needs one number per row ({n_rows})")
        wide = "row_step" in arrays and arrays["row_step"].dtype == np.uint32
        step: IntArray = flat_array(arrays, "row_step", np.uint32 if wide else np.uint16)
        require(step.size == n_rows, f"row_step needs one number per row ({n_rows})")
        require(step.dtype == _step_type(step), "row_step needs four bytes only beyond 65,535")
        return cls(episode, step)

    def to_arrays(self) -> dict[str, AnyArray]:
        """The origins as flat read-only arrays by name."""
        return {"row_episode": self.episode, "row_step": self.step}


def _step_type(step: IntArray) -> type[np.unsignedinteger]:
    return np.uint16 if step.max() <= _SMALL else np.uint32
