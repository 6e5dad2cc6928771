"""Passes many arrays to a kernel as one array, which lists their addresses and sizes.

Unpacking a tuple of sixty arrays takes longer than answering one row with them, and would happen at
every call. So the arrays of a model that is asked at every step of a run are packed once, and the
kernel reads them from their addresses. Whoever packs arrays must keep them alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from ontarget._kernel import room_kernel
from ontarget._readonly import read_only
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = ["array_at", "arrays_in", "pack", "support_at"]

# Numba has no types of its own for these.
_make_array: Any = arrayobj.make_array
_populate_array: Any = arrayobj.populate_array


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


def _array_at(typing_context: Any, packed: Any, place: Any, like: Any) -> Any:
    """The packed array number ``place``, read-only; ``like`` is any array of the same type."""
    if not isinstance(like, types.Array):
        raise TypingError("array_at needs an array as like=")
    found = types.Array(like.dtype, 1, "C", readonly=True)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        header = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = builder.mul(builder.sext(args[1], cgutils.intp_t), cgutils.intp_t(2))
        address = builder.load(builder.gep(header, [at]))
        size = builder.load(builder.gep(header, [builder.add(at, cgutils.intp_t(1))]))
        item = numpy_support.as_dtype(like.dtype).itemsize
        array = _make_array(found)(context, builder)
        pointer = context.get_data_type(like.dtype).as_pointer()
        _populate_array(
            array,
            data=builder.inttoptr(address, pointer),
            shape=[size],
            strides=[cgutils.intp_t(item)],
            itemsize=cgutils.intp_t(item),
            meminfo=None,
        )
        return array._getvalue()

    return found(packed, place, like), generate


array_at: Any = intrinsic(_array_at)


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
