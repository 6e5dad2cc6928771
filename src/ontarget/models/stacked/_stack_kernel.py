"""Asks the models (experts) of a stacked forest about rows, and mixes their answers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._kernel import kernel, room_kernel
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray
from ontarget.models._mixture_kernel import blend
from ontarget.models._packed_kernel import array_at, support_at
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._batch_kernel import limits_of_rows
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._members_kernel import add_members_of_rows
from ontarget.models.guided._boosting_kernel import BoostedGuide
from ontarget.models.guided._guides_kernel import Guides, append_guides_of_rows, count_guides
from ontarget.models.guided._ridge_kernel import LinearGuide
from ontarget.models.ranked._columns_kernel import Columns
from ontarget.models.regression._law_kernel import Regression
from ontarget.models.regression._law_kernel import limits_of_rows as limits_of_regressed_rows
from ontarget.models.stacked._shift_kernel import ShiftTable, limits_of_shifts, shifts_of_guides

# The experts by place. Only files of version 0.2 have a second forest.
FOREST, SECOND, SHIFT, LINEAR = 0, 1, 2, 3


class Stack(NamedTuple):
    """The models (experts) of a stacked forest, as kernels take them.

    A model of weight 0 may be empty.
    """

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


@kernel
def members_of_stacked_rows(
    packed: IntArray,
    kinds: Kinds,
    X: FloatArray,
    skipped: BoolArray,
    out: tuple[IntArray, IntArray, FloatArray],
) -> None:
    """Append to ``out`` the training rows in each row's leaves.

    A forest contributes with its weight. ``packed`` is as for `limits_of_stacked_rows`, the
    other arguments as for `add_members_of_rows`.
    """
    stack = _stack_at(packed, kinds)
    weights = stack.weights
    guided = np.empty((X.shape[0], X.shape[1] + count_guides(stack.guides)))
    append_guides_of_rows(stack.guides, X, guided)
    if weights[FOREST] > 0.0:
        add_members_of_rows(stack.forest, guided, skipped, weights[FOREST], out)
    if weights[SECOND] > 0.0:
        add_members_of_rows(stack.second, guided, skipped, weights[SECOND], out)
