from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import InputError
from ontarget.evaluation import coverage, coverage_band, covered, mean_width
from refusals import refuses

ENDS = st.floats(allow_nan=False)


@given(st.lists(st.tuples(ENDS, ENDS, ENDS), min_size=1, max_size=30))
def test_coverage_counts_closed_intervals_that_hold_their_outcome(rows) -> None:
    lower, upper, y = np.array(rows).T
    held = [low <= value <= high for low, high, value in rows]
    assert covered(lower, upper, y).tolist() == held
    assert coverage(lower, upper, y).count == sum(held)


@given(st.lists(st.tuples(ENDS, ENDS), min_size=1, max_size=30))
def test_widths_are_never_negative_nor_nan_but_where_all_are_infinite(rows) -> None:
    lower, upper = np.array(rows).T
    # Ends near the largest float are further apart than a float can say: they count as infinite.
    with np.errstate(over="ignore"):
        found = mean_width(lower, upper)
    assert found >= 0.0 or (np.isnan(found) and not (lower >= upper).any())


def test_a_conformal_count_lies_in_its_band_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    n, tests, level, runs = 40, 60, 0.8, 4000
    scores = np.sort(rng.random((runs, n)), axis=1)
    reach = scores[:, int(np.ceil(0.8 * 41)) - 1]
    shares = (rng.random((runs, tests)) <= reach[:, None]).mean(axis=1)
    band = coverage_band(n, tests, level, band=0.9)
    inside = np.mean([share in band for share in shares.tolist()])
    assert 0.89 < inside < 0.96


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([0.5, 0.8, 0.95]))
def test_a_wider_band_holds_a_narrower_one(n, tests, level) -> None:
    narrow, wide = (coverage_band(n, tests, level, band=b) for b in (0.5, 0.99))
    assert 0.0 <= wide.low <= narrow.low <= narrow.high <= wide.high <= 1.0


def test_too_few_calibration_episodes_cover_everything() -> None:
    assert coverage_band(8, 100, 0.9) == (1.0, 1.0)
    assert coverage_band(9, 100, 0.9).low < 1.0  # ⌈0.9 · 10⌉ = 9, though 0.9 * 10 may round up


def test_bad_intervals_and_levels_are_named() -> None:
    with refuses(InputError, "lower", "lower 1", "upper 2"):
        mean_width([1.0], [1.0, 2.0])
    with refuses(InputError, "y", "nan"):
        coverage([0.0], [1.0], [np.nan])
    with refuses(InputError, "level", 80):
        coverage_band(10, 10, 80)
    with refuses(InputError, "level", "'most'"):
        coverage_band(10, 10, "most")
