"""Which rows of a step of a vector environment belong to a run, end a run or begin one.

In NEXT_STEP mode, the step after the end of a run does not count: its action is ignored, its reward
is 0, and its observation is the first of a new run. In SAME_STEP mode, the last reward of a run
comes together with the first observation of the next run. In DISABLED mode, a run that has ended
waits for ``reset``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ontarget._package import require
from ontarget._typing import BoolArray
from ontarget.errors import Argument, InputError


class Rows(NamedTuple):
    """For each environment of a vector, three flags: its run took a step, ended, or began."""

    moved: BoolArray
    ended: BoolArray
    began: BoolArray


class Autoreset:
    """Keeps track of which runs of a vector environment have ended.

    Parameters
    ----------
    env
        The vector environment; its ``metadata["autoreset_mode"]`` says how it resets.
    """

    def __init__(self, env: Any) -> None:
        modes = require("gymnasium.vector", extra="gym").AutoresetMode
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, modes):
            raise InputError(
                Argument("env"),
                " needs metadata['autoreset_mode'] to say how it resets ended runs, got "
                f"{mode!r}; set it to a gymnasium.vector.AutoresetMode",
            )
        self._mode, self._modes = mode, modes
        self._waiting: BoolArray = np.zeros(env.num_envs, dtype=np.bool_)

    @property
    def same_step(self) -> bool:
        """Whether, when a run ends, the same row shows the next run's first observation."""
        return bool(self._mode is self._modes.SAME_STEP)

    def reset(self, options: dict[str, Any] | None) -> BoolArray:
        """(environments,): which environments begin a new run if ``reset`` gets these options.

        Call this before ``env.reset``, because environments remove the mask from the options.
        """
        chosen = None if options is None else options.get("reset_mask")
        mask: BoolArray = np.ones(self._waiting.size, dtype=np.bool_)
        if chosen is not None:
            mask = np.array(chosen, dtype=np.bool_)
        self._waiting[mask] = False
        return mask

    def step(self, terminated: BoolArray, truncated: BoolArray) -> Rows:
        """What happened in each environment at this step: its run took a step, ended or began."""
        over = np.logical_or(terminated, truncated)
        if self.same_step:
            return Rows(np.ones_like(over), over, over)
        waiting = self._waiting
        moved = ~waiting
        ended = moved & over
        if self._mode is self._modes.NEXT_STEP:
            self._waiting = ended
            return Rows(moved, ended, waiting)
        self._waiting = waiting | ended
        return Rows(moved, ended, np.zeros_like(over))
