"""PCQR is the paper's where the paper applies, and stays exact where it does not (atoms, ties)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from known import Atoms, Shifted, Uniform
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.ranks import Ranks
from ontarget.errors import CalibrationError, InputError, TargetError, UnfittedError
from ontarget.models.marginal import Marginal
from ontarget.target import Target
from refusals import refuses

ROW = np.zeros((1, 1))
unit = st.floats(0.0, 1.0)
distinct = st.lists(unit, min_size=1, max_size=40, unique=True)
dice = st.lists(st.integers(1, 6), min_size=1, max_size=40)


def calibrated(outcomes: list[float], model: object | None = None) -> PCQR:
    return PCQR(model or Uniform()).calibrate(np.zeros((len(outcomes), 1)), outcomes)


def die(rolls: list[int]) -> PCQR:
    return calibrated([float(r) for r in rolls], Atoms(range(1, 7), [1, 2, 1, 3, 2, 1]))


def paper_cdf(alphas: list[float], at: float) -> Fraction:
    """The paper's definition of F_cal, word for word."""
    ordered = sorted(alphas)
    n = len(alphas)
    largest = max((i for i in range(1, n + 1) if ordered[i - 1] < at), default=0)
    return Fraction(largest, n + 1) + Fraction(1, 2 * n + 2)


@given(distinct, st.lists(unit, min_size=2, max_size=2).map(sorted))
def test_probability_is_the_papers_as_rationals_and_as_floats(
    alphas: list[float], ends: list[float]
) -> None:
    if set(ends) & set(alphas):
        return  # the paper's assumption: no ties
    slack = Fraction(1, len(alphas) + 1)
    middle = paper_cdf(alphas, ends[1]) - paper_cdf(alphas, ends[0])
    pcqr, target = calibrated(alphas), Target(*ends)
    counts = pcqr.counts(ROW, target)
    whole = len(alphas) + 1
    assert Fraction(int(counts.low[0]), whole) == max(Fraction(0), middle - slack)
    assert Fraction(int(counts.mid[0]), 2 * whole) == middle
    assert Fraction(int(counts.high[0]), whole) == middle + slack
    low, p, high = pcqr.probability(ROW, target)
    assert low[0] == pytest.approx(float(max(Fraction(0), middle - slack)), abs=2e-16)
    assert p[0] == pytest.approx(float(middle), abs=2e-16)
    assert high[0] == pytest.approx(float(middle + slack), abs=2e-16)


@given(distinct, st.integers(1, 99), st.sampled_from(["at_least", "at_most"]))
def test_interval_is_the_papers_as_rationals_and_as_floats(
    alphas: list[float], hundredths: int, kind: str
) -> None:
    whole = len(alphas) + 1
    share = Fraction(hundredths, 100) * whole
    k = math.ceil(share) if kind == "at_least" else math.floor(share)
    lower, upper = calibrated(alphas).interval(ROW, hundredths / 100, kind, unbounded=True)
    half = Fraction(1, 2)
    scores = sorted(abs(half - Fraction(a)) for a in alphas)
    if not 1 <= k < whole or scores[k - 1] == half:
        return
    assert Fraction(float(lower[0])) == half - scores[k - 1]
    assert float(upper[0]) == pytest.approx(float(half + scores[k - 1]), abs=2e-16)
    # Never past a float CDF value that the exact end tells apart.
    assert (Fraction(float(upper[0])) <= half + scores[k - 1]) or kind == "at_most"
    assert (Fraction(float(upper[0])) >= half + scores[k - 1]) or kind == "at_least"


@given(dice, st.integers(0, 7), st.integers(0, 7), st.sampled_from(["both", "left", "right"]))
def test_bounds_are_ordered_and_a_cdf_is_the_probability_of_a_half_line(
    rolls: list[int], a: int, b: int, closed: str
) -> None:
    pcqr = die(rolls)
    lower, upper = min(a, b), max(a, b) + 1
    low, p, high = pcqr.probability(ROW, Target(lower, upper, closed=closed))
    assert 0.0 <= low[0] <= p[0] <= high[0] <= 1.0
    assert pcqr.cdf(ROW, float(upper)) == pcqr.probability(ROW, Target.at_most(upper))
    assert pcqr.cdf(ROW, float(upper), side="left") == pcqr.probability(
        ROW, Target(upper=upper, closed="neither")
    )


@given(distinct, st.lists(unit, min_size=4, max_size=4).map(sorted))
def test_wider_target_never_lowers_probability(alphas: list[float], ends: list[float]) -> None:
    pcqr = calibrated(alphas)
    narrow = pcqr.probability(ROW, Target(ends[1], ends[2]))
    for wide in (Target(ends[0], ends[3]), Target(ends[0], ends[2]), Target(lower=ends[1])):
        assert all(np.all(a <= b) for a, b in zip(narrow, pcqr.probability(ROW, wide), strict=True))


@given(distinct, st.lists(unit, min_size=2, max_size=2, unique=True).map(sorted))
def test_width_of_two_sided_bounds_is_two_ranks_without_ties(
    alphas: list[float], ends: list[float]
) -> None:
    counts = calibrated(alphas).counts(ROW, Target(*ends))
    below = sum(ends[0] <= a <= ends[1] for a in alphas)
    if not set(ends) & set(alphas) and below >= 1:
        assert int(counts.high[0]) - int(counts.low[0]) == 2


@given(distinct, st.lists(unit, min_size=3, max_size=3, unique=True).map(sorted))
def test_neighbouring_targets_add_up_to_the_stated_slack(
    alphas: list[float], ends: list[float]
) -> None:
    pcqr = calibrated(alphas)
    left = pcqr.counts(ROW, Target(ends[0], ends[1], closed="left"))
    right = pcqr.counts(ROW, Target(ends[1], ends[2]))
    whole = pcqr.counts(ROW, Target(ends[0], ends[2]))
    assert left.mid + right.mid == whole.mid
    ties = sum(a == ends[1] for a in alphas)
    assert left.low + right.low <= whole.low <= left.low + right.low + 2 + ties
    assert left.high + right.high - 1 - ties <= whole.high <= left.high + right.high


def test_one_sided_limits_are_exactly_0_and_1() -> None:
    pcqr = calibrated([0.2, 0.9, 0.4])
    assert pcqr.probability(ROW, Target()) == (1.0, 1.0, 1.0)
    assert pcqr.probability(ROW, Target.empty()) == (0.0, 0.0, 0.0)
    assert pcqr.cdf(ROW, math.inf) == (1.0, 1.0, 1.0)
    assert pcqr.cdf(ROW, -math.inf) == (0.0, 0.0, 0.0)
    # A finite end whose CDF is 0 or 1 keeps its slack: an outcome beyond it was never ruled out.
    assert pcqr.probability(ROW, Target.at_most(7.0)) == (0.75, 0.875, 1.0)
    assert pcqr.probability(ROW, Target.at_least(7.0)) == (0.0, 0.125, 0.25)


def test_atom_on_an_end_counts_when_the_end_is_closed_only() -> None:
    pcqr = die([1, 2, 3, 4, 4, 4, 5, 6] * 5)
    closed = pcqr.probability(ROW, Target(4, 5))
    left = pcqr.probability(ROW, Target(4, 5, closed="left"))
    right = pcqr.probability(ROW, Target(4, 5, closed="right"))
    neither = pcqr.probability(ROW, Target(4, 5, closed="neither"))
    assert closed.p[0] == pytest.approx(20 / 40, abs=1 / 41)
    assert left.p[0] == pytest.approx(15 / 40, abs=1 / 41)
    assert right.p[0] == pytest.approx(5 / 40, abs=1 / 41)
    assert neither.p[0] == 0.0


def test_union_is_the_sum_of_its_parts_and_its_bounds_those_of_the_complement() -> None:
    pcqr = calibrated(list(np.linspace(0.005, 0.995, 99)))
    union = Target(0.101, 0.302) | Target(0.601, 0.702)
    low, p, high = pcqr.probability(ROW, union)
    first, second = (pcqr.probability(ROW, Target(c.lower, c.upper)) for c in union)
    assert p[0] == pytest.approx(first.p[0] + second.p[0], abs=1e-15)
    assert low[0] == pytest.approx(first.low[0] + second.low[0], abs=1e-15)
    missed = pcqr.probability(ROW, ~union)
    assert high[0] == pytest.approx(1.0 - missed.low[0], abs=1e-15)
    assert p[0] == pytest.approx(1.0 - missed.p[0], abs=1e-15)


def test_many_targets_are_asked_in_one_call() -> None:
    model = Shifted(Atoms(range(1, 7), [1] * 6))
    X = np.random.default_rng(0).integers(0, 3, (50, 1)).astype(float)
    y = X[:, 0] + np.random.default_rng(1).integers(1, 7, 50)
    pcqr = PCQR(model).calibrate(X, y)
    targets = [Target(2, 4), Target.at_least(5), Target(2, 3) | Target(6, 7), Target()]
    table = pcqr.probability(X, targets)
    assert table.p.shape == (50, 4)
    for j, target in enumerate(targets):
        for many, one in zip(table, pcqr.probability(X, target), strict=True):
            assert np.array_equal(many[:, j], one)
    assert pcqr.probability(X, []).p.shape == (50, 0)


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=6), st.integers(-50, 50))
def test_offset_shifts_the_target_of_each_row_on_the_grid(tenths: list[int], end: int) -> None:
    rewards = np.array(tenths) / 10
    # Sums of decimals that miss the grid in their last bits.
    sums = np.array([sum([r / 3] * 3) for r in rewards])
    outcomes = np.random.default_rng(0).integers(-300, 300, 60) / 10
    model = Atoms(np.arange(-300, 301) / 10, np.ones(601))
    pcqr = PCQR(model, grid=1e-7).calibrate(np.zeros((60, 1)), outcomes)
    X, target = np.zeros((rewards.size, 1)), Target.at_least(end / 10)
    shifted = pcqr.probability(X, target, offset=sums)
    for i, reward in enumerate(rewards):
        alone = pcqr.probability(ROW, Target.at_least(end / 10).shift(-reward, 1e-7))
        assert [part[i] for part in shifted] == [part[0] for part in alone]


@given(distinct, st.integers(1, 99), st.sampled_from(["at_least", "at_most"]))
def test_interval_and_probability_invert_each_other(
    alphas: list[float], hundredths: int, kind: str
) -> None:
    n, level = len(alphas), hundredths / 100
    pcqr = calibrated(alphas)
    k = math.ceil(Fraction(hundredths, 100) * (n + 1))
    if kind == "at_most":
        k = math.floor(Fraction(hundredths, 100) * (n + 1))
    lower, upper = pcqr.interval(ROW, level, kind, unbounded=True)
    depths = {min(Fraction(a), 1 - Fraction(a)) for a in alphas}
    if not 1 <= k <= n or len(depths) < n or not lower[0] < upper[0]:
        return
    if not (math.isfinite(lower[0]) and math.isfinite(upper[0])):
        return
    # Two-sided without ties, p(I with S_(k)) = (k − ½)/(n + 1): the defining rank counts half.
    ends_hit = sum(a in (lower[0], upper[0]) for a in alphas)
    counts = pcqr.counts(ROW, Target(lower[0], upper[0]))
    if ends_hit == 1:
        assert int(counts.mid[0]) == 2 * k - 1


@given(distinct, st.integers(1, 99))
def test_promise_is_the_best_bound_whose_lower_probability_reaches_the_level(
    alphas: list[float], hundredths: int
) -> None:
    level = Fraction(hundredths, 100)
    pcqr = calibrated(alphas)
    n = len(alphas)

    def low(target: Target) -> Fraction:
        return Fraction(int(pcqr.counts(ROW, target).low[0]), n + 1)

    bound = float(pcqr.promise(ROW, hundredths / 100, unbounded=True)[0])
    if math.isfinite(bound):
        assert low(Target.at_least(math.nextafter(bound, -math.inf))) >= level
        assert low(Target.at_least(math.nextafter(bound, math.inf))) < level
    else:
        assert low(Target.at_least(0.0)) < level
    bound = float(pcqr.promise(ROW, hundredths / 100, side="upper", unbounded=True)[0])
    if math.isfinite(bound):
        assert low(Target.at_most(math.nextafter(bound, math.inf))) >= level
        assert low(Target.at_most(math.nextafter(bound, -math.inf))) < level
    else:
        assert low(Target.at_most(1.0)) < level or 1.0 in alphas


@given(dice, st.integers(1, 99))
def test_promise_inverts_the_lower_probability_on_atoms(rolls: list[int], hundredths: int) -> None:
    pcqr, level = die(rolls), Fraction(hundredths, 100)
    reached = [
        v
        for v in range(1, 7)
        if Fraction(int(pcqr.counts(ROW, Target.at_least(v)).low[0]), len(rolls) + 1) >= level
    ]
    promised = float(pcqr.promise(ROW, hundredths / 100, unbounded=True)[0])
    assert promised == max(reached, default=-math.inf)


@given(dice, st.integers(1, 99))
def test_at_most_interval_holds_whole_atoms_inside_the_band_only(
    rolls: list[int], hundredths: int
) -> None:
    pcqr, level = die(rolls), hundredths / 100
    k = math.floor(Fraction(hundredths, 100) * (len(rolls) + 1))
    lower, upper = pcqr.interval(ROW, level, "at_most")
    inside = [v for v in range(1, 7) if lower[0] < v < upper[0]]
    if k == 0:
        assert inside == []
        return
    tail = Fraction(pcqr.ranks.depth(k))
    left, right = pcqr.model.cdf_limits(np.zeros((6, 1)), np.arange(1.0, 7.0))
    band = [v + 1 for v in range(6) if Fraction(left[v]) > tail and Fraction(right[v]) < 1 - tail]
    assert inside == band


@given(dice, st.integers(1, 99))
def test_at_least_interval_holds_every_atom_that_touches_the_band(
    rolls: list[int], hundredths: int
) -> None:
    pcqr = die(rolls)
    k = math.ceil(Fraction(hundredths, 100) * (len(rolls) + 1))
    interval = pcqr.interval(ROW, hundredths / 100, unbounded=True)
    if k > len(rolls):
        assert interval == (-math.inf, math.inf)
        return
    tail = Fraction(pcqr.ranks.depth(k))
    left, right = pcqr.model.cdf_limits(np.zeros((6, 1)), np.arange(1.0, 7.0))
    for v in range(6):
        touches = Fraction(right[v]) >= tail and Fraction(left[v]) <= 1 - tail
        assert bool(interval.contains(v + 1.0)[0]) == touches


def test_tiny_ranks_keep_their_mirror_image_inside_the_interval() -> None:
    # 1 − 1e-20 rounds to 1.0, whose quantile is infinite; the float below covers the same ranks.
    pcqr = calibrated([1e-20, 0.3, 0.5, 0.6])
    lower, upper = pcqr.interval(ROW, 0.8)
    assert (lower[0], upper[0]) == (1e-20, math.nextafter(1.0, 0.0))


def test_ranks_do_not_depend_on_row_order() -> None:
    model = Atoms(range(1, 7), [1] * 6)
    y = np.random.default_rng(0).integers(1, 7, 40).astype(float)
    ids = np.array([f"run-{i}" for i in range(40)])
    order = np.random.default_rng(1).permutation(40)
    X = np.zeros((40, 1))
    one = PCQR(model).calibrate(X, y, ids=ids)
    other = PCQR(model).calibrate(X, y[order], ids=ids[order])
    assert np.array_equal(one.ranks.values, other.ranks.values)
    assert not np.array_equal(
        one.ranks.values, PCQR(model).calibrate(X, y, ids=ids, step=1).ranks.values
    )


def test_ranks_alone_rebuild_the_calibrated_object() -> None:
    pcqr = calibrated([0.1, 0.5, 0.7])
    again = PCQR.from_ranks(Uniform(), Ranks(pcqr.ranks.values))
    assert again.probability(ROW, Target(0.2, 0.6)) == pcqr.probability(ROW, Target(0.2, 0.6))
    assert again.n_calibration == 3


def test_level_that_n_cannot_reach_says_the_n_it_needs() -> None:
    pcqr = calibrated([0.1, 0.5, 0.7])
    with refuses(CalibrationError, "level", 0.9, " 9 ", "has 3"):
        pcqr.interval(ROW, 0.9)
    with refuses(CalibrationError, "level", 0.99, " 99 "):
        pcqr.promise(ROW, 0.99)
    assert pcqr.interval(ROW, 0.9, unbounded=True) == (-math.inf, math.inf)
    assert pcqr.promise(ROW, 0.9, side="upper", unbounded=True) == math.inf
    assert pcqr.interval(ROW, 0.1, "at_most") == (math.inf, -math.inf)


def test_bad_input_is_refused_with_a_reason() -> None:
    X = np.zeros((2, 1))
    with refuses(InputError, None, "object", "cdf_limits", "RegressorQuantiles"):
        PCQR(object())
    with refuses(InputError, None, "LinearRegression", "SplitConformal"):
        PCQR(LinearRegression())
    with refuses(UnfittedError, None, "calibrate(X, y)"):
        PCQR(Uniform()).probability(ROW, Target())
    with pytest.raises(UnfittedError, match="not fitted"):
        PCQR(Marginal()).calibrate(X, [0.1, 0.2])
    with refuses(InputError, "y", "nan", "row 1"):
        PCQR(Uniform()).calibrate(X, [0.1, math.nan])
    with refuses(InputError, "y", "(2)", "(1,)"):
        PCQR(Uniform()).calibrate(X, [0.1])
    with refuses(CalibrationError, None, "calibrate()"):
        PCQR(Uniform()).calibrate(np.zeros((0, 1)), [])
    with refuses(InputError, "X", "(2,)"):
        PCQR(Uniform()).calibrate(np.zeros(2), [0.1, 0.2])
    with refuses(InputError, "ids", "(1,)"):
        PCQR(Uniform()).calibrate(X, [0.1, 0.2], ids=["a"])
    with refuses(CalibrationError, "ids", "'a'"):
        PCQR(Uniform()).calibrate(X, [0.1, 0.2], ids=np.array(["a", "a"], dtype=object))
    pcqr = calibrated([0.1, 0.2])
    with refuses(InputError, "level", 1.0):
        pcqr.interval(ROW, 1.0)
    with refuses(InputError, "kind", "'about'"):
        pcqr.interval(ROW, 0.5, "about")  # type: ignore[arg-type]
    with refuses(InputError, "side", "'middle'"):
        pcqr.promise(ROW, 0.5, side="middle")  # type: ignore[arg-type]
    with refuses(InputError, "side", "'up'"):
        pcqr.cdf(ROW, 0.5, side="up")  # type: ignore[arg-type]
    with refuses(InputError, "y", "NaN"):
        pcqr.cdf(ROW, math.nan)
    with refuses(TargetError, "lower", "NaN"):
        pcqr.probability(ROW, Target(math.nan, 1.0))
    with refuses(TargetError, "target", 3):
        pcqr.probability(ROW, [3])  # type: ignore[list-item]
    with refuses(InputError, "offset", "(1)", "(2,)"):
        pcqr.probability(ROW, Target(), offset=[1.0, 2.0])
    with refuses(InputError, "offset", "nan", "row 0"):
        pcqr.probability(ROW, Target(), offset=math.nan)


def test_episodes_that_trained_the_model_are_refused_by_id() -> None:
    from ontarget._keyed import keys_of

    model = Uniform()
    model.training_keys_ = np.sort(keys_of(np.array(["a", "b"])))
    X = np.zeros((2, 1))
    with refuses(CalibrationError, None, "1 of 2", "'b'"):
        PCQR(model).calibrate(X, [0.1, 0.2], ids=np.array(["b", "c"], dtype=object))
    PCQR(model).calibrate(X, [0.1, 0.2], ids=["c", "d"])
    PCQR(model).calibrate(X, [0.1, 0.2])
