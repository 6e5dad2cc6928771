"""The header of a model file, which says what is in the file and where: writing and checking it."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import re
import reprlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ontarget.errors import InputError

FileBuffer: TypeAlias = mmap.mmap | bytes

VERSION = 2
READABLE = (1, 2)  # what 0.2 wrote, and this version
ALIGNMENT = 8
MAX_DEPTH = 32
MAX_DIGITS = 40
MAX_HEADER_BYTES = 100_000_000  # the safetensors package reads no longer header

# Opening a file may use at most twice its size plus 64 MB of memory: its own bytes, and once more
# its size plus 60 MB for the Python objects. One letter of JSON takes at most 6 bytes (one wide
# letter makes every letter of its string take four). One value takes at most 300 bytes (a short
# key, the value, their places in a dictionary). One array takes at most 400 bytes as a view with
# its name. test_container_memory.py measures these numbers.
_SPARE_MEMORY = 60_000_000
_LETTER, _VALUE, _ARRAY = 6, 300, 400
# If one dimension of an array is 0, the others could be of any size without taking a byte, and a
# reader might allocate that much.
_MAX_EMPTY_EXTENT = 1_000_000

_LENGTH = 8
_FORMAT = b'{"__metadata__":{"format":"ontarget-model","version":"'
_OPENINGS = {b"%d" % one: _FORMAT + b'%d","fingerprint":"' % one for one in READABLE}
_OPENING = _OPENINGS[b"%d" % VERSION]
_METADATA = b'","ontarget":'
_SEAL = slice(_LENGTH + len(_OPENING), _LENGTH + len(_OPENING) + 64)

_DTYPES = {
    code: np.dtype(name)
    for code, name in {
        "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
        "I32": "<i4", "U64": "<u8", "I64": "<i8", "F32": "<f4", "F64": "<f8",
    }.items()
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_NESTED = (dict, list, tuple)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}(?:/[A-Za-z0-9_.-]{1,64}){0,3}")
_DIGITS = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(
    rb',"[A-Za-z0-9_.-]{1,128}/(%b)":\{"dtype":"([A-Z0-9]{1,4})",'
    rb'"shape":\[((?:[0-9]{1,18}(?:,[0-9]{1,18}){0,7})?)\],' % _ARRAY_NAME.pattern.encode()
)


class ArrayPlace(NamedTuple):
    """The type and shape of one array, and which bytes of the file it is in."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


class SectionPlace(NamedTuple):
    """Where the arrays of one section of a model file are, and where they are listed."""

    start: int
    stop: int
    list_start: int
    list_stop: int
    n_arrays: int
    sha256: str


class Header(NamedTuple):
    """The checked header of a model file."""

    user: dict[str, Any]
    sections: dict[str, SectionPlace]
    fingerprint: str
    data_start: int
    size: int


def dtype_code(dtype: np.dtype[Any]) -> str:
    """The code by which a model file names this NumPy type, in any byte order."""
    # Types that a file cannot have are refused.
    code = _CODES.get(dtype.newbyteorder("<"))
    if code is None:
        raise InputError(
            f"a model file can contain arrays of {', '.join(d.name for d in _CODES)}, got {dtype}; "
            "put text into the header"
        )
    return code


def encode_header(
    user: Mapping[str, Any],
    shapes: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
    checksums: Mapping[str, str],
) -> bytes:
    """The bytes at the start of a model file: the header's length, then the header."""
    # ``shapes`` has the dtype code and the shape of every array, by section and array name.
    # ``checksums`` has the SHA-256 of every section. Names must be sorted, because the arrays'
    # bytes are written in this order.
    tensors: list[bytes] = []
    sections: dict[str, Any] = {}
    stop = 0
    for section, arrays in shapes.items():
        _check_name(section, _NAME, "section")
        start, first = stop, len(tensors)
        for array, (code, shape) in arrays.items():
            _check_name(array, _ARRAY_NAME, "array")
            entry, stop = _listed(f"{section}/{array}", code, shape, stop)
            tensors.append(entry)
        sections[section] = {
            "arrays": len(arrays),
            "bytes": stop - start,
            "listed": sum(map(len, tensors[first:])),
            "sha256": checksums[section],
        }
    about = _dumped({"sections": sections, "user": dict(user)})
    body = _OPENING + b"0" * 64 + _METADATA + about + b"}" + b"".join(tensors) + b"}"
    body += b" " * (-len(body) % ALIGNMENT)
    raw = len(body).to_bytes(_LENGTH, "little") + body
    sealed = raw[: _SEAL.start] + _seal(raw, len(raw)).encode() + raw[_SEAL.stop :]
    try:
        header = decode_header(sealed, len(sealed) + stop)
        for section in sections:
            deque(decode_arrays(sealed, header, section), maxlen=0)
    except ValueError as error:
        raise InputError(
            f"a model file with this header could not be read back: {error}"
        ) from error
    return sealed


def decode_header(buffer: FileBuffer, size: int) -> Header:
    """The header of a file of ``size`` bytes; a ValueError says what is wrong with it."""
    end = _header_end(buffer, size)
    fingerprint = buffer[_SEAL].decode("ascii", "replace")
    if fingerprint != _seal(buffer, end):
        raise ValueError("its header is damaged: the checksum differs")
    # Quotes inside the text are escaped, so the first quote after a brace without a backslash ends
    # the text.
    start = _SEAL.stop + len(_METADATA)
    stop = buffer.find(b'}"}', start, end) + 2
    _check_memory(_LETTER * (stop - start), size)
    text = _string(buffer[start:stop].decode("ascii"))
    memory = _LETTER * len(text) + _VALUE * sum(map(text.count, ",[{"))
    _check_memory(memory, size)
    about = _parsed(text)
    _check_keys(about, {"sections", "user"}, "its header")
    if not isinstance(about["user"], dict):
        raise ValueError("its header's user part is not a JSON object")
    _check_plain(about["user"])
    places = _places(about["sections"], stop + 1, end, size)
    _check_memory(memory + _ARRAY * sum(place.n_arrays for place in places.values()), size)
    last = max((place.list_stop for place in places.values()), default=stop + 1)
    if not last < end <= last + ALIGNMENT or buffer[last:end].rstrip(b" ") != b"}":
        raise ValueError("its list of tensors does not have the length that its sections state")
    return Header(about["user"], places, fingerprint, end, size)


def decode_arrays(
    buffer: FileBuffer, header: Header, name: str
) -> Iterator[tuple[str, ArrayPlace]]:
    """The name and the place of each array of one section, in order."""
    place = header.sections[name]
    stop, position, before, n_arrays = place.start, place.list_start, "", 0
    while position < place.list_stop and n_arrays < place.n_arrays:
        entry = _ENTRY.match(buffer, position, place.list_stop)
        if entry is None:
            shown = reprlib.repr(buffer[position : min(position + 200, place.list_stop)])
            raise ValueError(f"section {name!r} lists something that is not an array: {shown}")
        array, code = entry[1].decode(), entry[2].decode()
        shape = tuple(map(int, entry[3].split(b","))) if entry[3] else ()
        where = _array_place(code, shape, stop, header.size)
        expected, end = _listed(f"{name}/{array}", code, shape, stop - header.data_start)
        if array <= before or buffer[position : position + len(expected)] != expected:
            raise ValueError(
                f"section {name!r} should list {expected[1:200].decode()} "
                f"from byte {position + 1} on, but lists something else"
            )
        stop, position = header.data_start + end, position + len(expected)
        before, n_arrays = array, n_arrays + 1
        if stop > place.stop:
            break
        yield array, where
    if (stop, position, n_arrays) != (place.stop, place.list_stop, place.n_arrays):
        raise ValueError(
            f"section {name!r} lists {n_arrays} arrays up to byte {stop}, "
            f"but should have {place.n_arrays} up to byte {place.stop}"
        )


def _listed(name: str, code: str, shape: tuple[int, ...], start: int) -> tuple[bytes, int]:
    """The text that lists one array and its padding in a model file, and where the padding ends."""
    stop = start + _DTYPES[code].itemsize * math.prod(shape)
    text = _tensor(name, code, shape, start, stop)
    if gap := -stop % ALIGNMENT:  # safetensors forbids gaps, so the padding is listed as an array
        section, _, array = name.partition("/")
        text += _tensor(f"{section}/~{array}", "U8", (gap,), stop, stop + gap)
    return text.encode("ascii"), stop + gap


def _tensor(name: str, code: str, shape: tuple[int, ...], start: int, stop: int) -> str:
    lengths = ",".join(map(str, shape))
    return f',"{name}":{{"dtype":"{code}","shape":[{lengths}],"data_offsets":[{start},{stop}]}}'


def _check_name(name: object, pattern: re.Pattern[str], kind: str) -> None:
    if not (isinstance(name, str) and pattern.fullmatch(name)):
        raise InputError(f"{kind} names are made of letters, digits, '_', '.', '-', got {name!r}")


def _seal(buffer: FileBuffer, end: int) -> str:
    """The SHA-256 of all bytes up to `end`, except the bytes that contain this checksum itself."""
    with memoryview(buffer) as view, view[: _SEAL.start] as before, view[_SEAL.stop : end] as after:
        digest = hashlib.sha256(before)
        digest.update(after)
    return digest.hexdigest()


def _header_end(buffer: FileBuffer, size: int) -> int:
    """Where the header of a model file ends; refuses a file that is not an ontarget model file."""
    if size < _LENGTH:
        raise ValueError(f"it has {size} bytes, too few for a model file")
    length = int.from_bytes(buffer[:_LENGTH], "little")
    if not _SEAL.stop < length <= min(size - _LENGTH, MAX_HEADER_BYTES) or length % ALIGNMENT:
        raise ValueError(
            f"its {size:,} bytes are not an ontarget model file, or are only the beginning of one"
        )
    opening = buffer[_LENGTH : _SEAL.start]
    if not opening.startswith(_FORMAT):
        raise ValueError("it is not an ontarget model file, or its first bytes are damaged")
    version = opening[len(_FORMAT) :].partition(b'"')[0]
    if version not in _OPENINGS:
        raise ValueError(
            f"it has version {version.decode('ascii', 'replace')} of the format, but this ontarget "
            f"reads versions {' and '.join(map(str, READABLE))}; install the ontarget that wrote "
            "it, or a newer one"
        )
    metadata = buffer[_SEAL.stop : _SEAL.stop + len(_METADATA)]
    if (opening, metadata) != (_OPENINGS[version], _METADATA):
        raise ValueError("it is not an ontarget model file, or its first bytes are damaged")
    return _LENGTH + length


def _places(listed: Any, list_stop: int, end: int, size: int) -> dict[str, SectionPlace]:
    """Where each section of arrays is in the file; refuses sections with gaps or overlaps."""
    # Together they must cover all bytes after the header exactly.
    if not isinstance(listed, dict) or list(listed) != sorted(listed):
        raise ValueError("its sections are not a sorted JSON object")
    places = {}
    stop = end
    for name, entry in listed.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{reprlib.repr(name)} cannot be the name of a section")
        _check_keys(entry, {"arrays", "bytes", "listed", "sha256"}, f"section {name!r}")
        for key, most in (("bytes", size), ("listed", end), ("arrays", entry["listed"])):
            if type(entry[key]) is not int or not 0 <= entry[key] <= most:
                raise ValueError(f"section {name!r}: impossible {key}: {reprlib.repr(entry[key])}")
        if not isinstance(entry["sha256"], str) or not _DIGITS.fullmatch(entry["sha256"]):
            raise ValueError(f"section {name!r} has no checksum")
        start, stop = stop, stop + entry["bytes"]
        list_start, list_stop = list_stop, list_stop + entry["listed"]
        places[name] = SectionPlace(
            start, stop, list_start, list_stop, entry["arrays"], entry["sha256"]
        )
    if stop != size:
        raise ValueError(
            f"it has {size:,} bytes where its header says {stop:,}: "
            "its end is missing, or something was added"
        )
    return places


def _array_place(code: str, shape: tuple[int, ...], start: int, size: int) -> ArrayPlace:
    """Which bytes of a file of ``size`` bytes an array takes, from ``start`` on."""
    dtype = _DTYPES.get(code)
    if dtype is None:
        raise ValueError(f"an array has an unknown dtype: {code!r}")
    extent = dtype.itemsize * math.prod(length or 1 for length in shape)
    if extent > (max(size, _MAX_EMPTY_EXTENT) if 0 in shape else size):
        raise ValueError(
            f"an array of shape {list(shape)} is larger than the file's {size:,} bytes"
        )
    return ArrayPlace(dtype, shape, start, start + dtype.itemsize * math.prod(shape))


def _check_keys(entry: Any, keys: set[str], where: str) -> None:
    if not isinstance(entry, dict) or entry.keys() != keys:
        raise ValueError(f"{where} needs exactly the keys {', '.join(sorted(keys))}")


def _dumped(about: dict[str, Any]) -> bytes:
    """The value as JSON, written as one JSON string; equal values always give the same text."""
    try:
        _check_plain(about["user"])
        text = json.dumps(about, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"header needs to be plain JSON (str keys, finite numbers, lists and dicts at most "
            f"{MAX_DEPTH} deep): {error}"
        ) from error
    return json.dumps(text).encode("ascii")


def _string(text: str) -> str:
    """The ASCII text that a JSON string contains."""
    value = json.loads(text) if text.startswith('"') else None
    if not isinstance(value, str) or not value.isascii():
        raise ValueError("its metadata is not an ASCII string")
    return value


def _parsed(text: str) -> Any:
    """The value of a JSON text; refuses duplicate keys, NaN and numbers that are out of range."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} deep") from None


def _check_memory(needed: int, size: int) -> None:
    if needed > _SPARE_MEMORY + size:
        raise ValueError(
            f"its header may need {needed:,} bytes of memory, but a file of {size:,} bytes may "
            f"take at most {_SPARE_MEMORY + size:,}; keep large data in arrays"
        )


def _check_plain(value: dict[str, Any]) -> None:
    """Refuse a JSON object with keys that are not str, or nested deeper than `MAX_DEPTH`."""
    # JSON would turn other keys into text, so that they would not read back the same.
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                for key in node:
                    if not isinstance(key, str):
                        raise ValueError(f"the key {key!r:.80} is not a str")
                node = node.values()
            below += [child for child in node if isinstance(child, _NESTED)]
        if not below:
            return
        level = below
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"its JSON has the key {key!r:.80} twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(
            f"its JSON has a whole number of {len(digits)} digits; at most {MAX_DIGITS} are allowed"
        )
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"its JSON has {number:.20}, which is not a finite number")
    return value
