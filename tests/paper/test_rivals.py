from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ontarget.conformal.rivals import CQR
from ontarget.evaluation import brier, coverage
from ontarget.paper.partitions import Partition, partition_of, simulated
from ontarget.paper.plan import Plan
from ontarget.paper.rivals import LEVELS, compare, summarize_rivals
from paper.small import TAMARISK

PLAN = replace(TAMARISK, study_steps=(0, 30), linear_levels=3)


@pytest.fixture(scope="module")
def noisy() -> Partition:
    return partition_of(PLAN, simulated(PLAN, "tamarisk"), 0, "noise")


@pytest.fixture(scope="module")
def found(noisy: Partition) -> dict[str, dict[str, list[list[list[float]]]]]:
    return compare(PLAN, noisy, lambda: None)


def forest_at(plan: Plan, partition: Partition, t: int) -> object:
    rows = partition.rows(partition.train, t)
    return plan.forest(0, t).fit(rows.X, rows.y, ids=rows.ids, categorical=partition.categorical)


def test_intervals_are_those_of_the_rival_itself(noisy: Partition, found: dict) -> None:
    for place, t in enumerate(PLAN.study_steps):
        rows, test = noisy.rows(noisy.calibrate, t), noisy.rows(noisy.test, t)
        cqr = CQR(forest_at(PLAN, noisy, t)).calibrate(rows.X, rows.y)
        for column, level in enumerate(LEVELS):
            lower, upper = cqr.interval(test.X, level)
            share, width = found["intervals"]["CQR"][place][column]
            assert share == coverage(lower, upper, test.y).value
            assert width == pytest.approx(np.clip(upper - lower, 0.0, None).mean())


def test_scores_are_pooled_over_the_steps(noisy: Partition, found: dict) -> None:
    forecasts = []
    for t in PLAN.study_steps:
        test = noisy.rows(noisy.test, t)
        model = forest_at(PLAN, noisy, t)
        lower, upper = noisy.target.lower, noisy.target.upper
        low, high = (end - test.offset for end in (lower, upper))
        forecasts.append(model.cdf(test.X, high) - model.cdf(test.X, low))  # type: ignore[attr-defined]
    expected = brier(np.clip(np.concatenate(forecasts), 0, 1), np.tile(noisy.met, 2))
    assert found["scores"]["raw forest"]["brier"] == pytest.approx(expected, abs=1e-3)


def test_with_atoms_only_probabilities_are_compared(noisy: Partition) -> None:
    exact = partition_of(PLAN, simulated(PLAN, "tamarisk"), 0, "atoms")
    found = compare(replace(PLAN, study_steps=(0,)), exact, lambda: None)
    assert not found["intervals"]
    assert set(found["scores"]) == {
        "PCQR",
        "raw forest",
        "conformal predictive system",
        "PCQR, linear",
        "raw linear",
        "Venn–Abers",
    }


def test_the_summary_averages_over_partitions(found: dict) -> None:
    other = {
        "intervals": {name: np.array(v) + 1.0 for name, v in found["intervals"].items()},
        "scores": {
            name: {m: v + 1.0 for m, v in scores.items()}
            for name, scores in found["scores"].items()
        },
    }
    table = summarize_rivals(PLAN, [found, other])
    first = found["intervals"]["PCQR"][1][2][0]
    assert table["intervals"]["PCQR"]["coverage"][1][2] == pytest.approx(first + 0.5)
    assert table["intervals"]["PCQR"]["coverage_sd"][1][2] == pytest.approx(np.sqrt(0.5))
    assert table["scores"]["PCQR"]["ece"]["mean"] == pytest.approx(
        found["scores"]["PCQR"]["ece"] + 0.5
    )
