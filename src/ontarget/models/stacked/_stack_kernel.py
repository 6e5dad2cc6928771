"""Asks all experts of a stacked forest, whose arrays are packed as addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ontarget._arrays import read_only
from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray
from ontarget.models._ranked_kernel import Columns
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._batch_kernel import limits_of_rows
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.guided._boosting_kernel import BoostedGuide
from ontarget.models.guided._guides_kernel import (
    Guides,
    LinearGuide,
    append_guides_of_rows,
    count_guides,
)
from ontarget.models.kernels import blend
from ontarget.models.regression._law_kernel import Regression
from ontarget.models.regression._law_kernel import limits_of_rows as limits_of_regressed_rows


def pack(parts: Any) -> IntArray:
    """The address and the size of every array in a nested tuple of arrays, in their order."""
    # All arrays must be flat, contiguous and read-only, as the arrays of fitted models are.
    found = []
    for array in arrays_in(parts):
        assert array.ndim == 1, "only flat arrays are packed"
        assert array.flags.c_contiguous, "only contiguous arrays are packed"
        assert not array.flags.writeable, "only read-only arrays are packed"
        found += [array.ctypes.data, array.size]
    return read_only(np.array(found, dtype=np.int64))


def arrays_in(parts: Any) -> Iterator[AnyArray]:
    """The arrays in a nested tuple of arrays, in their order."""
    if isinstance(parts, np.ndarray):
        yield parts
    else:
        for part in parts:
            yield from arrays_in(part)


# Both intrinsics are in the manner of the one in Numba's manual, which makes a pointer of a number.
def _as_pointer(typing_context: Any, address: Any) -> Any:
    """The pointer to this address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uintp), generate


def _as_read_only(typing_context: Any, array: Any) -> Any:
    """The same array, of the read-only type: kernels need not compile for another type."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    return types.Array(array.dtype, array.ndim, array.layout, readonly=True)(array), generate


_pointer: Any = intrinsic(_as_pointer)
_read_only_view: Any = intrinsic(_as_read_only)


@room_kernel
def array_at(packed: IntArray, place: int, like: AnyArray) -> Any:
    """The packed array number ``place``, read-only; ``like`` is any array of the same type."""
    found = carray(_pointer(packed[2 * place]), packed[2 * place + 1], like.dtype)
    return _read_only_view(found)


@room_kernel
def support_at(
    packed: IntArray, place: int, floats: FloatArray, flags: BoolArray
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """The three arrays of a packed `Support` (training outcomes), from array ``place`` on."""
    return (
        array_at(packed, place, floats),
        array_at(packed, place + 1, flags),
        array_at(packed, place + 2, floats),
    )


class ShiftTable(NamedTuple):
    """One shape that is shifted and stretched for each row; flat read-only arrays.

    ``units`` holds five numbers that turn two guides (predictions in standard units) into a row's
    location and scale: the mean outcome, its spread, the mean distance from the location, the
    spread of this distance, and the smallest scale. ``shape`` holds quantiles of (outcome −
    location) / scale at even levels from 0 to 1. If outcomes are atoms (values with positive
    probability), ``values`` are all outcomes, ascending, and the probability between two neighbours
    is divided at their middle. Otherwise ``values`` is empty.
    """

    units: FloatArray
    shape: FloatArray
    values: FloatArray


@inner_kernel
def _share_below(shape: FloatArray, distance: float) -> float:
    """The CDF of the shape at this distance, interpolated linearly between its quantiles."""
    last = shape.size - 1
    if not distance > shape[0]:
        return 0.0
    if distance >= shape[last]:
        return 1.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) >> 1
        if shape[middle] < distance:
            low = middle
        else:
            high = middle
    part = (distance - shape[low]) / (shape[high] - shape[low])
    return float(min((low + part) / last, high / last))


@inner_kernel
def _limits(law: ShiftTable, place: tuple[float, float], y: float) -> tuple[float, float]:
    """P(Y < y) and P(Y <= y) of a row; ``place`` is its location and scale."""
    location, scale = place
    if law.values.size == 0:
        share = _share_below(law.shape, (y - location) / scale)
        return share, share
    below = int(np.searchsorted(law.values, y))
    upto = below + (1 if below < law.values.size and law.values[below] == y else 0)
    left = _share_before(law, place, below)
    return left, left if upto == below else _share_before(law, place, upto)


@inner_kernel
def _share_before(law: ShiftTable, place: tuple[float, float], count: int) -> float:
    """The probability of the first ``count`` atoms (outcomes with positive probability)."""
    if count == 0:
        return 0.0
    if count == law.values.size:
        return 1.0
    middle = 0.5 * law.values[count - 1] + 0.5 * law.values[count]
    return _share_below(law.shape, (middle - place[0]) / place[1])


@kernel
def shifts_of_guides(
    law: ShiftTable, location: FloatArray, scale: FloatArray, out: FloatArray
) -> None:
    """Write each row's location and scale, (rows, 2), from the guides that predict them."""
    units = law.units
    for i in range(location.size):
        out[i, 0] = units[0] + units[1] * location[i]
        out[i, 1] = max(units[4], units[2] + units[3] * scale[i])


@kernel
def limits_of_shifts(
    law: ShiftTable, places: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row at each of its values y.

    ``places`` holds each row's location and scale, (rows, 2). ``y`` and the two arrays in ``out``
    are (rows, values).
    """
    for i in range(y.shape[0]):
        place = (places[i, 0], places[i, 1])
        for j in range(y.shape[1]):
            out[0][i, j], out[1][i, j] = _limits(law, place, y[i, j])


# The experts by place. Only files of version 0.2 have a second forest.
FOREST, SECOND, SHIFT, LINEAR = 0, 1, 2, 3


class Stack(NamedTuple):
    """The models (experts) of a stacked forest, as kernels take them."""

    guides: Guides
    spread: Guides  # of the distance from the location
    forest: ForestTable
    second: ForestTable
    shift: ShiftTable
    linear: Regression
    weights: FloatArray


# One empty array of every type that a stack holds; the last is that of the entries of leaves.
Kinds: TypeAlias = tuple[FloatArray, IntArray, BoolArray, IntArray, IntArray, AnyArray, IntArray]


def kinds_of(stack: Stack) -> Kinds:
    """One empty array of each type that occurs in the stack, which tells a kernel these types."""
    dtypes = (np.float64, np.int64, np.bool_, np.uint16, np.uint32, np.float32)
    kinds: Any = (*dtypes, stack.forest.entries.dtype)
    found: Any = tuple(read_only(np.empty(0, dtype=kind)) for kind in kinds)
    checked: Kinds = found
    return checked


# How many arrays each part of a stack has.
_GUIDES, _FOREST, _SHIFT, _REGRESSION = 10, 13, 3, 12


@room_kernel
def _guides_at(packed: IntArray, at: int, kinds: Kinds) -> Guides:
    floats, whole = kinds[0], kinds[1]
    linear = LinearGuide(
        array_at(packed, at, floats),
        array_at(packed, at + 1, whole),
        array_at(packed, at + 2, floats),
        array_at(packed, at + 3, floats),
    )
    bins = _bins_at(packed, at + 4, kinds)
    boosted = BoostedGuide(bins, array_at(packed, at + 8, whole), array_at(packed, at + 9, floats))
    return Guides(linear, boosted)


@room_kernel
def _bins_at(packed: IntArray, at: int, kinds: Kinds) -> BinTable:
    return BinTable(
        array_at(packed, at, kinds[0]),
        array_at(packed, at + 1, kinds[1]),
        array_at(packed, at + 2, kinds[2]),
        array_at(packed, at + 3, kinds[3]),
    )


@room_kernel
def _forest_at(packed: IntArray, at: int, kinds: Kinds) -> ForestTable:
    floats, whole = kinds[0], kinds[1]
    return ForestTable(
        _bins_at(packed, at, kinds),
        array_at(packed, at + 4, whole),
        array_at(packed, at + 5, whole),
        array_at(packed, at + 6, kinds[6]),
        array_at(packed, at + 7, kinds[4]),
        array_at(packed, at + 8, floats),
        support_at(packed, at + 9, floats, kinds[2]),
        array_at(packed, at + 12, kinds[3]),
    )


@room_kernel
def _regression_at(packed: IntArray, at: int, kinds: Kinds) -> Regression:
    floats, whole, flags = kinds[0], kinds[1], kinds[2]
    columns = Columns(
        array_at(packed, at, whole),
        array_at(packed, at + 1, flags),
        array_at(packed, at + 2, floats),
        array_at(packed, at + 3, floats),
        array_at(packed, at + 4, whole),
        array_at(packed, at + 5, floats),
    )
    return Regression(
        columns,
        array_at(packed, at + 6, floats),
        array_at(packed, at + 7, kinds[5]),
        array_at(packed, at + 8, floats),
        support_at(packed, at + 9, floats, kinds[2]),
    )


@room_kernel
def _stack_at(packed: IntArray, kinds: Kinds) -> Stack:
    """The stack, made again from its packed arrays."""
    floats = kinds[0]
    first = 2 * _GUIDES
    second = first + _FOREST
    shift = second + _FOREST
    linear = shift + _SHIFT
    return Stack(
        _guides_at(packed, 0, kinds),
        _guides_at(packed, _GUIDES, kinds),
        _forest_at(packed, first, kinds),
        _forest_at(packed, second, kinds),
        ShiftTable(
            array_at(packed, shift, floats),
            array_at(packed, shift + 1, floats),
            array_at(packed, shift + 2, floats),
        ),
        _regression_at(packed, linear, kinds),
        array_at(packed, linear + _REGRESSION, floats),
    )


@kernel
def limits_of_stacked_rows(
    packed: IntArray,
    kinds: Kinds,
    X: FloatArray,
    y: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write P(Y < y) and P(Y <= y) of the mixture of models for each row at its values y.

    ``packed`` is the result of `pack` for the `Stack`, whose arrays must stay alive. ``y`` and the
    two arrays in ``out`` are (rows, values).
    """
    stack = _stack_at(packed, kinds)
    n_rows, last = X.shape[0], X.shape[1] + count_guides(stack.guides) - 1
    weights = stack.weights
    guided = np.empty((n_rows, last + 1))
    append_guides_of_rows(stack.guides, X, guided)
    found = np.empty((weights.size, 2, n_rows, y.shape[1]))
    counted = np.empty(weights.size)
    n = 0
    if weights[FOREST] > 0.0:
        limits_of_rows(stack.forest, guided, y, (found[n, 0], found[n, 1]))
        counted[n] = weights[FOREST]
        n += 1
    if weights[SECOND] > 0.0:
        limits_of_rows(stack.second, guided, y, (found[n, 0], found[n, 1]))
        counted[n] = weights[SECOND]
        n += 1
    if weights[SHIFT] > 0.0:
        places = np.empty((n_rows, 2))
        location = guided[:, last].copy()
        append_guides_of_rows(stack.spread, X, guided)
        shifts_of_guides(stack.shift, location, guided[:, last].copy(), places)
        limits_of_shifts(stack.shift, places, y, (found[n, 0], found[n, 1]))
        counted[n] = weights[SHIFT]
        n += 1
    if weights[LINEAR] > 0.0:
        limits_of_regressed_rows(stack.linear, X, y, (found[n, 0], found[n, 1]))
        counted[n] = weights[LINEAR]
        n += 1
    blend(found[:n], counted[:n], out[0], out[1])
