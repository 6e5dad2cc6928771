"""Rows of one block: which of them models learn from, and what answers for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import GoalMonitor, Target
from ontarget._grid import snap
from ontarget.episodes import Episodes
from ontarget.fitted.blocks import blended_blocks
from ontarget.fitting.tasks import (
    BlockTask,
    StepRows,
    drawn_near_ends,
    fit_block,
    fold_of,
    pace_of,
    step_rows,
    thinned,
)
from ontarget.models import Marginal, QuantileForest


def rows(n: int, steps: int, seed: int = 0) -> tuple[StepRows, ...]:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**63, n).astype(np.uint64)
    return tuple(
        StepRows(t, rng.random((n, 2)), rng.normal(size=n), keys, np.arange(n))
        for t in range(steps)
    )


@given(st.integers(1, 200), st.integers(1, 60))
def test_the_weights_of_overlapping_blocks_sum_to_one_and_fall_evenly(horizon, spacing) -> None:
    blocks, law = blended_blocks(horizon, spacing, horizon)
    for t in range(horizon):
        entries = law.at(t)
        assert 1 <= len(entries) <= 2
        assert abs(sum(weight for weight, _ in entries) - 1.0) < 1e-12
        assert all(t in blocks[block].train_steps for _, block in entries)
    dense = np.zeros((horizon, len(blocks)))
    for t in range(horizon):
        for weight, block in law.at(t):
            dense[t, block] = weight
    # No border shows: from one step to the next a weight changes by one part of the gap at most.
    gap = (horizon - 1) / max(1, len(blocks) - 1)
    assert np.all(np.abs(np.diff(dense, axis=0)) <= 1.0 / max(gap, 1.0) + 1e-9)


@given(st.integers(1, 9))
def test_thinning_keeps_every_episode_and_spreads_its_steps(every) -> None:
    whole = rows(200, 18)
    kept = thinned(whole, every, seed=1)
    taken = np.concatenate([one.index for one in kept])
    assert np.all(np.bincount(taken, minlength=200) >= 18 // every)
    assert np.all(np.bincount(taken, minlength=200) <= -(-18 // every))
    for one in kept:
        assert np.array_equal(one.keys, whole[one.step].keys[one.index])


def test_models_without_trees_answer_for_an_episode_from_the_other_folds() -> None:
    learn = rows(60, 2)
    task = BlockTask(0, Marginal(), (), learn, {"learn": learn})
    found = fit_block(task).limits["learn"]
    for step, (_, right) in zip(learn, found.values(), strict=True):
        folds = fold_of(step.keys)
        for i in range(step.y.size):
            others = np.concatenate([one.y[folds != folds[i]] for one in learn])
            assert abs(right[i] - np.mean(others <= step.y[i])) < 0.02


def test_a_forest_answers_for_an_episode_from_trees_that_never_saw_it() -> None:
    """Outcomes are noise, so honest ranks are uniform, and those of trees that saw them are not."""
    learn = rows(300, 1)
    forest = QuantileForest(n_trees=100, min_leaf=10, smooth=False, seed=1)
    task = BlockTask(0, forest, (), learn, {"learn": learn})
    found = fit_block(task)
    left, right = found.limits["learn"][0]
    seen = found.model.cdf_limits(learn[0].X, learn[0].y)
    own = np.mean(seen[1] - seen[0]), np.mean(right - left)
    assert own[0] > 0.03  # trees that saw an outcome put mass on it
    assert own[1] == 0.0
    middle = 0.5 * (left + right)
    assert abs(np.mean(np.abs(middle - 0.5)) - 0.25) < 0.04


def ragged(n: int = 60) -> Episodes:
    """Runs of 1 to 6 steps."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, size=n)
    return Episodes.from_arrays(
        [rng.normal(size=(t, 1)) for t in lengths],
        [rng.normal(size=t) for t in lengths],
        behavior="sum",
    )


def test_runs_that_thinning_leaves_out_are_answered_by_every_tree() -> None:
    runs = ragged()
    asked = step_rows(runs, range(6), grid=runs.grid, reads_step=True)
    train = thinned(asked, 5, seed=0)
    learned = np.concatenate([rows.keys for rows in train])
    left_out = ~np.isin(asked[0].keys, learned)
    assert 0 < left_out.sum() < len(runs)  # short runs, whose turn never came
    model = QuantileForest(20, min_leaf=3)
    found = fit_block(BlockTask(0, model, (), train, {"learn": asked}))
    (left, right), rows = found.limits["learn"][0], asked[0].take(np.flatnonzero(left_out))
    wanted = found.model.cdf_limits(rows.X, rows.y)
    assert np.array_equal([left[left_out], right[left_out]], wanted)
    others = asked[0].take(np.flatnonzero(~left_out))
    honest = found.model.out_of_bag_limits(others.X, others.y, others.keys)
    assert np.array_equal([left[~left_out], right[~left_out]], honest)


def survivors(n: int, seed: int, reward: float = 1.0) -> Episodes:
    """Runs that earn the same at every step until they fall, or reach the time limit of 20."""
    rng = np.random.default_rng(seed)
    states, rewards = [], []
    for _ in range(n):
        path = rng.normal() + np.cumsum(0.6 * rng.normal(size=20))
        length = 20 if np.abs(path).max() <= 3.0 else int(np.argmax(np.abs(path) > 3.0)) + 1
        states.append(path[:length, None])
        rewards.append(np.full(length, reward))
    return Episodes.from_arrays(states, rewards, horizon=20)


def test_what_nearly_every_step_earns_is_the_pace_of_the_runs() -> None:
    assert pace_of(survivors(50, 0)) == 1.0
    assert pace_of(survivors(50, 0, reward=-0.1)) == -0.1
    assert pace_of(ragged()) == 0.0


@pytest.mark.parametrize("reward", [1.0, -0.1])
def test_survival_up_to_the_time_limit_is_told_as_often_as_it_happens(reward: float) -> None:
    """Without the pace, models that several steps share take a survivor for a near miss."""
    past, new = survivors(500, 1, reward), survivors(400, 2, reward)
    target = Target(20 * reward, 20 * reward)
    monitor = GoalMonitor(QuantileForest(n_trees=40, min_leaf=5)).fit(past, progress=False)
    found = monitor.evaluate(new, target, resamples=2)
    known = ~np.isnan(found.p)
    met = np.broadcast_to(found.met, known.shape)
    assert abs(found.p[known].mean() - met[known].mean()) < 0.04
    blind = replace(monitor.fitted, pace=0.0)
    assert blind.at(3).moved == 0.0
    for t in (0, 7, 19):  # live and in the batch alike
        step = new.at(t)
        watch = monitor.watch(target, alarm_below=0.5)
        for s in range(t + 1):
            outlook = watch.step(
                new.at(s).states[new.at(s).index == step.index[0]][0], reward * (s > 0)
            )
        batch = monitor.outlook(t, step.states[:1], step.behavior[:1], target, calibration="target")
        assert outlook.p == batch.p[0]


def test_the_ends_of_an_interval_lie_on_the_grid_where_remainders_are_moved() -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=10, min_leaf=5)).fit(
        survivors(300, 3, -0.1), progress=False
    )
    assert monitor.fitted.pace == -0.1
    new = survivors(200, 4, -0.1)
    for t in (3, 7, 13):
        step, law = new.at(t), monitor.fitted.at(t)
        ends = law.quantile(law.inputs(step.states, step.behavior), [0.2, 0.5, 0.8])
        assert np.array_equal(ends, snap(ends, monitor.fitted.grid))
        # An outcome at an end is reached there, to the last bit.
        left, right = law.cdf_limits(law.inputs(step.states, step.behavior), ends[:, 1])
        assert np.all((left < 0.5 + 1e-9) & (right >= 0.5))


def test_rows_before_an_early_end_are_kept_and_all_rows_count_as_before() -> None:
    """M30: the last few steps of a run show how it falls; thinning would lose most of them."""
    rng = np.random.default_rng(2)
    horizon, n = 200, 150
    lengths = np.where(rng.random(n) < 0.3, rng.integers(20, horizon, n), horizon)
    runs = Episodes.from_arrays(
        [rng.normal(size=(t, 1)) for t in lengths], [np.ones(t) for t in lengths], horizon=horizon
    )
    whole = step_rows(runs, range(horizon), grid=runs.grid, reads_step=True)
    total, most = sum(map(len, whole)), 3_000
    kept = drawn_near_ends(whole, runs, most, seed=0)
    assert abs(sum(map(len, kept)) - most) < 5 * np.sqrt(most)
    weights = np.concatenate([rows.weight for rows in kept])
    assert abs(weights.sum() / total - 1.0) < 0.1
    ends = sum(np.count_nonzero(lengths[rows.index] - rows.step <= 8) for rows in kept)
    plain = sum(np.count_nonzero(lengths[r.index] - r.step <= 8) for r in thinned(whole, 10, 0))
    early = int((lengths < horizon).sum())
    assert ends > 0.8 * 8 * early > 3 * (plain - 8 * (n - early) / 10)
    again = drawn_near_ends(whole[::-1], runs, most, seed=0)
    assert [rows.step for rows in again] == [rows.step for rows in kept][::-1]


@given(st.integers(1, 120), st.integers(1, 40), st.data())
def test_the_last_block_has_all_steps_that_few_runs_reach(horizon, spacing, data) -> None:
    reach = data.draw(st.integers(1, horizon))
    blocks, law = blended_blocks(horizon, spacing, reach)
    assert law.horizon == horizon
    for t in range(reach, horizon):
        assert law.at(t) == ((1.0, blocks[-1].index),)
    assert blocks[-1].train_stop == horizon
    assert [law.at(t) for t in range(reach)] == [
        blended_blocks(reach, spacing, reach)[1].at(t) for t in range(reach)
    ]
