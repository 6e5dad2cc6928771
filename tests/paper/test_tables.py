from __future__ import annotations

import pytest

from ontarget.paper.experiment import mean_sd
from ontarget.paper.page import (
    brier_table,
    calibration_table,
    checks_table,
    main_table,
    plus_minus,
    time_table,
)

TOGETHER = "no by partition; yes together"
WITHIN, PRICE = "within 2 standard errors", "no, by the price of ranks"


def measured(ece: float = 0.003, difference: tuple[float, float] = (-1e-5, 1e-5)) -> dict:
    """What is measured of one domain in one mode."""
    methods = ("low", "p", "high", "raw")
    return {
        "coverage": mean_sd([0.79, 0.81]),
        "coverage_band": [0.77, 0.83],
        "coverage_in_band": [True, True],
        "ece": {m: mean_sd([ece, ece]) for m in methods},
        "ece_all_partitions": dict.fromkeys(methods, ece / 2),
        "brier": {m: mean_sd([0.10, 0.20]) for m in methods},
        "brier_minus_raw": {"mean": difference[0], "se": difference[1], "price": 3e-5},
    }


def results(ece: float = 0.003, difference: tuple[float, float] = (-1e-5, 1e-5)) -> dict:
    paper = {"name": "Tamarisk", "coverage": 0.7989, "coverage_sd": 0.0079}
    paper |= {"ece": 0.004, "ece_sd": 0.0005}
    found = measured(ece, difference)
    return {
        "plan": {"bins": 30},
        "domains": {"tamarisk": {"paper": paper, "noise": found, "atoms": found}},
    }


def test_the_papers_own_figures_stand_beside_ours() -> None:
    (coverage, ece) = main_table(results()).rows
    assert coverage[1:] == (
        "79.89 ± 0.79 % (Tamarisk)",
        "80.00 ± 1.41 %",
        "80.00 ± 1.41 %",
    )
    assert ece[1] == "0.0040 ± 0.0005 (Tamarisk)"


def test_calibration_error_is_told_by_partition_and_together() -> None:
    noise, atoms = calibration_table(results()).rows
    assert noise[1:] == atoms[1:] == ("0.0030 ± 0.0000; 0.0015",) * 3


def test_the_difference_to_raw_stands_beside_its_error_and_its_price() -> None:
    row = brier_table(results(difference=(2.1e-5, 0.9e-5))).rows[0]
    assert row[3:] == ("+2.1 ± 0.9", "3.0")


@pytest.mark.parametrize(
    ("ece", "difference", "verdicts"),
    [
        (0.001, (-1e-5, 1e-5), ["yes", "yes", "yes", "yes", "yes"]),
        (0.003, (-1e-5, 1e-5), ["yes", "yes", "yes", TOGETHER, "yes"]),
        (0.012, (6e-5, 1e-5), ["yes", "no", "no", "no", "no"]),
        (0.001, (4e-5, 1e-5), ["yes", "yes", PRICE, "yes", PRICE]),
        (0.001, (1e-5, 1e-5), ["yes", "yes", WITHIN, "yes", WITHIN]),
    ],
)
def test_checks_say_no_where_they_fail(
    ece: float, difference: tuple[float, float], verdicts: list[str]
) -> None:
    assert [row[-1] for row in checks_table(results(ece, difference)).rows] == verdicts


def test_the_times_add_up() -> None:
    seconds = {"noise": {"wall": 2.0, "cpu": 3.0}, "figures": {"wall": 1.0, "cpu": 0.5}}
    assert time_table({"seconds": seconds}).rows[-1] == ("all", "3.0 s", "3.5 s")


def test_a_missing_value_is_a_dash() -> None:
    assert plus_minus(mean_sd([]) | {"mean": None}) == "–"
