"""Arrays that a kernel reads from their addresses are the very arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget._arrays import read_only
from ontarget._kernel import kernel
from ontarget.models._packed_kernel import array_at, arrays_in, pack


@kernel
def _sums(packed, floats, shorts):  # type: ignore[no-untyped-def]
    a, b, c = array_at(packed, 0, floats), array_at(packed, 1, shorts), array_at(packed, 2, floats)
    return a.sum(), b.sum(), b.size, c.size


def test_a_kernel_reads_what_was_packed() -> None:
    floats = read_only(np.arange(5.0))
    shorts = read_only(np.arange(7, dtype=np.uint16))
    none = read_only(np.empty(0))
    packed = pack((floats, (shorts, none)))
    assert _sums(packed, none, shorts[:0]) == (10.0, 21, 7, 0)


def test_arrays_come_in_their_order() -> None:
    first, second, third = (read_only(np.array([float(k)])) for k in range(3))
    assert [one[0] for one in arrays_in((first, ((second,), third)))] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("array", [np.zeros((2, 2)), np.zeros(4)[::2], np.zeros(3)])
def test_only_flat_stored_arrays_are_packed(array: np.ndarray) -> None:
    if array.ndim == 2 or not array.flags.c_contiguous:
        array.flags.writeable = False
    with pytest.raises(AssertionError):
        pack((array,))
