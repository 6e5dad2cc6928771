"""Answers row by row, and measures by any column."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ontarget import AlarmRule, Below, Evaluation, GoalMonitor, Promised, RuledOut, Target
from ontarget.errors import InputError
from refusals import refuses
from tests.walks import replay, walks

TARGET = Target.at_least(0.0)


@cache
def evaluated() -> tuple[GoalMonitor, Evaluation]:
    monitor = GoalMonitor().fit(walks(400, ragged=True), progress=False)
    return monitor, monitor.evaluate(walks(60, seed=5, ragged=True), TARGET)


RULES = [Below(0.6), Below(0.5, for_steps=2), Below(0.4, clear_above=0.6), RuledOut(0.2)]


@pytest.mark.parametrize("rule", [*RULES, Promised(0.1)], ids=str)
def test_rows_say_what_a_live_watch_says(rule: AlarmRule) -> None:
    monitor, found = evaluated()
    rows = found.to_frame(rule)
    watch = monitor.watch(TARGET, alarm=rule)
    alarms = 0
    for i, name in enumerate(found.ids.tolist()):
        own = rows.filter(rows["episode"] == name)
        for said, row in zip(
            replay(watch, found.episodes, i)[:-1], own.iter_rows(named=True), strict=True
        ):
            assert row["status"] == str(said.status)
            assert row["p"] == (None if np.isnan(said.p) else pytest.approx(said.p, abs=1e-12))
            if row["p"] is not None:
                assert (row["low"], row["high"]) == pytest.approx((said.low, said.high))
                assert row["spread_low"] <= row["p"] <= row["spread_high"]
            assert row["met"] == found.met[i]
            alarms += row["status"] == "ALARM"
    assert alarms


def test_without_a_rule_no_row_is_in_alarm() -> None:
    _, found = evaluated()
    assert set(found.to_frame()["status"]) <= {"OK", "UNKNOWN"}


def test_a_rule_of_ones_own_is_on_from_its_first_alarm() -> None:
    class Falling(AlarmRule):
        def alarming(self, outlook):
            return outlook.p < 0.5

    _, found = evaluated()
    rows = found.to_frame(Falling())
    first = found.alarms(Falling()).first
    for name, step in zip(found.ids.tolist(), first.tolist(), strict=True):
        on = rows.filter((rows["episode"] == name) & (rows["status"] == "ALARM"))["step"]
        assert on.min() == (None if step < 0 else step)


def test_parts_add_up_to_the_whole() -> None:
    _, found = evaluated()
    halves = found.by(np.arange(60) % 2)
    assert [part.value for part in halves] == ["0", "1"]
    assert sum(part.episodes for part in halves) == 60
    known = int((~np.isnan(found.p)).sum())
    assert sum(part.forecasts for part in halves) == known
    brier = sum(part.brier.value * part.forecasts for part in halves) / known
    assert brier == pytest.approx(found.brier().value)
    (whole,) = found.by(np.full(60, "all"))
    assert whole.ece == found.ece()
    assert whole.brier == pytest.approx(found.brier())


def test_many_numbers_are_measured_by_quarters_and_gaps_by_themselves() -> None:
    _, found = evaluated()
    values = np.arange(60.0)
    values[:5] = np.nan
    parts = found.by(values)
    assert len(parts) == 5
    assert parts[-1].value == "missing"
    assert parts[0].value.startswith("5 to ")
    steps = np.broadcast_to(np.arange(len(found.p))[:, None], found.p.shape)
    assert [part.value for part in found.by(steps)] == [str(t) for t in range(len(found.p))]


def test_columns_that_do_not_fit_are_refused() -> None:
    _, found = evaluated()
    with refuses(InputError, "values", 60, "(59,)"):
        found.by(np.zeros(59))
    names = np.arange(found.p.size).reshape(found.p.shape).astype(str)
    with refuses(InputError, "by", "'values'", 100, 215):
        found.by(names)
