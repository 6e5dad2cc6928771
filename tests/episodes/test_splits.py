from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes
from ontarget.errors import EpisodesError
from refusals import refuses


def runs(n: int, *, ids=None, groups=None) -> Episodes:
    return Episodes.from_arrays(np.zeros((n, 2, 1)), np.ones((n, 2)), ids=ids, groups=groups)


@given(st.integers(3, 60), st.integers(0, 5))
def test_parts_are_disjoint_and_cover_everything(n: int, seed: int) -> None:
    parts = runs(n).split(seed=seed)
    ids = np.concatenate([part.ids for part in parts if part is not None])
    assert sorted(ids.tolist()) == list(range(n))


@given(st.permutations(range(20)))
def test_split_does_not_depend_on_the_order_of_the_rows(order: list[int]) -> None:
    names = np.array([f"run {i}" for i in range(20)])
    one = runs(20, ids=names).split(seed=3)
    other = runs(20, ids=names[order]).split(seed=3)
    for part, same in zip(one, other, strict=True):
        if part is not None:
            assert set(part.ids.tolist()) == set(same.ids.tolist())


def test_another_seed_gives_another_split() -> None:
    one, other = runs(100).split(seed=0), runs(100).split(seed=1)
    assert one.learn.ids.tolist() != other.learn.ids.tolist()
    assert one.learn.ids.tolist() == runs(100).split(seed=0).learn.ids.tolist()


def test_counts_and_fractions_give_what_they_say() -> None:
    parts = runs(10_000).split(train=2500, calibrate=2500, assure=0)
    assert [len(parts.train), len(parts.calibrate), len(parts.rest)] == [2500, 2500, 5000]
    assert parts.assure is None
    parts = runs(101).split(train=0.4, calibrate=0.4, assure=0.2)
    assert parts.rest is None
    assert len(parts.train) + len(parts.calibrate) + len(parts.assure) == 101
    parts = runs(101).split()
    assert [len(parts.learn), len(parts.assure), parts.rest] == [81, 20, None]
    parts = runs(101).split(assure=0)
    assert [len(parts.learn), parts.assure, parts.rest] == [101, None, None]
    parts = runs(101).split(learn=50, assure=0.1)
    assert [len(parts.learn), len(parts.assure), len(parts.rest)] == [50, 10, 41]
    parts = runs(10).split(train=1.0 / 3, calibrate=1, assure=2)
    assert [len(parts.train), len(parts.calibrate), len(parts.assure)] == [3, 1, 2]


def test_stratified_parts_hold_each_group_in_the_same_share() -> None:
    groups = np.array(["a"] * 50 + ["b"] * 10)
    parts = runs(60, groups=groups).split(train=0.4, by_group="stratify")
    assert [np.count_nonzero(part.groups == "b") for part in parts[:3]] == [4, 4, 2]
    assert [len(part) for part in parts[:3]] == [24, 24, 12]
    parts = runs(60, groups=groups).split(by_group="stratify")
    assert [np.count_nonzero(part.groups == "b") for part in parts[:2]] == [8, 2]


def test_whole_groups_stay_together() -> None:
    groups = np.arange(300) // 10
    parts = runs(300, groups=groups).split(train=0.4, by_group="whole", seed=2)
    owners = [set(part.groups.tolist()) for part in parts if part is not None]
    assert sum(len(owner) for owner in owners) == 30
    assert [len(part) for part in parts[:3]] == [120, 120, 60]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"train": 0}, ("train", "0 of 10")),
        ({"learn": 0}, ("learn", "0 of 10")),
        ({"learn": 0.9, "assure": 0.9}, (None, "learn and assure", "18 of 10")),
        ({"learn": 0.5, "train": 0.5}, ("learn", "learn=0.5", "train=0.5")),
        ({"learn": 0.5, "calibrate": 0.5}, ("learn", "learn=0.5", "calibrate=0.5")),
        ({"train": 0.9, "calibrate": 0.9}, (None, "20 of 10")),
        ({"train": 20}, (None, "26 of 10")),
        ({"train": -1}, ("train", "got -1")),
        ({"train": 1.5}, ("train", "got 1.5")),
        ({"train": float("nan")}, ("train", "got nan")),
        ({"assure": 0.01}, ("assure", "0.01 of 10")),
        ({"by_group": "stratify"}, ("by_group", "'stratify'", "none")),
        ({"by_group": "any"}, ("by_group", "'any'")),
    ],
)
def test_a_split_that_cannot_be_is_refused(options, refusal: tuple) -> None:
    with refuses(EpisodesError, *refusal):
        runs(10).split(**options)


def test_counts_cannot_be_stratified() -> None:
    with refuses(EpisodesError, "by_group", "(5, 0.4, 0.2)"):
        runs(10, groups=[0, 1] * 5).split(train=5, by_group="stratify")


def test_a_cluster_is_in_one_part_and_one_run_stands_for_it_where_it_is_held_out() -> None:
    groups = np.repeat([f"day {g}" for g in range(30)], 5)
    runs = Episodes.from_arrays(np.zeros((150, 2, 1)), np.ones((150, 2)), groups=groups)
    parts = runs.split(train=0.4, calibrate=0.3, assure=0.2, seed=3, by_group="cluster")
    assert [len(part) for part in parts if part is not None] == [60, 9, 6, 15]
    held = [set(part.groups.tolist()) for part in parts if part is not None]
    assert sum(len(one) for one in held) == len(set.union(*held)) == 30
    order = np.random.default_rng(0).permutation(150)
    again = runs.take(order).split(train=0.4, calibrate=0.3, assure=0.2, seed=3, by_group="cluster")
    for one, other in zip(parts, again, strict=True):
        assert set(one.ids.tolist()) == set(other.ids.tolist())
