"""Decorators that compile kernels with Numba on first use, release the GIL and cache on disk.

A *kernel* is a numerical function that is compiled to machine code. No kernel uses the parallel
threads of Numba, because a forked child process that calls such a kernel is killed. Instead,
`ontarget._threads` runs kernels in one thread pool.

By itself, Numba compiles a cached kernel again only if the kernel's own file has changed, although
its machine code also contains the kernels that it calls. Here the name of the cache folder contains
a digest of all kernel sources of the package. So a change in any of them leads to a new
compilation, and cache files of older sources are never opened: they may refer to classes that no
longer exist.

Cache files are pickles, which run code when they are opened. So kernels are kept in a folder that
nobody but this user can enter, below folders that nobody else can change. The administrator, and
the owner of the installed package, can change the program itself, so they do not count as others.
What others can do is read from a file's mode. POSIX access lists show there as rights of the group;
those of NFSv4 do not show. On Windows, a user's folders are private by default, and nothing is
checked.
"""

from __future__ import annotations

import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from hashlib import blake2b
from inspect import getfile
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from threading import Lock
from typing import Any, TypeVar

import numba
from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., object])

# Every file with a kernel holds this line, this file included.
_MARK = b"._kernel import"

_CHECKED = hasattr(os, "getuid")
_OPEN = "other users can write to the cache folder of compiled kernels, or to one above it"
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_config: Any = numba.config
_turn = Lock()
_warned = False


def kernel(function: F) -> F:
    """The function, compiled on its first call; cached on disk if a private folder allows it."""
    folder = _cache_folder(_config.CACHE_DIR)
    if folder is None or not Path(getfile(function)).exists():
        _warn_once("no folder for the cache of compiled kernels is writable by this user alone")
        return numba.njit(function, **_OPTIONS)  # type: ignore[no-any-return]
    with _kept_in(folder):
        return numba.njit(function, cache=True, **_OPTIONS)  # type: ignore[no-any-return]


def inner_kernel(function: F) -> F:
    """The function, which kernels call as compiled code, and which allocates no memory.

    It becomes a part of every kernel that calls it. In Python it stays the function that it is, so
    no code that unpacks Python arguments is compiled, which often takes longer than to compile the
    kernel. The function must not allocate arrays: a function that allocates also counts references
    to arrays, and these atomic instructions make threads wait for each other, several microseconds
    per row. So pass arrays for it to work in, and let it return numbers.
    """
    return register_jitable(**_OPTIONS, _nrt=False)(function)


def room_kernel(function: F) -> F:
    """Like `inner_kernel`, for a function that allocates the work arrays that inner kernels use."""
    return register_jitable(**_OPTIONS)(function)


def none_compiled() -> bool:
    """Whether no compiled kernel is kept yet, so that a first call takes long."""
    folder = _cache_folder(_config.CACHE_DIR)
    kept = folder is not None and next(folder.rglob("*.nbi"), None) is not None
    return not (kept or _config.DISABLE_JIT)


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """A context in which Numba caches the functions that it decorates in this folder."""
    # Numba chooses the folder of a function when it decorates it, so other people's kernels stay
    # where they are. A user's own way to choose folders (NUMBA_CACHE_LOCATOR_CLASSES, which older
    # versions lack) is not followed, because nothing would check its folder.
    settings = {"CACHE_DIR": str(folder), "CACHE_LOCATOR_CLASSES": ""}
    with _turn:
        before = {name: getattr(_config, name, "") for name in settings}
        vars(_config).update(settings)
        try:
            yield
        finally:
            vars(_config).update(before)


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


@cache
def _cache_folder(given: str) -> Path | None:
    """The folder for the kernels of these sources; None if no private one is writable."""
    # It is in NUMBA_CACHE_DIR if that is set, otherwise beside the sources. Where that folder
    # cannot be written, or others can change it, a folder of the user's own takes its place.
    # Folders of older sources of the same installation are deleted.
    package = Path(__file__).parent
    installation = blake2b(os.fsencode(package), digest_size=4).hexdigest()
    stem = f"{package.name}-{installation}-"
    first = Path(given).absolute() if given else package / "__pycache__"
    wrong = ""
    for root, mode in ((first, 0o755), *((own, 0o700) for own in _own_folders())):
        folder = root / f"{stem}{_sources_digest()}"
        trouble = _trouble(root, mode) or _trouble(folder, 0o700, sealed=True)
        wrong = wrong or trouble
        if trouble:
            continue
        if given and root != first:
            _warn_once(f"NUMBA_CACHE_DIR {given} is not used: {wrong}", f"kept in {root}")
        for other in root.glob(f"{escape(stem)}*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
        return folder
    return None


def _own_folders() -> Iterator[Path]:
    """Folders for this user alone: in the user's cache, and in the system's temporary folder."""
    with suppress(RuntimeError):  # the user has no home
        user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        if user.is_absolute():
            yield user / "ontarget"
    if _CHECKED:
        yield Path(gettempdir(), f"ontarget-{os.getuid()}")


def _trouble(folder: Path, mode: int, *, sealed: bool = False) -> str:
    """Why kernels cannot be kept in the folder, which is made if need be; empty if they can."""
    try:
        if sealed and folder.is_dir() and not _is_sealed(folder):
            shutil.rmtree(folder)
        for one in (*reversed(folder.parents), folder):
            if not one.is_dir():
                one.mkdir(mode, exist_ok=True)
        TemporaryFile(dir=folder).close()
        return "" if _is_private_folder(folder) else _OPEN
    except OSError as error:
        return error.strerror or "it cannot be written"


def _is_sealed(folder: Path) -> bool:
    """Whether only its owner can enter the folder, and only trusted users own what is in it."""
    if not _CHECKED:
        return True
    closed = not folder.is_symlink() and not folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return closed and all(one.lstat().st_uid in _trusted() for one in folder.rglob("*"))


def _is_private_folder(folder: Path) -> bool:
    """Whether no other user can put a file into the folder, or put another folder in its place."""
    # Every folder above it counts, and every symbolic link on the way. In a sticky folder, such as
    # /tmp, others cannot rename what is not theirs, so it may be above this one.
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
    """Whether the group is the user's own: primary, of the same name, with nobody else in it."""
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
