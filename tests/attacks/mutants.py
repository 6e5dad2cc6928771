"""Forged monitors: a whole file changed where it hurts, its checksums right again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ontarget._typing import AnyArray
from ontarget.errors import InputError
from ontarget.modelfile.container import container_bytes
from tests.attacks.monitors import Contents

Sections = dict[str, dict[str, AnyArray]]

JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, 7, -1, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 0.0, 0.5, -1.0,
    1e-9, 1e300, 5e-324, -1e300, "", "sum", "last", "max", "min", "mean", "total:x", "column:x",
    "discounted:0.5", "discounted:1e-300", "own:X()", "quantile_forest", "stacked_forest", "linear",
    "distribution_regression", "boosted_quantiles", "quantile_network", "marginal", "text", [], {},
    [0], [0, 1], [[0, 1, 0, 1]], ["a", "b"], {"a": 1},
)  # fmt: skip
WHOLE = (0, 1, -1, 2, 3, 255, 65_535, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
REAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-9,
    5e-324,
    1e300,
    -1e300,
    1.7e308,
    np.inf,
    -np.inf,
    np.nan,
)
TYPES = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


def mutant(contents: dict[str, Contents], number: int) -> tuple[str, bytes]:
    """The kind and the bytes of one forged file; the same number gives the same one."""
    rng = np.random.default_rng([41, number])
    names = sorted(contents)
    name = names[number % len(names)]
    while True:
        header, sections = copy.deepcopy(contents[name])
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            part = rng.random()
            if part < 0.3:
                forge_json(rng, header)
            elif part < 0.9:
                forge_array(rng, sections)
            else:
                forge_section(rng, sections, contents)
        try:
            return name, container_bytes(header, sections)
        except InputError:
            continue  # no container can hold it


def forge_json(rng: np.random.Generator, header: dict[str, Any]) -> None:
    """Change one value somewhere in the header."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(header)
    # Half of the damage goes to what stands at the top, which sizes everything.
    if not header:
        return  # an earlier change left nothing
    node, key = _pick(rng, [(header, key) for key in header] if rng.random() < 0.5 else places)
    value, how = node[key], rng.random()
    if how < 0.5:
        node[key] = copy.deepcopy(JSON_VALUES[int(rng.integers(len(JSON_VALUES)))])
    elif how < 0.7 and type(value) in (int, float):
        node[key] = value + int(rng.choice([-1, 1]))
    elif how < 0.8 and isinstance(value, list) and value:
        node[key] = [*value, value[int(rng.integers(len(value)))]]
    elif how < 0.9 and isinstance(value, list) and value:
        node[key] = value[:-1]
    elif isinstance(node, dict):
        del node[key]
    else:
        node[key] = node[int(rng.integers(len(node)))]


def forge_array(rng: np.random.Generator, sections: Sections) -> None:
    """Change one array: some of its values, its type, its shape, or whose it is."""
    # Half of the damage goes to any section alike, half to any array: a model has very many.
    every = [(section, name) for section in sorted(sections) for name in sorted(sections[section])]
    section = _pick(rng, [one for one in sorted(sections) if sections[one]])
    name = _pick(rng, sorted(sections[section]))
    if rng.random() < 0.5:
        section, name = _pick(rng, every)
    arrays = sections[section]
    how = rng.random()
    if how < 0.5:
        arrays[name] = _values_changed(rng, arrays[name])
    elif how < 0.6:
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = arrays[name].astype(_pick(rng, TYPES))
    elif how < 0.85:
        arrays[name] = _reshaped(rng, arrays[name])
    elif how < 0.9:
        del arrays[name]
    else:
        other = _pick(rng, sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]


def forge_section(
    rng: np.random.Generator, sections: Sections, contents: dict[str, Contents]
) -> None:
    """Drop a section, swap two, or take one of another monitor."""
    one, other = _pick(rng, sorted(sections)), _pick(rng, sorted(sections))
    how = rng.random()
    if how < 0.2:
        del sections[one]
    elif how < 0.5:
        sections[one], sections[other] = sections[other], sections[one]
    else:
        theirs = contents[_pick(rng, sorted(contents))][1]
        sections[one] = dict(theirs[one if one in theirs else _pick(rng, sorted(theirs))])


def _values_changed(rng: np.random.Generator, array: AnyArray) -> AnyArray:
    if array.size == 0:
        return np.zeros(int(rng.integers(1, 4)), dtype=array.dtype)
    changed = array.copy()
    flat = changed.reshape(-1)
    kind = flat.dtype.kind
    special: tuple[Any, ...] = REAL if kind == "f" else WHOLE

    def put() -> None:
        for place in rng.integers(flat.size, size=int(rng.integers(1, 4))).tolist():
            flat[place] = _fitting(_pick(rng, special), flat.dtype)

    def nudge() -> None:
        place = int(rng.integers(flat.size))
        flat[place] = ~flat[place] if kind == "b" else flat[place] + flat.dtype.type(1)

    def flip_bit() -> None:
        if kind != "b":  # the container refuses a bool that is neither 0 nor 1
            raw = flat.view(np.uint8)
            raw[int(rng.integers(raw.size))] ^= np.uint8(1 << int(rng.integers(8)))

    def swap() -> None:
        a, b = rng.integers(flat.size, size=2)
        flat[[a, b]] = flat[[b, a]]

    def fill() -> None:
        flat[:] = _fitting(_pick(rng, special), flat.dtype)

    def reverse() -> None:
        flat[:] = flat[::-1].copy()

    with np.errstate(over="ignore"):  # a large number is infinite as float32
        _pick(rng, (put, put, nudge, flip_bit, flip_bit, swap, fill, reverse))()
    return changed


def _reshaped(rng: np.random.Generator, array: AnyArray) -> AnyArray:
    flat = array.reshape(-1)
    shapes: tuple[Callable[[], AnyArray], ...] = (
        lambda: flat[:-1],
        lambda: flat[: flat.size // 2],
        lambda: flat[:0],
        lambda: np.append(flat, flat[-1:]),
        lambda: np.tile(flat, int(rng.integers(2, 40))),
        lambda: flat[:, None],
        lambda: flat[None, :],
        lambda: flat[:1].reshape(()) if flat.size else flat,
        lambda: array.T,
        lambda: np.concatenate([array, array]) if array.ndim else array,
    )
    return _pick(rng, shapes)()


def _fitting(value: Any, dtype: np.dtype[Any]) -> Any:
    """The value in this type; whole numbers wrap around."""
    if dtype.kind == "f":
        return value
    if dtype.kind == "b":
        return bool(value)
    return np.array([value % 2**64], dtype=np.uint64).astype(dtype)[0]


def _pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]
