"""Runs that ontarget 0.2 stored: they had a weight, which was 1 unless somebody gave another."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ontarget import GoalMonitor, Target
from ontarget.errors import InputError
from ontarget.live import runs
from ontarget.models import Marginal
from tests.walks import walks

TARGET = Target.at_least(0.0)
MONITOR = GoalMonitor(Marginal(), history=1, min_calibration=5).fit(walks(120, 4), progress=False)


def test_a_run_that_0_2_packed_goes_on() -> None:
    fleet = MONITOR.fleet(TARGET, ["one"])
    fleet.step(np.zeros((1, 2)))
    (packed,) = fleet.standings(["one"]).packed
    at = 1 + 8 * (len(runs._WHOLE) + len(runs._REAL))
    before = runs.PACKED_BEFORE + packed[1:at] + struct.pack("<d", 1.0) + packed[at:]
    other = MONITOR.fleet(TARGET, ["one"])
    other.unpack({"one": before})
    found = [one.step(np.ones((1, 2)), [0.3]) for one in (fleet, other)]
    assert found[0].of(0) == found[1].of(0)


def test_a_run_that_0_2_stored_goes_on_unless_it_had_a_weight() -> None:
    watch = MONITOR.watch(TARGET)
    watch.step(np.zeros(2))
    stored = watch.run_state.to_json()
    assert (
        runs.RunState.from_json({**stored, "weight": 1.0, "regime": "restart"}) == watch.run_state
    )
    with pytest.raises(InputError, match=r"ontarget 0\.2"):
        runs.RunState.from_json({**stored, "weight": 1.5})
