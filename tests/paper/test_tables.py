from __future__ import annotations

from ontarget.paper.summary import mean_sd
from ontarget.paper.tables import brier_table, calibration_table, main_table, plus_minus


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


TRUTH = {"ece": mean_sd([0.0022, 0.0022]), "ece_all_partitions": 0.0011}


def test_the_papers_own_figures_stand_beside_ours() -> None:
    (coverage, ece) = main_table(results()).rows
    assert coverage[1:] == (
        "79.89 ± 0.79 % (Tamarisk)",
        "80.00 ± 1.41 %",
        "80.00 ± 1.41 %",
    )
    assert ece[1] == "0.0040 ± 0.0005 (Tamarisk)"


def test_calibration_error_stands_beside_that_of_the_truth() -> None:
    known = results()
    known["studies"] = {"tamarisk": {"truth": TRUTH, "default": {"atoms": measured(0.002)}}}
    noise, atoms, default = calibration_table(known).rows
    assert noise[-1] == "–"
    assert atoms[1] == "0.0030 ± 0.0000; 0.0015"
    assert atoms[-1] == default[-1] == "0.0022 ± 0.0000; 0.0011"
    assert default[0] == "Tamarisk, exact atoms, default"
    assert default[1].startswith("0.0020")


def test_the_difference_to_raw_stands_beside_its_error_and_its_price() -> None:
    row = brier_table(results(difference=(2.1e-5, 0.9e-5))).rows[0]
    assert row[3:] == ("+2.1 ± 0.9", "3.0")


def test_a_missing_value_is_a_dash() -> None:
    assert plus_minus(mean_sd([]) | {"mean": None}) == "–"
