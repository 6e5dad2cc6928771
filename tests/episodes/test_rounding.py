"""The grid of recorded episodes (method M1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, Target
from ontarget.episodes.rounding import check_sides
from ontarget.errors import TargetError
from ontarget.reading import prepare
from refusals import refuses


def recorded(rewards: np.ndarray, behavior: str = "sum", **options: object) -> Episodes:
    states = np.arange(rewards.size, dtype=float).reshape(*rewards.shape, 1)
    return Episodes.from_arrays(states, rewards, behavior=behavior, **options)  # type: ignore[arg-type]


def decimal(n: int = 60, steps: int = 8, decimals: int = 2) -> np.ndarray:
    return np.round(np.random.default_rng(0).normal(size=(n, steps)), decimals)


@pytest.mark.parametrize("behavior", ["sum", "max", "min", "last"])
@pytest.mark.parametrize("decimals", [0, 1, 2, 5])
def test_the_grid_keeps_the_decimals_of_the_rewards(behavior: str, decimals: int) -> None:
    for size in (1.0, 1e8):
        runs = recorded(decimal(decimals=decimals) + size, behavior)
        assert runs.grid <= 10.0**-decimals


@pytest.mark.parametrize("behavior", ["sum", "max", "min", "last", "mean", "discounted:0.9"])
def test_one_huge_reward_leaves_the_grid_fine(behavior: str) -> None:
    for rewards in (decimal(), np.random.default_rng(0).normal(size=(60, 8))):
        rewards[3, 7] = 1e9
        runs = recorded(rewards, behavior)
        assert runs.grid <= 0.01
        assert np.abs(np.delete(runs.outcomes - runs._unsnapped_outcomes, 3)).max() <= 0.005


def test_a_grid_is_never_finer_than_the_noise_of_the_longest_sums() -> None:
    rewards = decimal()
    for size in (1e9, 1e12, 1e15):
        rewards[3, 2] = size
        runs = recorded(rewards)
        assert runs.grid >= 4 * 8 * 2.0**-53 * np.abs(rewards).sum(axis=1).max()
    assert recorded(rewards, "max").grid <= 0.01  # nothing is added up


def test_a_first_step_that_never_came_does_not_hide_the_others() -> None:
    rewards = np.zeros((60, 8))
    rewards[:20, 3] = 1.0
    runs = recorded(rewards, "first:>0.5:1e12")
    assert Target.at_most(5).contains(runs.outcomes, runs.grid).sum() == 20


@given(st.permutations(range(12)))
def test_the_order_of_the_episodes_does_not_matter(order: list[int]) -> None:
    rewards = decimal(12)
    rewards[2, 1], rewards[5, 0] = 1e11, 0.125
    assert recorded(rewards[order]).grid == recorded(rewards).grid


@pytest.mark.parametrize("behavior", ["sum", "min", "mean", "discounted:0.9"])
def test_a_step_and_the_outcomes_have_the_same_digits(behavior: str) -> None:
    rewards = np.random.default_rng(1).normal(size=(60, 8)) * np.geomspace(0.1, 40, 60)[:, None]
    runs = recorded(rewards, behavior)
    for some in (runs, runs.take([3, 4]), runs.sample(5), runs.compact(), runs.split().learn):
        step = some.at(2)
        assert step.outcomes.tolist() == some.outcomes[step.index].tolist()
        assert set(step.outcomes) <= set(runs.at(0, grid=some.grid).outcomes)
    assert runs.take([0]).grid == runs.grid


def test_some_episodes_of_several_behaviors_keep_the_digits_of_all() -> None:
    rng = np.random.default_rng(1)
    signals = {"reward": rng.normal(size=(60, 8)) * 9, "d": rng.normal(size=(60, 8))}
    runs = Episodes.from_arrays(
        rng.normal(size=(60, 8, 1)), signals, behavior={"gain": "sum", "low": "min:d"}
    )
    for name in runs.names:
        whole = runs.only(name)
        for i in range(60):
            assert runs.take([i]).only(name).outcomes[0] == whole.outcomes[i]


def test_a_prepared_log_has_the_grid_of_the_same_log_in_memory(tmp_path: Path) -> None:
    for place, extra in enumerate((0.25, 1e9, 1 / 3, 1e14)):
        rewards = decimal()
        rewards[5, 3] = extra
        path = tmp_path / f"{place}.parquet"
        recorded(rewards).write(path)
        found = prepare(path, tmp_path / f"p{place}", progress=False)
        assert found.episodes.grid == Episodes.read(path).grid
        learn = Episodes.read(path).take(np.isin(np.arange(60), found.split.learn.ids.astype(int)))
        assert found.split.learn.grid == learn._own_grid
        assert found.split.assure is not None
        assert found.split.assure.grid == found.split.learn.grid


@given(st.integers(-300, 300), st.integers(0, 3), st.sampled_from(["both", "neither"]))
def test_with_decimal_rewards_rounding_never_changes_a_side(
    units: int, digits: int, closed: str
) -> None:
    runs = recorded(decimal(), horizon=8)
    target = Target(lower=units / 10**digits, closed=closed)  # type: ignore[arg-type]
    check_sides(runs._unrounded, target, runs.grid)


def test_outcomes_that_were_rounded_before_count_as_unsure_beside_a_bound() -> None:
    coarse = recorded(np.array([[-1e9, 0.0], [10.0, 0.0], [0.0, 0.0], [20.0, 10.0]]))._unrounded
    for target in (Target.at_least(3), Target.at_most(7), Target.at_least(10)):
        with pytest.raises(TargetError):
            check_sides(coarse, target, 10.0, rounded=True)
    check_sides(coarse, Target.at_least(-1e6), 10.0, rounded=True)
    fine = recorded(decimal())._unrounded
    for target in (Target.at_least(0), Target.at_least(0.01), Target(-0.5, 0.5)):
        check_sides(fine, target, 1e-8, rounded=True)


def test_a_bound_between_two_points_counts_with_all_its_digits() -> None:
    rewards = np.zeros((3, 2))
    rewards[:, 0] = [1 / 3, 1 / 3 + 4e-10, 1 / 3 - 4e-10]
    runs = recorded(rewards)
    with refuses(TargetError, None, "1 of 3", "episode 1"):
        check_sides(runs._unrounded, Target.at_least(1 / 3), runs.grid * 1e3)
    # As the library shows it, an outcome is on the grid, and may be asked for.
    check_sides(runs._unrounded, Target.at_least(runs.outcomes[0]), runs.grid)
