"""Passing on that somebody took over: every wrapper around an environment needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["tell_inside"]


def tell_inside(env: Any, environments: Sequence[int] | None = None) -> None:
    """Call ``intervene`` of the nearest wrapper inside that has one; it tells the next.

    ``environments`` are the numbers of those that were taken over, in a vector of them.
    """
    while env is not None:
        if hasattr(type(env), "intervene"):
            env.intervene(*(() if environments is None else (environments,)))
            return
        env = getattr(env, "env", None)
