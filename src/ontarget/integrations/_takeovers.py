"""Tells wrappers inside another wrapper that somebody took a run over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tell_inside(env: Any, environments: Sequence[int] | None = None) -> None:
    """Call ``intervene`` of the nearest inner wrapper that has this method.

    That wrapper then tells the next inner one. ``environments`` are the numbers of the environments
    that were taken over, in a vector.
    """
    while env is not None:
        if hasattr(type(env), "intervene"):
            env.intervene(*(() if environments is None else (environments,)))
            return
        env = getattr(env, "env", None)
