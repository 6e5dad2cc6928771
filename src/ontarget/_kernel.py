"""How Numba kernels are compiled: lazily, without the GIL, kept on disk.

No kernel is parallel of itself: a forked child that calls such a kernel is killed. `threads`
spreads serial kernels over one pool instead.

Numba stamps what it keeps of a kernel with that kernel's own file alone, though the machine code
holds the kernels it calls too. Here every file name carries a digest of all kernel sources of the
package, so that a change in any of them is compiled, and old files are never even opened: they may
name classes that are gone.

What is kept are pickles, which run code when they are opened. So a folder that others may write to
is not used.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.registry import CPUDispatcher

__all__ = ["inner_kernel", "kernel", "room_kernel"]

F = TypeVar("F", bound=Callable[..., object])

# Every file with a kernel holds this line, this file included.
_MARK = b"._kernel import"

_warned = False


def kernel(function: F) -> F:
    """The function, compiled on first call and kept on disk where a folder can be written."""
    return _compile(function)


def inner_kernel(function: F) -> F:
    """The same for a function that only kernels call: it has no way in from Python, and no memory.

    Taking a tuple of arrays apart for Python costs the compiler more than most kernels do. And a
    function that may allocate counts who holds each array it meets, with instructions that lock
    the memory and that threads wait for: several microseconds a row. So it takes room to work in,
    and returns numbers. Called from Python it raises a TypeError.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def room_kernel(function: F) -> F:
    """The same for a function that makes the room which inner kernels work in: it may allocate."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class _InnerKernel(CPUDispatcher):
    """A compiled function without an entry from Python; kernels find it as any other."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        name = self.py_func.__name__
        raise TypeError(
            f"{name} is compiled for other kernels and cannot be called from Python; "
            f"call {name}.py_func, or a @kernel that calls it"
        )


class _KernelFiles(CompileResultCacheImpl):
    """Names the files of a compiled function after all kernel sources."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base: str = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{base}-{_sources_digest()}"


class _KernelCache(FunctionCache):
    """A compiled function's place on disk; whatever it keeps replaces what older sources gave."""

    _impl_class = _KernelFiles

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        # <module>.<function>-<line>.py<version>-<digest>[.<number>].nbi or .nbc
        function = self._impl.filename_base.rsplit("-", 2)[0]
        for path in Path(self.cache_path).glob(f"{escape(function)}-*.nb[ic]"):
            if f"-{_sources_digest()}." not in path.name:
                with suppress(OSError):  # another process was first, or has it open on Windows
                    path.unlink()


@cache
def _sources_digest() -> str:
    """A digest of every file of the package that compiles kernels: some ten milliseconds, once."""
    package = Path(__file__).parent
    digest = blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if _MARK in source:
            digest.update(
                b"%s\0%d\0" % (path.relative_to(package).as_posix().encode(), len(source))
            )
            digest.update(source)
    return digest.hexdigest()


def _compile(function: F, **options: bool) -> F:
    compiled: Any = numba.njit(function, nogil=True, error_model="numpy", **options)  # type: ignore[call-overload]
    if compiled is function:  # under NUMBA_DISABLE_JIT
        return function
    if "no_cpython_wrapper" in options:
        compiled.__class__ = _InnerKernel
    try:
        kept = _KernelCache(function)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _warn_once("no folder for compiled kernels is writable")
        return compiled  # type: ignore[no-any-return]
    folders = (str(kept.cache_path), str(getattr(config, "CACHE_DIR", "")))
    shared = [folder for folder in folders if _is_open_to_others(folder)]
    if shared:
        _warn_once(f"others may write to the folder for compiled kernels, {shared[0]}")
    else:
        compiled._cache = kept
    return compiled  # type: ignore[no-any-return]


@cache
def _is_open_to_others(folder: str) -> bool:
    """Whether somebody else could plant a file there, but for whoever owns our sources."""
    if not folder or not hasattr(os, "getuid"):  # not set, or Windows, where folders are private
        return False
    found = Path(folder).stat()
    trusted = {0, os.getuid(), Path(__file__).stat().st_uid}
    return bool(found.st_mode & stat.S_IWOTH) or found.st_uid not in trusted


def _warn_once(why: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"{why}, so every process compiles them anew; set NUMBA_CACHE_DIR to a private, "
            "writable folder",
            RuntimeWarning,
            stacklevel=4,
        )
