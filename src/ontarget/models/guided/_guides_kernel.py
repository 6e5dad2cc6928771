"""Appends the guides (predictions of the mean) to the features of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray
from ontarget.models.forest._binning_kernel import bin_row
from ontarget.models.guided._boosting_kernel import BoostedGuide, boosted_value
from ontarget.models.guided._ridge_kernel import LinearGuide, linear_value

# Guides are in units of the outcome's spread, so this is a billionth of it.
_SCALE = 2.0**30


class Guides(NamedTuple):
    """The two guides of a forest: a ridge regression and boosted trees."""

    linear: LinearGuide
    boosted: BoostedGuide


@inner_kernel
def count_guides(guides: Guides) -> int:
    """How many predictions the guides append to a row."""
    return (guides.linear.terms.size > 0) + (guides.boosted.values.size > 0)


@inner_kernel
def _rounded(value: float) -> float:
    """The prediction of a guide, rounded to about 1e-9 of the outcome's spread."""
    return float(np.rint(value * _SCALE) / _SCALE)


@inner_kernel
def _append_guides(guides: Guides, row: FloatArray, codes: AnyArray, out: FloatArray) -> None:
    """Write a row's features, and after them its guides (predictions of the mean), into ``out``."""
    n_features = row.size
    for f in range(n_features):
        out[f] = row[f]
    at, value = n_features, 0.0
    if guides.linear.terms.size > 0:
        value = linear_value(row, guides.linear)
        out[at] = _rounded(value)
        at += 1
    if guides.boosted.values.size > 0:
        bin_row(row, guides.boosted.bins, codes)
        out[at] = _rounded(value + boosted_value(codes, guides.boosted))


@kernel
def append_guides_of_rows(guides: Guides, X: FloatArray, out: FloatArray) -> None:
    """Write each row's features, and after them its guides (predictions of the mean)."""
    codes = np.empty(2 * X.shape[1], dtype=np.uint16)
    for i in range(X.shape[0]):
        _append_guides(guides, X[i], codes, out[i])
