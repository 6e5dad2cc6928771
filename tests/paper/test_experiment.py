from __future__ import annotations

import numpy as np
import pytest

from ontarget import GoalMonitor, QuantileForest, RawInverse
from ontarget.evaluation import brier, ece, log_loss
from ontarget.paper.experiment import (
    FULL,
    METHODS,
    Part,
    Partition,
    calibrated_at,
    partition_of,
    run_partition,
    simulated,
)
from paper.small import TAMARISK


@pytest.fixture(scope="module")
def partition() -> Partition:
    return partition_of(TAMARISK, simulated(TAMARISK, "tamarisk"), 1, "atoms")


@pytest.fixture(scope="module")
def part(partition: Partition) -> Part:
    return run_partition(TAMARISK, partition, lambda: None)


def test_a_part_holds_what_the_public_objects_answer(partition: Partition, part: Part) -> None:
    for t in (0, 2, 49):
        pcqr = calibrated_at(TAMARISK, partition, t)
        rows = partition.rows(partition.test, t)
        asked = pcqr.probability(rows.X, partition.target, rows.offset)
        raw = RawInverse(pcqr.model, grid=partition.grid).probability(
            rows.X, partition.target, rows.offset
        )
        assert np.array_equal(part.p_low[t], asked.low)
        for i, p in enumerate([*asked, raw.p]):
            assert part.ece_by_step(METHODS[i])[t] == pytest.approx(ece(p, partition.met))
            assert part.mean_by_step(METHODS[i])[t] == pytest.approx(p.mean())
            assert part.brier[i, t] == pytest.approx(brier(p, partition.met))
            assert part.log_loss[i, t] == pytest.approx(log_loss(p, partition.met, 60))


def test_pooled_error_is_that_of_all_forecasts_together(part: Part) -> None:
    met = np.broadcast_to(part.met, part.low.shape)
    assert part.pooled_ece("low") == pytest.approx(ece(part.p_low.ravel(), met.ravel()))


def test_the_interval_is_that_of_the_first_step(partition: Partition, part: Part) -> None:
    rows = partition.rows(partition.test, 0)
    interval = calibrated_at(TAMARISK, partition, 0).interval(rows.X, 0.8)
    assert part.interval[0] == interval.contains(rows.y).mean()
    assert part.interval[1] == pytest.approx((interval.upper - interval.lower).mean())


def test_every_step_ticks_once(partition: Partition) -> None:
    ticks: list[int] = []
    run_partition(TAMARISK, partition, lambda: ticks.append(1))
    assert len(ticks) == partition.test.horizon


def test_the_papers_forest_is_that_of_the_paper_preset(partition: Partition) -> None:
    split = partition.train.split(train=20, calibrate=25, assure=0, seed=0)
    forest = QuantileForest(FULL.n_trees, FULL.min_leaf)
    ours, preset = (
        monitor.fit(split=split, steps=[7], progress=False)
        for monitor in (GoalMonitor(forest, steps_per_model=1), GoalMonitor(preset="paper"))
    )
    rows = partition.test.at(7)
    asked = (7, rows.states, rows.behavior, partition.target)
    assert np.array_equal(ours.outlook(*asked).p, preset.outlook(*asked).p)
