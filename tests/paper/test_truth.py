from __future__ import annotations

import numpy as np
import pytest

from ontarget.domains import Tamarisk, TamariskParameters, simulate, true_probability
from ontarget.domains.simulation import simulate_with_snapshots
from ontarget.paper import truth
from ontarget.paper.partitions import Partition
from ontarget.paper.truth import true_panels, truth_study
from paper.small import TAMARISK

RIVER = Tamarisk(TamariskParameters(edges=3, horizon=20))


def _partition(seed: int) -> Partition:
    runs = simulate(RIVER, 300, seed=seed)
    parts = runs.split(train=50, calibrate=50, assure=0)
    assert parts.rest is not None
    return Partition(0, "atoms", 0, runs.grid, parts.train, parts.calibrate, parts.rest, None)


def test_the_exact_truth_is_that_of_rollouts() -> None:
    partition = _partition(0)
    panel = true_panels(RIVER, [partition], lambda: None)[0]
    assert panel.shape == (20, 200)
    run = simulate_with_snapshots(RIVER, 300, seed=0, snapshots=[4])
    step = run.episodes.at(4, grid=partition.grid)
    rollouts = true_probability(
        RIVER, run.snapshots[4], step.behavior, 4, partition.target, rollouts=400
    )
    off = panel[4] - rollouts.p[partition.test.ids]
    assert np.abs(off).max() < 6 * 0.5 / np.sqrt(400)
    assert abs(off.mean()) < 0.01


def test_steps_in_several_goes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    partition, ticks = _partition(1), []
    found = true_panels(RIVER, [partition], lambda: ticks.append(1))[0]
    assert len(ticks) == 20
    monkeypatch.setattr(truth, "STEPS_AT_ONCE", 6)
    assert np.array_equal(found, true_panels(RIVER, [partition], lambda: None)[0])


def test_at_the_last_step_nothing_is_left_to_chance() -> None:
    partition = _partition(1)
    panel = true_panels(RIVER, [partition], lambda: None)[0]
    assert np.allclose(panel[-1], partition.met, atol=1e-12)


def test_the_truth_is_calibrated_up_to_chance() -> None:
    found = truth_study(TAMARISK, RIVER, [_partition(0), _partition(1)], lambda: None)
    assert len(found["ece"]["each"]) == 2
    assert found["ece_all_partitions"] < 0.06
