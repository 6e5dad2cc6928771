from __future__ import annotations

import pytest

from ontarget.paper.summary import mean_sd
from ontarget.paper.tables import Table, checks_table, main_table, plus_minus


def results(ece: float, raw: list[float]) -> dict:
    measured = {
        "coverage": mean_sd([0.79, 0.81]),
        "coverage_band": [0.77, 0.83],
        "coverage_in_band": [True, True],
        "ece": {"low": mean_sd([ece, ece])},
        "ece_all_partitions": {"low": ece / 2},
        "brier": {"p": mean_sd([0.10, 0.20]), "raw": mean_sd(raw)},
    }
    paper = {"name": "Tamarisk", "coverage": 0.7989, "coverage_sd": 0.0079}
    paper |= {"ece": 0.004, "ece_sd": 0.0005}
    return {
        "plan": {"bins": 30},
        "domains": {"tamarisk": {"paper": paper, "noise": measured, "atoms": measured}},
    }


def test_the_papers_own_figures_stand_beside_ours() -> None:
    (coverage, ece) = main_table(results(0.003, [0.2, 0.2])).rows
    assert coverage[1:] == (
        "79.89 ± 0.79 % (Tamarisk)",
        "80.00 ± 1.41 %",
        "80.00 ± 1.41 %",
    )
    assert ece[1] == "0.0040 ± 0.0005 (Tamarisk)"


@pytest.mark.parametrize(
    ("ece", "raw", "verdicts"),
    [
        (0.001, [0.2, 0.2], ["yes", "yes", "yes", "yes", "yes"]),
        (0.003, [0.2, 0.2], ["yes", "yes", "yes", "no", "yes"]),
        (0.006, [0.09, 0.19], ["yes", "no", "no", "no", "no"]),
        (0.001, [0.08, 0.21], ["yes", "yes", "within one sd", "yes", "within one sd"]),
    ],
)
def test_checks_say_no_where_they_fail(ece: float, raw: list[float], verdicts: list[str]) -> None:
    assert [row[-1] for row in checks_table(results(ece, raw)).rows] == verdicts


def test_the_truths_own_error_is_shown_where_it_is_known() -> None:
    known = results(0.003, [0.2, 0.2])
    known["studies"] = {
        "tamarisk": {"truth": {"ece": mean_sd([0.002, 0.002]), "ece_all_partitions": 0.0011}}
    }
    shown = [row[1] for row in checks_table(known).rows]
    assert "the truth itself: 0.0020 ± 0.0000; 0.0011" in shown[3]
    assert "truth" not in shown[1]


def test_a_missing_value_is_a_dash() -> None:
    assert plus_minus(mean_sd([]) | {"mean": None}) == "–"


def test_html_is_escaped() -> None:
    text = Table(("", "a < b"), [("x & y", "<1>")], "c > d").html()
    assert "a &lt; b" in text
    assert "x &amp; y" in text
    assert "&lt;1&gt;" in text
    assert "c &gt; d" in text
