from __future__ import annotations

import pytest

from ontarget.paper.checks import checks_table, first_items_seconds, limits_table
from ontarget.paper.distance import DEFAULT, OWN_MAP, UNIT
from paper.test_tables import TRUTH, results

WITHIN, PRICE = "within 2 standard errors", "no, by the price of ranks"


@pytest.mark.parametrize(
    ("ece", "difference", "verdicts"),
    [
        (0.001, (-1e-5, 1e-5), ["yes", "yes", "yes", "yes", "yes"]),
        (0.003, (-1e-5, 1e-5), ["yes", "yes", "yes", "no", "yes"]),
        (0.006, (6e-5, 1e-5), ["yes", "no", "no", "no", "no"]),
        (0.001, (4e-5, 1e-5), ["yes", "yes", PRICE, "yes", PRICE]),
        (0.001, (1e-5, 1e-5), ["yes", "yes", WITHIN, "yes", WITHIN]),
    ],
)
def test_checks_say_no_where_they_fail(
    ece: float, difference: tuple[float, float], verdicts: list[str]
) -> None:
    assert [row[-1] for row in checks_table(results(ece, difference)).rows] == verdicts


def test_a_limit_below_the_truths_own_error_is_named_as_such() -> None:
    known = results(0.003)
    known["studies"] = {"tamarisk": {"truth": TRUTH}}
    rows = checks_table(known).rows
    assert "the truth itself: 0.0022 ± 0.0000; 0.0011" in rows[3][1]
    assert rows[3][2] == "yes together; no by partition, like the truth itself"
    assert "truth" not in rows[1][1]


def distances(excess: float, own_map: float) -> dict:
    methods = {UNIT: 0.01, DEFAULT: excess, OWN_MAP: own_map}
    return {"methods": {name: {"excess": {"mean": mean}} for name, mean in methods.items()}}


@pytest.mark.parametrize(("excess", "verdict"), [(0.00045, "yes"), (0.00047, "no")])
def test_the_default_must_come_near_enough(excess: float, verdict: str) -> None:
    asked = results() | {"distance": {"tamarisk": distances(excess, 1.0)}}
    assert checks_table(asked).rows[-1][-1] == verdict


@pytest.mark.parametrize(("own_map", "verdict"), [(0.0019, "yes"), (0.0021, "no")])
def test_the_poles_own_map_must_come_nearer_still(own_map: float, verdict: str) -> None:
    asked = results() | {"distance": {"cartpole": distances(0.0062, own_map)}}
    assert [row[-1] for row in checks_table(asked).rows[-2:]] == ["yes", verdict]


def test_forecasts_that_come_from_no_ranks_pay_no_price_for_them() -> None:
    measured = results(difference=(3e-5, 1e-5))
    found = measured["domains"]["tamarisk"]["atoms"]
    free = {**found, "brier_minus_raw": {**found["brier_minus_raw"], "price": None}}
    measured["studies"] = {"tamarisk": {"default": {"atoms": free}}}
    (row,) = [row for row in checks_table(measured).rows if "default monitor" in row[0]]
    assert "price" not in row[1]
    assert row[2] == "no"


def timing(seconds: float = 40.0, ratio: float = 18.0, step: float = 30.0) -> dict:
    kinds = ("simulation", "noise", "exact atoms", "figures")
    return {
        "seconds": {kind: {"wall": seconds} for kind in kinds},
        "peer": {"tamarisk": {"ratio": ratio}, "skirmish": {}},
        "distance": {"tamarisk": {"step_us": {UNIT: 20.0, DEFAULT: step}}},
    }


@pytest.mark.parametrize(
    ("measured", "verdicts"),
    [
        (timing(), ["yes", "yes", "yes"]),
        (timing(seconds=46.0), ["no", "yes", "yes"]),
        (timing(ratio=9.0), ["yes", "no", "yes"]),
        (timing(step=61.0), ["yes", "yes", "no"]),
    ],
)
def test_limits_say_no_where_time_ran_out(measured: dict, verdicts: list[str]) -> None:
    assert [row[-1] for row in limits_table(measured).rows] == verdicts


def test_table_and_figures_are_timed_where_there_are_figures() -> None:
    assert first_items_seconds(timing()) == 160.0
    undrawn = timing()
    del undrawn["seconds"]["figures"]
    assert first_items_seconds(undrawn) is None
