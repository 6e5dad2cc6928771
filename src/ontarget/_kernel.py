"""How Numba kernels are compiled: lazily, without the GIL, cached on disk.

No kernel is parallel of itself: a forked child that calls such a kernel is killed. `threads`
spreads serial kernels over one pool instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import numba

__all__ = ["inner_kernel", "kernel", "room_kernel"]

F = TypeVar("F", bound=Callable[..., object])

_warned = False


def kernel(function: F) -> F:
    """The function, compiled on first call and cached on disk where a cache can be written."""
    return _compile(function, {})


def inner_kernel(function: F) -> F:
    """The same for a function that only kernels call: it has no way in from Python, and no memory.

    Taking a tuple of arrays apart for Python costs the compiler more than most kernels do. And a
    function that may allocate counts who holds each array it meets, with instructions that lock
    the memory and that threads wait for: several microseconds a row. So it takes room to work in,
    and returns numbers. Called from Python it would crash.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    return _compile(function, options)


def room_kernel(function: F) -> F:
    """The same for a function that makes the room which inner kernels work in: it may allocate."""
    return _compile(function, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})


def _compile(function: F, options: dict[str, bool]) -> F:
    global _warned
    options = {"nogil": True, **options}
    try:
        return numba.njit(function, cache=True, error_model="numpy", **options)  # type: ignore[call-overload,no-any-return]
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        if not _warned:
            _warned = True
            warnings.warn(
                "no folder for compiled kernels is writable, so every process compiles them anew; "
                "set NUMBA_CACHE_DIR to a writable folder",
                RuntimeWarning,
                stacklevel=3,
            )
        return numba.njit(function, error_model="numpy", **options)  # type: ignore[call-overload,no-any-return]
