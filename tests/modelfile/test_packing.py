"""Recorded numbers in few bytes: what comes back has the very bits that were given."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.modelfile import _packing
from ontarget.modelfile._packing import packed, unpacked


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([0.0, -128.0, 127.0], np.int8),
        ([0.0, 128.0], np.int16),
        ([32_767.0, -32_768.0], np.int16),
        ([32_768.0, 1.0], np.float32),
        ([0.5, np.nan, np.inf], np.float32),
        ([-0.0, 3.0], np.float32),
        ([0.1, 3.0], np.float64),
        ([1e39], np.float64),
        ([], np.float64),
    ],
)
def test_the_smallest_type_that_keeps_every_bit_is_written(
    numbers: list[float], dtype: type[np.generic]
) -> None:
    given = np.array([numbers, numbers])
    written = packed("assure", {"states": given, "outcomes": given})
    assert written["states"].dtype == dtype
    assert written["outcomes"] is given
    back = unpacked("assure", written)["states"]
    assert back.dtype == np.float64
    assert back.tobytes() == given.tobytes()


def test_large_arrays_and_other_types_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"before": np.arange(4, dtype=np.int8)}
    monkeypatch.setattr(_packing, "_MOST_NUMBERS", 3)
    assert packed("learn", {"before": np.arange(4.0)})["before"].dtype == np.float64
    assert unpacked("learn", small)["before"].dtype == np.int8  # which the checks refuse
    odd = {"before": np.arange(2, dtype=np.uint32)}
    assert unpacked("learn", odd)["before"].dtype == np.uint32
    assert unpacked("ranks", odd)["before"].dtype == np.uint32
