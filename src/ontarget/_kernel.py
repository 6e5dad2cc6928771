"""Decorators that compile kernels with Numba on first use, release the GIL and cache on disk.

A *kernel* is a numerical function that is compiled to machine code. No kernel uses the parallel
threads of Numba, because a forked child process that calls such a kernel is killed. Instead,
`ontarget._threads` runs kernels in one thread pool.

By itself, Numba compiles a cached kernel again only if the kernel's own file has changed, although
its machine code also contains the kernels that it calls. Here the name of every cache file contains
a digest of all kernel sources of the package. So a change in any of them leads to a new
compilation, and cache files of older sources are never opened: they may refer to classes that no
longer exist.

Cache files are pickles, which run code when they are opened. So neither a folder nor a file that
another user could have changed is used. The administrator, and the owner of the installed package,
can change the program itself, so they do not count as others. What others can do is read from a
file's mode. POSIX access lists show there as rights of the group; those of NFSv4 do not show. On
Windows, a user's folders are private by default, and nothing is checked.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, NoReturn, TypeVar

import numba
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
    _SourceFileBackedLocatorMixin,
)
from numba.core.registry import CPUDispatcher
from numba.misc.appdirs import AppDirs

F = TypeVar("F", bound=Callable[..., object])

# Every file with a kernel holds this line, this file included.
_MARK = b"._kernel import"

_CHECKED = hasattr(os, "getuid")
_OPEN = "other users can write to the cache folder of compiled kernels, or to one above it"

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


class _PrivateFolder(_SourceFileBackedLocatorMixin, _CacheLocator):
    """Where the compiled kernels of one source file are kept."""

    def __init__(self, function: Any, file: str, folder: Path) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._folder = str(folder)

    def get_cache_path(self) -> str:
        return self._folder

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _PrivateFolder | None:
        if not (Path(py_file).exists() or getattr(sys, "frozen", False)):
            return None
        name = cls.get_suitable_cache_subpath(py_file)  # type: ignore[no-untyped-call]
        folder = _cache_folder(getattr(config, "CACHE_DIR", ""), Path(py_file).parent, name)
        return None if folder is None else cls(py_func, py_file, folder)


class _KernelFiles(CompileResultCacheImpl):
    """Puts a digest of all kernel sources into the names of cache files."""

    _locator_classes: Any = (_PrivateFolder,)

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base: str = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{base}-{_sources_digest()}"


class _PrivateFiles(IndexDataCacheFile):
    """Opens no file that another user could have changed, and writes none that others can."""

    def _load_index(self) -> Any:
        if not _is_private_file(Path(self._index_path)):
            return {}
        return super()._load_index()  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)  # type: ignore[no-untyped-call]
        if not _is_private_file(Path(path)):
            raise PermissionError(path)  # which Numba takes for a missing file
        return super()._load_data(name)  # type: ignore[no-untyped-call]

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        part = Path(f"{filepath}.tmp.{secrets.token_hex(8)}")
        try:
            made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            with os.fdopen(made, "wb") as file:
                yield file
            part.replace(filepath)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


class _KernelCache(FunctionCache):
    """The disk cache of a compiled function; saving also deletes cache files of older sources."""

    _impl_class = _KernelFiles

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file.__class__ = _PrivateFiles

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _warn_once(f"{self.cache_path} cannot be written ({error.strerror})")
            return
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
        kept = _KernelCache(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _warn_once("no folder for the cache of compiled kernels is writable by this user alone")
        return compiled  # type: ignore[no-any-return]
    folder, given = Path(kept.cache_path), getattr(config, "CACHE_DIR", "")
    if not _is_private_folder(folder):  # a class in NUMBA_CACHE_LOCATOR_CLASSES chose it
        _warn_once(f"{_OPEN}, {folder}")
        return compiled  # type: ignore[no-any-return]
    if given and not folder.is_relative_to(given):
        wrong = _trouble(Path(given, folder.name))
        _warn_once(f"NUMBA_CACHE_DIR {given} is not used: {wrong}", f"kept in {folder.parent}")
    compiled._cache = kept
    return compiled  # type: ignore[no-any-return]


@cache
def _cache_folder(given: str, sources: Path, name: str) -> Path | None:
    """The folder for the kernels of a folder of sources; None if no private one is writable.

    It is in NUMBA_CACHE_DIR if that is set, otherwise beside the sources. Where that folder cannot
    be written, or others can change it, a folder of the user's own takes its place.
    """
    first = Path(given, name) if given else sources / "__pycache__"
    if not _trouble(first):
        return first
    for own in _own_folders():
        if not _trouble(own, mode=0o700) and not _trouble(own / name, mode=0o700):
            return own / name
    return None


def _own_folders() -> Iterator[Path]:
    """Folders for this user alone: in the user's cache, and in the system's temporary folder."""
    user = AppDirs(appname="ontarget", appauthor=False).user_cache_dir  # type: ignore[no-untyped-call]
    if Path(user).is_absolute():  # not so if the user has no home
        yield Path(user)
    if _CHECKED:
        yield Path(gettempdir(), f"ontarget-{os.getuid()}")


@cache
def _trouble(folder: Path, mode: int = 0o755) -> str:
    """Why kernels cannot be kept in the folder, which is made if need be; empty if they can."""
    try:
        for one in (*reversed(folder.parents), folder):
            if not one.is_dir():
                one.mkdir(mode, exist_ok=True)
        TemporaryFile(dir=folder).close()
        return "" if _is_private_folder(folder) else _OPEN
    except OSError as error:
        return error.strerror or "it cannot be written"


@cache
def _is_private_folder(folder: Path) -> bool:
    """Whether no other user can put a file into the folder, or put another folder in its place.

    Every folder above it counts, and every symbolic link on the way. In a sticky folder, such as
    /tmp, others cannot rename what is not theirs, so it may be above this one.
    """
    if not _CHECKED:
        return True
    here, *ahead = map(Path, folder.absolute().parts)
    if not _is_ours(here, sticky=True):
        return False
    while ahead:
        name = ahead.pop(0)
        if name.name == "..":  # `here` holds no link, so this is the folder above
            here = here.parent
            continue
        if not _is_ours(here / name, sticky=True):
            return False
        if (here / name).is_symlink():
            ahead = [*map(Path, (here / name).readlink().parts), *ahead]
        else:
            here = here / name  # the root, if that is what a link names
    return _is_ours(here)


def _is_private_file(path: Path) -> bool:
    """Whether this is a regular file that no other user owns or can write; False if missing."""
    return path.is_file() and (not _CHECKED or _is_ours(path.resolve()))


def _is_ours(path: Path, *, sticky: bool = False) -> bool:
    """Whether only trusted users own or can write this; ``sticky`` accepts a sticky folder too."""
    found = path.lstat()
    if found.st_uid not in _trusted():
        return False
    if stat.S_ISLNK(found.st_mode) or (sticky and found.st_mode & stat.S_ISVTX):
        return True
    if found.st_mode & stat.S_IWOTH:
        return False
    if found.st_mode & stat.S_IWGRP:
        return _is_own_group(found.st_gid) and not _has_access_list(path)
    return True


@cache
def _trusted() -> frozenset[int]:
    """The users whose files are opened."""
    users = {0, os.getuid(), Path(__file__).stat().st_uid}
    with suppress(OSError, ValueError):
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        nobody = int(Path("/proc/sys/kernel/overflowuid").read_text())
        mapped = [[int(one) for one in line.split()] for line in lines]
        # In a user namespace of one user (containers on clusters), all others show as "nobody":
        # nearly always the administrator.
        if all(outside and not first <= nobody < first + n for first, outside, n in mapped):
            users.add(nobody)
    return frozenset(users)


@cache
def _is_own_group(gid: int) -> bool:
    """Whether the group is the user's own: primary, of the same name, with nobody else in it.

    Directories such as LDAP may not list their users, so the name counts too.
    """
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if user.pw_gid != gid or group.gr_name != user.pw_name:
        return False
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == gid} | set(group.gr_mem)
    return others <= {user.pw_name}


def _has_access_list(path: Path) -> bool:
    """Whether the rights of the group are in truth those of a POSIX access list."""
    try:
        return hasattr(os, "getxattr") and bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _warn_once(why: str, instead: str = "") -> None:
    """Warn, once in a process, that compiled kernels are not kept where they should be."""
    global _warned
    if not _warned:
        _warned = True
        then = instead or "compiled again by every process"
        warnings.warn(
            f"{why}; so kernels (numerical code) are {then}; set NUMBA_CACHE_DIR to a private, "
            "writable folder",
            RuntimeWarning,
            stacklevel=4,
        )
