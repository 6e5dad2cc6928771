"""The model file: named sections of arrays and a JSON header, checked and memory-mapped."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from ontarget._threads import run_blocks
from ontarget._typing import AnyArray
from ontarget._whole_file import write_whole
from ontarget.errors import InputError, ModelFileError
from ontarget.modelfile._header import (
    ALIGNMENT,
    FileBuffer,
    decode_arrays,
    decode_header,
    dtype_code,
    encode_header,
)

# Files up to this size are copied rather than mapped, unless the caller says otherwise.
_SMALL = 64_000_000


def write_container(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, AnyArray]],
) -> None:
    """Write a header and sections of arrays to a file, completely or not at all.

    Parameters
    ----------
    path
        The file; an existing file is replaced in a single step. Until then the bytes are in
        ``.ontarget-<16 hex digits>.part`` in the same folder. Only a process that is killed leaves
        such a file behind; you may delete it.
    header
        Plain JSON: str keys, finite numbers, nested at most 32 deep.
    sections
        Arrays of bool, integers, float32 or float64 by section and name, of any shape. Names
        consist of letters, digits, ``_``, ``.`` and ``-``. The name of an array may have up to four
        such parts, separated by ``/``.

    Raises
    ------
    InputError
        If the header is not plain JSON, or the format does not allow a name or an array.
    ModelFileError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from ontarget.modelfile.container import Container, write_container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.ontarget"
    ...     write_container(path, {"horizon": 50}, {"ranks": {"step-0": np.array([0.25, 0.75])}})
    ...     Container.open(path).section("ranks")["step-0"]
    array([0.25, 0.75])
    """
    path = Path(path)
    chunks = _chunks(header, sections)
    try:
        write_whole(path, chunks)
    except InputError as error:
        raise ModelFileError(*error.parts) from error
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {_reason(error, 'write')}") from error


def container_bytes(
    header: Mapping[str, Any], sections: Mapping[str, Mapping[str, AnyArray]]
) -> bytes:
    """The bytes that `write_container` would write.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget.modelfile.container import Container, container_bytes
    >>> data = container_bytes({"horizon": 50}, {"ranks": {"step-0": np.array([0.25, 0.75])}})
    >>> Container.from_bytes(data).header["horizon"]
    50
    """
    return b"".join(_chunks(header, sections))


class Container:
    """A model file that is open: its header, and its arrays by section.

    Open it with `Container.open`, which checks the header. A section's checksum is checked when the
    section is first used; `verify` checks all sections. If anything is wrong, the error is a
    `ModelFileError`. Nothing in a file is executed. Even a hostile file makes its reader use no
    more memory than twice the file's size and 64 MB.

    A container can be pickled, which includes the file's bytes, and copied, which shares them.

    Attributes
    ----------
    name
        The path of the file.
    header
        The header that was passed to `write_container`, after it went through JSON.
    sections
        The names of the sections, sorted.
    fingerprint
        A SHA-256. Two files have the same only if all their bytes are the same.

    Notes
    -----
    The file is mapped into memory, and the arrays are views of this mapping. So processes that open
    the same file share one copy in memory, also after a fork. A view keeps the mapping alive after
    the container is gone. The file may be replaced (as `write_container` does) or deleted
    meanwhile; this container continues to read the old file. The file must not be changed in place:
    the arrays would change unnoticed, and if the file is truncated, the system may kill the process
    (SIGBUS). If others might do that, open the file with ``copy=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget.modelfile.container import Container, container_bytes
    >>> data = container_bytes({"horizon": 1}, {"ranks": {"step-0": np.array([0.25, 0.75])}})
    >>> found = Container.from_bytes(data, name="small.ontarget")
    >>> found
    Container(name='small.ontarget', sections=1, size=416)
    >>> found.section("ranks")["step-0"].flags.writeable
    False
    >>> Container.from_bytes(data[:-1], name="cut.ontarget")
    Traceback (most recent call last):
    ...
    ontarget.errors.ModelFileError: cut.ontarget cannot be used: it has 415 bytes where its header \
says 416: its end is missing, or something was added; restore it from a copy, or fit the monitor \
again
    """

    def __init__(self, buffer: FileBuffer, *, name: str) -> None:
        with _damage(name):
            self._header = decode_header(buffer, len(buffer))
        self.name = name
        self.header: Mapping[str, Any] = MappingProxyType(self._header.user)
        self.sections: tuple[str, ...] = tuple(self._header.sections)
        self.fingerprint: str = self._header.fingerprint
        self._buffer = buffer
        # This array and all views of it keep the buffer alive.
        self._bytes = np.frombuffer(buffer, np.uint8)
        self._arrays: dict[str, dict[str, AnyArray]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, copy: bool | None = False) -> Self:
        """Open a model file; only its header is read and checked at once."""
        name = os.fspath(path)
        try:
            buffer = _read(Path(path), copy=copy)
        except (OSError, ValueError) as error:
            reason = _reason(error, "read") if isinstance(error, OSError) else str(error)
            raise ModelFileError(f"{name} cannot be read: {reason}") from error
        return cls(buffer, name=name)

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "model") -> Self:
        """An open model file, made from the bytes that `container_bytes` returned."""
        return cls(data, name=name)

    def section(self, name: str) -> dict[str, AnyArray]:
        """The arrays of a section by name, read-only; the section is checked on first use."""
        arrays = self._arrays.get(name)
        if arrays is None:
            if name not in self._header.sections:
                raise ModelFileError(
                    f"{self.name} has no section {name!r}; it has {', '.join(self.sections[:8])}"
                    f"{', …' if len(self.sections) > 8 else ''}"
                )
            with _damage(self.name):
                arrays = self._arrays[name] = self._checked(name)
        return dict(arrays)

    def release(self, name: str) -> None:
        """Give the memory of a section back to the system; the section can still be read again."""
        # This helps because checking a section reads all of it into memory, while later calls often
        # need only a small part.
        if isinstance(self._buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            place, page = self._header.sections[name], mmap.PAGESIZE
            start = -(-place.start // page) * page
            stop = place.stop // page * page
            if stop > start:
                self._buffer.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def verify(self) -> None:
        """Check every section of the file that was not checked yet, using all threads."""
        # Do not call it inside a task of `run_blocks` (which runs tasks in parallel), because both
        # use the same threads.

        def check(start: int, stop: int) -> None:
            for name in self.sections[start:stop]:
                self.section(name)

        run_blocks(check, len(self.sections), block=1)

    def __repr__(self) -> str:
        return (
            f"Container(name={self.name!r}, sections={len(self.sections)}, "
            f"size={len(self._buffer)})"
        )

    def __copy__(self) -> Self:
        found = type(self)(self._buffer, name=self.name)
        found._arrays.update(self._arrays)
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()  # the bytes cannot be changed, so both may have them

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return partial(type(self).from_bytes, name=self.name), (bytes(self._buffer),)

    def _checked(self, name: str) -> dict[str, AnyArray]:
        """The arrays of a section, after checking its checksum."""
        place = self._header.sections[name]
        if hashlib.sha256(self._bytes[place.start : place.stop].data).hexdigest() != place.sha256:
            raise ValueError(f"section {name!r} is damaged: the checksum differs")
        found = {}
        for array, where in decode_arrays(self._buffer, self._header, name):
            raw = self._bytes[where.start : where.stop]
            # In NumPy, a bool byte other than 0 and 1 gives results that contradict each other.
            if where.dtype == np.bool_ and raw.size and raw.max() > 1:
                raise ValueError(f"array {name}/{array} has a bool that is neither 0 nor 1")
            found[array] = raw.view(where.dtype).reshape(where.shape)
        return found


def _chunks(
    header: Mapping[str, Any], sections: Mapping[str, Mapping[str, AnyArray]]
) -> Iterator[bytes | memoryview]:
    """The bytes of a model file in chunks; names and arrays are checked before the first chunk."""
    stored = {
        section: {name: _stored(section, name, arrays[name]) for name in sorted(arrays)}
        for section, arrays in sorted(sections.items())
    }
    shapes = {
        section: {name: (dtype_code(a.dtype), a.shape) for name, a in arrays.items()}
        for section, arrays in stored.items()
    }
    checksums = {}
    for section, arrays in stored.items():
        digest = hashlib.sha256()
        for piece in _pieces(arrays):
            digest.update(piece)
        checksums[section] = digest.hexdigest()
    start = encode_header(header, shapes, checksums)
    return chain([start], *map(_pieces, stored.values()))


def _stored(section: str, name: str, array: AnyArray) -> AnyArray:
    """The array in the form in which a file stores it: in C order, little-endian."""
    found = np.asarray(array)
    try:
        dtype_code(found.dtype)
    except InputError as error:
        raise InputError(f"array {section}/{name}: {error}") from None
    return np.asarray(found, found.dtype.newbyteorder("<"), order="C")


def _pieces(arrays: Mapping[str, AnyArray]) -> Iterator[bytes | memoryview]:
    """The bytes of a section: each array, padded with zeros to a multiple of 8."""
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % ALIGNMENT)


def _read(path: Path, *, copy: bool | None) -> FileBuffer:
    # Check the kind of file before opening it, because opening a pipe would wait for a writer.
    if not stat.S_ISREG((found := path.stat()).st_mode):
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise ValueError("it is not a regular file; copy its contents to a regular file first")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ValueError("it is empty; restore it from a copy, or fit the monitor again")
        copied = size <= _SMALL if copy is None else copy
        return file.read() if copied else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _reason(error: OSError, verb: str) -> str:
    """Why the operating system refused to read or write, in words, and what to do about it."""
    match error:
        case FileNotFoundError() if verb == "read":
            return "there is no such file; check the path, or fit a monitor and save it there"
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such folder; check the path, or create the folder"
        case IsADirectoryError():
            return "it is a folder; name a file in it"
        case PermissionError():
            return f"this user may not {verb} there; change the permissions or the path"
        case _:
            return error.strerror or str(error)


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """A context that turns errors in a file's contents into a `ModelFileError`."""
    try:
        yield
    except ValueError as error:
        raise ModelFileError(
            f"{name} cannot be used: {error}; restore it from a copy, or fit the monitor again"
        ) from error
