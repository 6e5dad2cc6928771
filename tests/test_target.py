from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Target
from ontarget.errors import TargetError
from ontarget.target import Closed
from refusals import refuses

ends = st.integers(-6, 6).map(float)
closings = st.sampled_from(["both", "left", "right", "neither"])
POINTS = np.arange(-8, 8.5, 0.5)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    low, high = sorted((draw(ends), draw(ends)))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Target.at_least(low)
    if kind == 1:
        return Target.at_most(high)
    if low == high:
        return Target(low, high)
    return Target(low, high, draw(closings))


unions = st.lists(targets(), min_size=1, max_size=4)


def joined(parts: list[Target]) -> Target:
    whole = Target.empty()
    for part in parts:
        whole = whole | part
    return whole


@given(unions)
def test_union_holds_what_any_part_holds(parts: list[Target]) -> None:
    whole = joined(parts)
    expected = np.any([part.contains(POINTS) for part in parts], axis=0)
    assert whole.contains(POINTS).tolist() == expected.tolist()


@given(unions)
def test_components_are_sorted_disjoint_and_not_touching(parts: list[Target]) -> None:
    whole = joined(parts)
    for left, right in zip(whole.components, whole.components[1:], strict=False):
        assert left.upper < right.lower or (
            left.upper == right.lower and not left.upper_closed and not right.lower_closed
        )


@given(unions)
def test_union_does_not_depend_on_order(parts: list[Target]) -> None:
    forward, backward = Target.empty(), Target.empty()
    for part in parts:
        forward = forward | part
    for part in reversed(parts):
        backward = backward | part
    assert forward == backward
    assert hash(forward) == hash(backward)


@given(unions)
def test_complement_holds_exactly_the_rest(parts: list[Target]) -> None:
    whole = joined(parts)
    assert (~whole).contains(POINTS).tolist() == (~whole.contains(POINTS)).tolist()
    assert ~~whole == whole


@given(unions, unions)
def test_intersection_holds_what_both_hold(one: list[Target], other: list[Target]) -> None:
    first, second = joined(one), joined(other)
    both = first & second
    assert both.contains(POINTS).tolist() == (
        (first.contains(POINTS) & second.contains(POINTS)).tolist()
    )
    assert both == ~(~first | ~second) == second & first
    assert (first & Target(), first & ~first) == (first, Target.empty())


@given(unions)
def test_only_the_whole_line_is_everything(parts: list[Target]) -> None:
    whole = joined(parts)
    assert whole.is_everything == (whole == Target()) == (not ~whole)


@given(unions, st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_a_target_on_the_grid_holds_the_same_points_of_it(parts: list[Target], grid: float) -> None:
    target, points = joined(parts), grid * np.arange(-9, 9)
    assert target.snap(grid).contains(points).tolist() == target.contains(points, grid).tolist()
    assert target.snap(None) == target


@given(unions, st.sampled_from([0.5, 1.0, 2.0, 4.0, 10.0]))
def test_rounding_a_target_changes_no_answer_about_points_of_the_grid(
    parts: list[Target], grid: float
) -> None:
    target, points = joined(parts), grid * np.arange(-9, 9)
    assert target.contains(points, grid).tolist() == target.contains(points).tolist()


@given(st.integers(-999, 999), st.integers(0, 3), st.sampled_from(["both", "neither"]))
def test_a_typed_bound_means_what_it_says(units: int, digits: int, closed: Closed) -> None:
    points, bound = np.arange(-100, 100), units / 10**digits
    # 0.1 is not a tenth: compared as whole numbers, with one more digit than the grid.
    exact = points * 10**digits, units * 10
    above = exact[0] >= exact[1] if closed == "both" else exact[0] > exact[1]
    below = exact[0] <= exact[1] if closed == "both" else exact[0] < exact[1]
    assert Target(lower=bound, closed=closed).contains(points / 10, 0.1).tolist() == above.tolist()
    assert Target(upper=bound, closed=closed).contains(points / 10, 0.1).tolist() == below.tolist()


@given(unions, st.integers(-5, 5), st.sampled_from([1.0, 2.0, 4.0]))
def test_on_a_grid_the_target_moves_with_its_points(
    parts: list[Target], steps: int, grid: float
) -> None:
    # Ends at odd numbers lie halfway between points of the grid 2, where rounding is to even.
    target, points, amount = joined(parts), grid * np.arange(-9, 9), steps * grid
    moved = target.shift(amount, grid)
    assert moved.contains(points + amount).tolist() == target.contains(points, grid).tolist()


@given(targets(), st.integers(-5, 5).map(float))
def test_shift_moves_the_target_with_the_values(target: Target, amount: float) -> None:
    moved = target.shift(amount)
    assert moved.contains(POINTS + amount).tolist() == target.contains(POINTS).tolist()


def test_between_includes_both_ends() -> None:
    assert Target.between(0, 5) == Target(0, 5, "both")
    with refuses(TargetError, None, "[5, 0]"):
        Target.between(5, 0)


def test_complement_of_the_line_is_empty() -> None:
    assert ~Target() == Target.empty()
    assert not Target.empty()
    assert not Target.empty().contains([0.0, math.inf]).any()
    assert Target.empty().complement() == Target()


def test_touching_components_merge_only_where_no_point_is_missing() -> None:
    assert Target(0, 1) | Target(1, 2) == Target(0, 2)
    assert Target(0, 1, "left") | Target(1, 2) == Target(0, 2)
    gap = Target(0, 1, "left") | Target(1, 2, "right")
    assert len(gap.components) == 2
    assert gap.contains([0.9, 1.0, 1.1]).tolist() == [True, False, True]


def test_nan_lies_in_no_target() -> None:
    assert not Target().contains(math.nan)


def test_infinite_values_lie_in_half_lines_on_their_side() -> None:
    assert Target.at_least(0).contains([-math.inf, math.inf]).tolist() == [False, True]
    assert Target(0, 1).contains([-math.inf, math.inf]).tolist() == [False, False]


def test_grid_makes_sums_of_decimals_meet_their_target() -> None:
    total = sum([0.1] * 3)
    assert not Target.at_most(0.3).contains(total)
    assert Target.at_most(0.3).contains(total, grid=1e-9)
    assert not Target(0.3, 1, "right").contains(total, grid=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:5", Target(0, 5)),
        (" -1.5 : 2e3 ", Target(-1.5, 2000)),
        ("-40:", Target.at_least(-40)),
        (":7", Target.at_most(7)),
        (":3,5:8", Target.at_most(3) | Target(5, 8)),
        ("-inf:3", Target.at_most(3)),
    ],
)
def test_parse_reads_what_people_type(text: str, expected: Target) -> None:
    assert Target.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "''"),
        (":", "':'"),
        ("5", "'5'"),
        ("a:b", "'a' in 'a:b'"),
        ("1:2:3", "'1:2:3'"),
        ("5:3", "[5, 3]"),
        ("nan:3", "NaN"),
        ("0:1,", "'0:1,'"),
    ],
)
def test_parse_refuses_with_what_it_got(text: str, shown: str) -> None:
    with refuses(TargetError, None, shown):
        Target.parse(text)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("<=8", " :8 "),
        ("< 8.5", " :8.5 "),
        ("at most 8", " :8 "),
        (">=-60", " -60: "),
        ("At least 60", " 60: "),
        ("5-8", " 5:8 "),
        ("[5, 8]", " 5:8 "),
        ("-5..-3", " -5:-3 "),
        ("8", " 8: "),
        ("8", " :8 "),
    ],
)
def test_another_way_of_writing_is_answered_with_ours(text: str, spelled: str) -> None:
    with refuses(TargetError, None, repr(text), spelled):
        Target.parse(text)
    Target.parse(spelled)


@pytest.mark.parametrize(
    ("build", "refusal"),
    [
        (lambda: Target(5, 3), (TargetError, None, "[5, 3]")),
        (lambda: Target(math.nan, 3), (TargetError, "lower", "NaN")),
        (lambda: Target("x", 3), (TargetError, "lower", "'x'")),
        (
            lambda: Target(1, 1, "left"),
            (TargetError, "closed", "point 1", "closed='both'", "'left'"),
        ),
        (
            lambda: Target(0, 1, "open"),
            (TargetError, "closed", "both, left, right, neither", "'open'"),
        ),
        (lambda: Target(math.inf), (TargetError, None, "[inf, inf]")),
        (lambda: Target(0, 1).shift(math.inf), (TargetError, "amount", "inf")),
    ],
)
def test_a_target_that_is_no_set_is_refused(build, refusal) -> None:
    with refuses(*refusal):
        build()


def test_target_is_an_immutable_value() -> None:
    target = Target(0, 1)
    with pytest.raises(AttributeError, match="immutable"):
        target.components = ()
    assert copy.deepcopy(target) == target
    assert target != (0, 1)
    with pytest.raises(TypeError):
        target | 3
    with pytest.raises(TypeError):
        target & 3


def test_text_shows_every_component() -> None:
    assert str(Target(0, 1, "left") | Target.at_least(3)) == "[0, 1) | [3, inf)"
    assert repr(Target.empty()) == "Target('empty')"


def test_ends_describe_the_hull() -> None:
    target = Target(0, 1, "right") | Target.at_least(3)
    assert (target.lower, target.upper, target.closed) == (0.0, math.inf, "neither")


def test_a_lone_number_is_told_what_it_may_mean() -> None:
    with refuses(TargetError, None, "'-60'", " -60: ", " :-60 "):
        Target.parse("-60")
