from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Goal, Target
from ontarget.errors import TargetError
from refusals import refuses

bounds = st.integers(-3, 3)
conditions = st.builds(
    lambda name, sign, bound: Goal.parse(f"{name}{sign}{bound}"),
    st.sampled_from("abc"),
    st.sampled_from(["<", "<=", ">", ">="]),
    bounds,
)
POINTS = {
    name: values.ravel()
    for name, values in zip(
        "abc", np.meshgrid(*[np.arange(-4, 4.5, 0.5)] * 3, indexing="ij"), strict=True
    )
}


@given(conditions, conditions, conditions)
def test_goals_combine_like_the_sets_they_stand_for(a: Goal, b: Goal, c: Goal) -> None:
    inside = [one.contains(POINTS) for one in (a, b, c)]
    expected = (inside[0] & inside[1]) | ~inside[2]
    if not (inside[0] & inside[1]).any():
        with refuses(TargetError, None, "contradictory"):
            _ = a & b
        return
    if expected.all():
        with refuses(TargetError, None, "every outcome"):
            _ = (a & b) | ~c
        return
    goal = (a & b) | ~c
    assert np.array_equal(goal.contains(POINTS), expected)
    covered = [Goal(dict(box)).contains(POINTS) for box in goal.disjoint()]
    assert np.array_equal(np.sum(covered, axis=0), expected)  # each point in one box, once
    for name in goal.names:
        reached = np.unique(POINTS[name][expected])
        assert goal.projection(name).contains(reached).all()


@given(conditions, conditions)
def test_a_goal_of_a_goal_and_its_opposite_is_refused(a: Goal, b: Goal) -> None:
    with refuses(TargetError, None, "contradictory"):
        _ = a & ~a
    with refuses(TargetError, None, "every outcome"):
        _ = a | ~a
    assert ~~a == a
    if (a.contains(POINTS) & b.contains(POINTS)).any():
        assert a & b == b & a


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("return>=200 & energy<=50", "energy <= 50 and return >= 200"),
        ("10 <= e <= 50", "e in 10:50"),
        ("e in 1:2, 5: & x > 1", "x>1 & (e in 5:,1:2)"),
        ("~(a>1 | b<2)", "not a > 1 and b >= 2"),
        ("1e2 > a", "a < 100"),
        ("a>=1 | a>=0", "a>=0"),
        ("a=3", "a in 3:3"),
    ],
)
def test_the_same_goal_can_be_written_in_several_ways(text: str, same: str) -> None:
    assert Goal.parse(text) == Goal.parse(same)
    assert hash(Goal.parse(text)) == hash(Goal.parse(same))
    assert Goal.is_one(text)


def test_a_plain_target_is_no_goal() -> None:
    assert not any(map(Goal.is_one, ["-40:", "1e5:", "3:5,7:", ":inf"]))


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a>=5 & a<=3", (TargetError, None, "contradictory", "a >= 5 & a <= 3")),
        ("a>=", (TargetError, None, "'a>='", "number", "'the end'")),
        ("(a>1", (TargetError, None, "'(a>1'", "parenthesis")),
        ("a>1 b", (TargetError, None, "'a>1 b'", "'b'")),
        ("$", (TargetError, None, "'$'")),
        ("5 <= a <= 3", (TargetError, None, "empty", "'a'")),
    ],
)
def test_what_cannot_be_a_goal_is_refused_in_words(text: str, refusal: tuple) -> None:
    with refuses(*refusal):
        Goal.parse(text)


def test_names_that_python_keeps_take_an_underscore() -> None:
    goal = Goal(return_=Target.at_least(1), energy=Target.at_most(2))
    assert goal == Goal({"return": Target.at_least(1), "energy": Target.at_most(2)})
    assert goal.names == ("energy", "return")
    assert Goal(energy=Target(1, 2)).only == ("energy", Target(1, 2))
    assert goal.only is None


def test_goals_compare_on_the_grid() -> None:
    goal = Goal(a=Target.at_least(0.3), b=Target.at_most(1))
    outcomes = {"a": [0.1 + 0.2 - 1e-12], "b": [1.0]}
    assert not goal.contains(outcomes)[0]
    assert goal.contains(outcomes, {"a": 1e-9, "b": 1e-9})[0]
    with refuses(TargetError, None, "'b'"):
        goal.contains({"a": [1.0]})


def test_a_goal_is_a_value() -> None:
    goal = Goal.parse("a>1 & b<2 | c>3")
    assert pickle.loads(pickle.dumps(goal)) == goal == copy.deepcopy(goal)
    with pytest.raises(AttributeError, match="immutable"):
        goal.boxes = ()  # type: ignore[misc]
    with refuses(TargetError, None, "'a'", "got 3"):
        Goal(a=3)  # type: ignore[arg-type]


def rich(gain: np.ndarray, spent: np.ndarray) -> np.ndarray:
    return np.asarray(gain > 2 * spent)


def test_functions_combine_like_the_sets_they_stand_for() -> None:
    goal, box = Goal.where(rich), Goal.parse("spent <= 1")
    outcomes = {"gain": np.array([3.0, 3.0, 9.0]), "spent": np.array([1.0, 2.0, 2.0])}
    assert goal.contains(outcomes).tolist() == [True, False, True]
    assert (goal & box).contains(outcomes).tolist() == [True, False, False]
    assert (box | goal).contains(outcomes).tolist() == [True, False, True]
    assert (~goal).contains(outcomes).tolist() == [False, True, False]
    assert (goal & box).names == ("gain", "spent")
    assert str(~(goal & box)) == "~((rich(gain, spent)) & (spent <= 1))"
    assert goal == Goal.where(rich) == pickle.loads(pickle.dumps(goal)) != ~goal
    assert len({goal, Goal.where(rich), goal & box}) == 2
    with refuses(TargetError, None, "'spent'"):
        goal.contains({"gain": [1.0]})


def test_a_function_that_cannot_be_a_goal_is_refused_in_words() -> None:
    with refuses(TargetError, None, "Goal.where", "lambda"):
        Goal.where(lambda *outcomes: outcomes)
    with refuses(TargetError, None, "Goal.where", "lambda"):
        Goal.where(lambda: True)
    with refuses(TargetError, None, "of 2", "float64", "(2,)"):
        Goal.where(lambda gain: gain).contains({"gain": [1.0, 2.0]})
    with refuses(TargetError, None, "of 2", "bool", "()"):
        Goal.where(lambda gain: True).contains({"gain": [1.0, 2.0]})
