r"""The header of a model file: what is in it and where, written and read back with suspicion.

A model file is a safetensors file: eight bytes that hold the header's length, the header as JSON
padded with spaces, then the arrays' bytes without gaps::

    {"__metadata__": {"ontarget": "<JSON text>"},
     "block-0000/nodes":  {"dtype": "U16", "shape": [5], "data_offsets": [0, 10]},
     "block-0000/~nodes": {"dtype": "U8",  "shape": [6], "data_offsets": [10, 16]}, ...}

    <JSON text>: {"checksum": "...", "format": "ontarget-model",
                  "sections": {"block-0000": {"arrays": 1, "bytes": 16, "sha256": "..."}},
                  "user": {...}, "version": 1}

Sections follow each other in the order of their names, as do the arrays in each, so that a section
is one run of bytes with one checksum. Each array starts at a multiple of 8 bytes; where the one
before ends elsewhere, a tensor ``section/~array`` of zeros fills up, since the format forbids gaps.

``checksum`` is the SHA-256 of the header and its length, without those 64 digits themselves. They
stand at a known place, so that nothing is parsed of a header that was damaged. The list of arrays
of a section is parsed when the section is asked for: opening stays fast, and small in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import re
import reprlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ontarget.errors import InputError
from ontarget.modelfile._checked_json import (
    MAX_DEPTH,
    check_plain,
    dump_json,
    json_memory,
    parse_json,
    parse_json_string,
)

__all__ = [
    "ALIGNMENT",
    "ArrayPlace",
    "FileBuffer",
    "Header",
    "SectionPlace",
    "decode_arrays",
    "decode_header",
    "dtype_code",
    "encode_header",
]

FileBuffer: TypeAlias = mmap.mmap | bytes

FORMAT = "ontarget-model"
VERSION = 1
ALIGNMENT = 8

# A file may take twice its size and 16 MB of memory. Its own bytes are once its size; the other
# half and this much are for what is parsed and for the arrays as Python objects. A header is there
# three times for a moment, as bytes in the file, as bytes and as text: thence its limit.
MAX_HEADER_BYTES = 12_000_000
_SPARE_MEMORY = 12_000_000
_ARRAY_MEMORY = 450

_METADATA = b'{"__metadata__":{"ontarget":'
_OPENING = _METADATA + rb'"{\"checksum\":\"'
_RECOGNISED = rb"\",\"format\":\"ontarget-model\","
_LENGTH = 8
_SEAL = slice(_LENGTH + len(_OPENING), _LENGTH + len(_OPENING) + 64)

_DTYPES = {
    code: np.dtype(name)
    for code, name in {
        "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
        "I32": "<i4", "U64": "<u8", "I64": "<i8", "F32": "<f4", "F64": "<f8",
    }.items()
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_PADDING = "~"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,3}")
_DIGITS = re.compile(r"[0-9a-f]{64}")
_MAX_DIMENSIONS = 8


class ArrayPlace(NamedTuple):
    """The type and shape of one array and the bytes of the file that it takes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


class SectionPlace(NamedTuple):
    """Where a section's arrays and the list of them stand in the file, and their checksum."""

    start: int
    stop: int
    n_arrays: int
    sha256: str
    list_start: int
    list_stop: int


class Header(NamedTuple):
    """A checked header: what the user put in, where each section is, and its own checksum."""

    user: dict[str, Any]
    sections: dict[str, SectionPlace]
    checksum: str
    data_start: int
    spare_memory: int


def dtype_code(dtype: np.dtype[Any]) -> str:
    """The format's code of a dtype in any byte order, or an InputError that lists all of them."""
    code = _CODES.get(dtype.newbyteorder("<"))
    if code is None:
        raise InputError(
            f"a model file holds arrays of {', '.join(d.name for d in _CODES)}, got {dtype}; "
            "text belongs into the header"
        )
    return code


def encode_header(
    user: Mapping[str, Any],
    shapes: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
    checksums: Mapping[str, str],
) -> bytes:
    """The length and the header, from each array's dtype code and shape and each section's SHA-256.

    Names must come sorted, as the arrays' bytes do.
    """
    tensors, sections, data_bytes = _layout(shapes, checksums)
    about = {
        "checksum": "0" * 64,
        "format": FORMAT,
        "sections": sections,
        "user": dict(user),
        "version": VERSION,
    }
    try:
        check_plain(about["user"])
        metadata = {"ontarget": dump_json(about)}
    except (TypeError, ValueError) as error:
        raise InputError(
            f"header needs to be plain JSON (str keys, finite numbers, lists and dicts at most "
            f"{MAX_DEPTH} deep): {error}"
        ) from error
    text = json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":"))
    return _sealed(text, data_bytes)


def decode_header(buffer: FileBuffer, size: int | None = None) -> Header:
    """The header at the start of a file, or a ValueError that says what is wrong with it.

    The file's `size` is that of the buffer, unless the buffer holds the header alone.
    """
    size = len(buffer) if size is None else size
    end = _header_end(buffer, size)
    recognised = buffer[_SEAL.stop : _SEAL.stop + len(_RECOGNISED)]
    if buffer[_LENGTH : _SEAL.start] != _OPENING or recognised != _RECOGNISED:
        raise ValueError("it is no ontarget model file, or its first bytes are damaged")
    checksum = buffer[_SEAL].decode("ascii", "replace")
    if checksum != _seal(buffer, end):
        raise ValueError("its header is damaged: the checksum differs")
    about, table, memory = _about(buffer, end, size + _SPARE_MEMORY)
    if about.get("version") != VERSION or type(about["version"]) is not int:
        raise ValueError(
            f"it has version {_shown(about.get('version'))} of the format and this ontarget reads "
            f"{VERSION}; update ontarget"
        )
    _check_keys(about, {"checksum", "format", "sections", "user", "version"}, "its header")
    if not isinstance(about["user"], dict):
        raise ValueError("its header's user part is no object")
    check_plain(about["user"])
    lists = _lists(buffer, about["sections"], table, end)
    places = _places(about["sections"], lists, end, size)
    memory -= _ARRAY_MEMORY * sum(place.n_arrays for place in places.values())
    if memory < 0:
        raise ValueError(f"it has too many sections or arrays for its {size:,} bytes")
    return Header(about["user"], places, checksum, end, memory)


def decode_arrays(buffer: FileBuffer, header: Header, name: str) -> dict[str, ArrayPlace]:
    """The arrays of one section, or a ValueError that says what is wrong with the list of them."""
    place = header.sections[name]
    text = f"{{{buffer[place.list_start : place.list_stop].decode('ascii')}}}"
    tensors = parse_json(text, header.spare_memory)
    found: dict[str, ArrayPlace] = {}
    stop = place.start
    for tensor, entry in tensors.items():
        section, _, array = tensor.partition("/")
        if section != name:
            raise ValueError(f"tensor {_shown(tensor)} stands in section {name!r}")
        try:
            where = _array_place(entry, header.data_start, stop)
        except ValueError as error:
            raise ValueError(f"tensor {_shown(tensor)} {error}") from None
        stop = where.stop
        if array.startswith(_PADDING) and where.dtype == np.uint8 and len(where.shape) == 1:
            continue
        if where.start % ALIGNMENT or not _ARRAY_NAME.fullmatch(array):
            raise ValueError(f"tensor {_shown(tensor)} starts unaligned or has a bad name")
        found[array] = where
    if stop != place.stop or len(found) != place.n_arrays:
        raise ValueError(
            f"section {name!r} lists {len(found)} arrays up to byte {stop}, "
            f"but should have {place.n_arrays} up to byte {place.stop}"
        )
    return found


def _layout(
    shapes: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]], checksums: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The entries of tensors and of sections, and the length of the data."""
    tensors: dict[str, Any] = {}
    sections: dict[str, Any] = {}
    stop = 0
    for section, arrays in shapes.items():
        _check_name(section, _NAME, "section")
        start = stop
        for array, (code, shape) in arrays.items():
            _check_name(array, _ARRAY_NAME, "array")
            size = math.prod(shape) * _DTYPES[code].itemsize
            tensors[f"{section}/{array}"] = _tensor(code, shape, stop, size)
            stop += size
            if gap := -stop % ALIGNMENT:
                tensors[f"{section}/{_PADDING}{array}"] = _tensor("U8", (gap,), stop, gap)
                stop += gap
        sections[section] = {
            "arrays": len(arrays),
            "bytes": stop - start,
            "sha256": checksums[section],
        }
    return tensors, sections, stop


def _tensor(code: str, shape: tuple[int, ...], start: int, size: int) -> dict[str, Any]:
    return {"dtype": code, "shape": list(shape), "data_offsets": [start, start + size]}


def _check_name(name: object, pattern: re.Pattern[str], kind: str) -> None:
    if not (isinstance(name, str) and pattern.fullmatch(name)):
        raise InputError(f"{kind} names are made of letters, digits, '_', '.', '-', got {name!r}")


def _sealed(text: str, data_bytes: int) -> bytes:
    """The header's bytes after their length, padded and with their checksum in place."""
    body = text.encode("ascii")
    body += b" " * (-len(body) % ALIGNMENT)
    if len(body) > MAX_HEADER_BYTES:
        raise InputError(
            f"header and names of arrays take {len(body):,} bytes as JSON, "
            f"at most {MAX_HEADER_BYTES:,} are allowed; keep large data in arrays"
        )
    raw = len(body).to_bytes(_LENGTH, "little") + body
    sealed = raw[: _SEAL.start] + _seal(raw, len(raw)).encode() + raw[_SEAL.stop :]
    try:
        # What the reader would refuse, for instance as too large in memory, is never written.
        header = decode_header(sealed, len(sealed) + data_bytes)
        for name in header.sections:
            decode_arrays(sealed, header, name)
    except ValueError as error:
        raise InputError(f"header could not be read back: {error}") from error
    return sealed


def _seal(buffer: FileBuffer, end: int) -> str:
    """The SHA-256 of all bytes up to `end` but those that hold it."""
    with memoryview(buffer) as view, view[: _SEAL.start] as before, view[_SEAL.stop : end] as after:
        digest = hashlib.sha256(before)
        digest.update(after)
    return digest.hexdigest()


def _header_end(buffer: FileBuffer, size: int) -> int:
    """The first byte after the header."""
    if size < _LENGTH:
        raise ValueError(f"it has {size} bytes, too few for a model file")
    end = _LENGTH + int.from_bytes(buffer[:_LENGTH], "little")
    if not _SEAL.stop < end <= min(size, _LENGTH + MAX_HEADER_BYTES):
        raise ValueError(
            f"its {size:,} bytes are no ontarget model file, or only the beginning of one"
        )
    return end


def _about(buffer: FileBuffer, end: int, memory: int) -> tuple[dict[str, Any], int, int]:
    """What the metadata says, where the list of tensors begins, and the memory that is left."""
    # A JSON text in a JSON string: quotes inside are escaped, so the first bare one ends it.
    start = _LENGTH + len(_METADATA)
    stop = buffer.find(b'}"}', start, end) + 2
    inner = parse_json_string(buffer[start:stop].decode("ascii"), memory)
    about = parse_json(inner, memory)
    if not isinstance(about, dict):
        raise ValueError("its metadata is no object")
    return about, stop + 1, memory - json_memory(inner)


def _places(
    listed: dict[str, Any], lists: dict[str, tuple[int, int]], data_start: int, size: int
) -> dict[str, SectionPlace]:
    """Where each section is; together they cover the data exactly."""
    places = {}
    stop = data_start
    for name, entry in listed.items():
        start, stop = stop, stop + entry["bytes"]
        places[name] = SectionPlace(start, stop, entry["arrays"], entry["sha256"], *lists[name])
    if stop != size:
        raise ValueError(
            f"it has {size:,} bytes where its header says {stop:,}: "
            "it is cut off, or something was added"
        )
    return places


def _check_section(name: str, entry: Any) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{_shown(name)} is no name of a section")
    _check_keys(entry, {"arrays", "bytes", "sha256"}, f"section {name!r}")
    for key in ("arrays", "bytes"):
        if not _is_count(entry[key]):
            raise ValueError(f"section {name!r}: {key} is no count: {_shown(entry[key])}")
    if not isinstance(entry["sha256"], str) or not _DIGITS.fullmatch(entry["sha256"]):
        raise ValueError(f"section {name!r} has no checksum")
    if entry["arrays"] == 0 and entry["bytes"]:
        raise ValueError(f"section {name!r} has bytes but no arrays")


def _lists(buffer: FileBuffer, listed: Any, table: int, end: int) -> dict[str, tuple[int, int]]:
    """Where the tensors of each section are listed; together they cover the list exactly."""
    if not isinstance(listed, dict) or list(listed) != sorted(listed):
        raise ValueError("its sections are no sorted object")
    for name, entry in listed.items():
        _check_section(name, entry)
    tail = max(table, end - ALIGNMENT)
    table_end = tail + len(buffer[tail:end].rstrip(b" ")) - 1
    if buffer[table_end : table_end + 1] != b"}":
        raise ValueError("its list of tensors does not end")
    full = [name for name, entry in listed.items() if entry["arrays"]]
    starts = []
    position = table
    for name in full:
        # A name holds neither comma nor quote, so this finds where its first tensor begins.
        position = buffer.find(f',"{name}/'.encode(), position, table_end)
        if position < 0:
            raise ValueError(f"the tensors of section {name!r} are missing")
        starts.append(position)
        position += 1
    edges = [*starts, table_end]
    if edges[0] != table:
        raise ValueError("it lists tensors that belong to no section")
    found = dict.fromkeys(listed, (table, table))
    for name, (start, stop) in zip(full, pairwise(edges), strict=True):
        found[name] = (start + 1, stop)  # without the comma
    return found


def _check_keys(entry: Any, keys: set[str], where: str) -> None:
    if not isinstance(entry, dict) or entry.keys() != keys:
        raise ValueError(f"{where} needs exactly the keys {', '.join(sorted(keys))}")


def _array_place(entry: Any, data: int, expected: int) -> ArrayPlace:
    """The place that an entry of the list describes; it must start at the byte `expected`."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError("needs exactly dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise ValueError(f"has an unknown dtype: {_shown(code)}")
    if not _are_counts(shape) or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"has an impossible shape: {_shown(shape)}")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"has no two data_offsets: {_shown(offsets)}")
    dtype = _DTYPES[code]
    size = dtype.itemsize
    extent = dtype.itemsize  # NumPy refuses shapes whose non-zero part is beyond memory
    for length in shape:
        size *= length
        extent *= length or 1
    start, stop = data + offsets[0], data + offsets[1]
    if extent >= 2**63 or stop - start != size or start != expected:
        raise ValueError(
            f"of shape {_shown(shape)} should take {size} bytes from {expected - data}, "
            f"but its data_offsets are {_shown(offsets)}"
        )
    return ArrayPlace(dtype, tuple(shape), start, stop)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_count, values))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _shown(value: object) -> str:
    """The start of a value; one that is long or deep would fill the message, or break repr."""
    return reprlib.repr(value)
