"""How Numba kernels are compiled: lazily, without the GIL, cached on disk.

No kernel is parallel of itself: a forked child that calls such a kernel is killed. `threads`
spreads serial kernels over one pool instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import numba

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., object])

_warned = False


def kernel(function: F) -> F:
    """The function, compiled on first call and cached on disk where a cache can be written."""
    global _warned
    try:
        return numba.njit(function, cache=True, nogil=True, error_model="numpy")  # type: ignore[no-any-return]
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        if not _warned:
            _warned = True
            warnings.warn(
                "no folder for compiled kernels is writable, so every process compiles them anew; "
                "set NUMBA_CACHE_DIR to a writable folder",
                RuntimeWarning,
                stacklevel=2,
            )
        return numba.njit(function, nogil=True, error_model="numpy")  # type: ignore[no-any-return]
