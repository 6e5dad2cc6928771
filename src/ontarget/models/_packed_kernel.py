"""Passes many arrays to a kernel as one array, which lists their addresses and sizes.

Unpacking a tuple of sixty arrays takes longer than answering one row with them, and would happen at
every call. So the arrays of a model that is asked at every step of a run are packed once, and the
kernel reads them from their addresses. Whoever packs arrays must keep them alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ontarget._arrays import read_only
from ontarget._kernel import room_kernel
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray


def pack(parts: Any) -> IntArray:
    """The address and the size of every array in a nested tuple of arrays, in their order.

    All arrays must be flat, contiguous and read-only, as the arrays of fitted models are.
    """
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
