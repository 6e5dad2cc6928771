from __future__ import annotations

from dataclasses import replace

import pytest

from ontarget.paper.alarms import summarize_watches, watch_partition
from ontarget.paper.partitions import partition_of, simulated
from paper.small import TAMARISK

PLAN = replace(TAMARISK, episodes=400, train=100, calibrate=120)


@pytest.fixture(scope="module")
def found() -> dict:
    return watch_partition(
        PLAN, partition_of(PLAN, simulated(PLAN, "tamarisk"), 0, "atoms"), "paper"
    )


def test_a_rate_that_cannot_be_promised_is_left_out(found: dict) -> None:
    # Of 60 assure episodes some 48 meet the target: enough for 5 %, not for 1 %.
    assert set(found["alarms"]) == {"0.05", "0.1"}


def test_more_false_alarms_detect_no_less(found: dict) -> None:
    strict, loose = found["alarms"]["0.05"], found["alarms"]["0.1"]
    assert strict["threshold"] <= loose["threshold"]
    assert strict["detections"] <= loose["detections"]
    assert strict["false_alarms"] <= loose["false_alarms"]
    assert loose["detections"] > 0.5


def test_statements_on_whole_episodes_are_shares(found: dict) -> None:
    for name, value in found["whole_episode"].items():
        if name != "decided_at_step":
            assert 0.0 <= value <= 1.0


def test_the_summary_keeps_rates_that_every_partition_has(found: dict) -> None:
    other = {**found, "alarms": {"0.1": found["alarms"]["0.1"]}}
    table = summarize_watches([found, other])
    assert set(table["alarms"]) == {"0.1"}
    assert table["alarms"]["0.1"]["threshold"]["sd"] == 0.0
