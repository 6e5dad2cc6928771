"""Decorators that compile kernels with Numba on first use, release the GIL and cache on disk.

A *kernel* is a numerical function that is compiled to machine code. No kernel uses the parallel
threads of Numba, because a forked child process that calls such a kernel is killed. Instead,
`ontarget._threads` runs kernels in one thread pool.

By itself, Numba compiles a cached kernel again only if the kernel's own file has changed, although
its machine code also contains the kernels that it calls. Here the name of every cache file contains
a digest of all kernel sources of the package. So a change in any of them leads to a new
compilation, and cache files of older sources are never opened: they may refer to classes that no
longer exist.

Cache files are pickles, which run code when they are opened. So a folder that other users can write
to is not used.
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
    """The function, compiled on its first call; cached on disk if a private folder allows it."""
    return _compile(function)


def inner_kernel(function: F) -> F:
    """Like `kernel`, for a function that only kernels call and that allocates no memory.

    Python cannot call it (that raises a TypeError). So no code that unpacks Python arguments is
    compiled, which often takes longer than to compile the kernel. The function must not allocate
    arrays: a function that allocates also counts references to arrays, and these atomic
    instructions make threads wait for each other, several microseconds per row. So pass arrays for
    it to work in, and let it return numbers.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def room_kernel(function: F) -> F:
    """Like `inner_kernel`, for a function that allocates the work arrays that inner kernels use."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class _InnerKernel(CPUDispatcher):
    """A compiled function that kernels can call, but Python cannot."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        name = self.py_func.__name__
        raise TypeError(
            f"{name} is compiled for other kernels and cannot be called from Python; "
            f"call {name}.py_func, or a @kernel that calls it"
        )


class _KernelFiles(CompileResultCacheImpl):
    """Puts a digest of all kernel sources into the names of cache files."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base: str = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{base}-{_sources_digest()}"


class _KernelCache(FunctionCache):
    """The disk cache of a compiled function; saving also deletes cache files of older sources."""

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
    """A digest of every source file that contains kernels; computed once, in about 10 ms."""
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
        _warn_once("no folder for the cache of compiled kernels is writable")
        return compiled  # type: ignore[no-any-return]
    folders = (str(kept.cache_path), str(getattr(config, "CACHE_DIR", "")))
    shared = [folder for folder in folders if _is_open_to_others(folder)]
    if shared:
        _warn_once(f"other users can write to the cache folder of compiled kernels, {shared[0]}")
    else:
        compiled._cache = kept
    return compiled  # type: ignore[no-any-return]


@cache
def _is_open_to_others(folder: str) -> bool:
    """Whether other users can put a file into the folder.

    The administrator and the owner of the installed package are trusted, so they do not count.
    """
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
            f"{why}, so every process compiles the kernels (numerical code) again; set "
            "NUMBA_CACHE_DIR to a private, writable folder",
            RuntimeWarning,
            stacklevel=4,
        )
