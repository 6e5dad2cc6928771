from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.domains.tamarisk import (
    PRESETS,
    TamariskParameters,
    dispersal_kernel,
)
from ontarget.errors import InputError
from refusals import refuses


def test_kernel_row_of_edge_3_is_the_competitions() -> None:
    row = dispersal_kernel(PRESETS["paper"])[3]
    expected = [0.0526, 0.1053, 0.0105, 0.4211, 0.0211, 0.00105, 0.00105]
    assert np.allclose(row, expected, rtol=0.005, atol=0.0)


def test_kernels_differ_on_paths_that_only_go_up_or_down() -> None:
    scale = 0.8 * 0.5 / 0.95
    paper = dispersal_kernel(TamariskParameters(dispersal="competition"))
    plain = dispersal_kernel(TamariskParameters(dispersal="plain"))
    # From edge 3: down to 1 and 0, across to 4, across a larger fork to 5.
    assert np.allclose(paper[3, [1, 0, 4, 5]] / scale, [0.5**2, 0.5**3, 0.05, 0.0025])
    assert np.allclose(plain[3, [1, 0, 4, 5]] / scale, [0.5, 0.5**2, 0.05, 0.0025])
    # Up from edge 0 to 1 and to 3.
    assert np.allclose(paper[0, [1, 3]] / scale, [0.1**2, 0.1**3])
    assert np.allclose(plain[0, [1, 3]] / scale, [0.1, 0.1**2])


@given(
    levels=st.integers(1, 5),
    upstream=st.floats(0.0, 0.5),
    downstream=st.floats(0.0, 1.0),
    dispersal=st.sampled_from(["competition", "plain"]),
)
def test_rows_of_the_kernel_sum_to_at_most_one(
    levels: int, upstream: float, downstream: float, dispersal: str
) -> None:
    kernel = dispersal_kernel(
        TamariskParameters(
            edges=2**levels - 1,
            upstream=upstream,
            downstream=downstream,
            dispersal=dispersal,  # type: ignore[arg-type]
        )
    )
    assert (kernel >= 0.0).all()
    assert (kernel.sum(axis=1) <= 1.0 + 1e-12).all()


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("edges", 6),
        ("edges", 0),
        ("horizon", 0),
        ("dispersal", "wind"),
        ("eradication", 1.2),
        ("upstream", 0.6),
        ("native_seeds", -1),
        ("budget", float("inf")),
        ("competition", 0.0),
        ("penalty", float("nan")),
    ],
)
def test_bad_parameters_are_refused_by_name(argument: str, wrong: object) -> None:
    with refuses(InputError, argument, f"got {wrong!r}"):
        TamariskParameters(**{argument: wrong})  # type: ignore[arg-type]
