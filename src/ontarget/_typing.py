"""Names for the array types that modules pass to each other."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IndexArray: TypeAlias = NDArray[np.intp]
IntArray: TypeAlias = NDArray[np.integer]
KeyArray: TypeAlias = NDArray[np.uint64]
AnyArray: TypeAlias = NDArray[Any]
