"""How the table of docs/speed.md is made from what the benchmarks keep."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from yardstick import speed
from yardstick.figures import PLACE, keep

ROOT = Path(__file__).parents[1]


def test_a_figure_is_kept_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench/monitor.py"])
    monkeypatch.delenv(PLACE, raising=False)
    keep("one step", 41.2, "µs")
    monkeypatch.setenv(PLACE, str(tmp_path / "kept"))
    keep("one step", 41.2, "µs", asked="≤ 60 µs")
    kept = [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()]
    assert [(one["bench"], one["value"], one["asked"]) for one in kept] == [
        ("monitor", 41.2, "≤ 60 µs")
    ]


def test_the_table_names_figure_benchmark_date_and_machine() -> None:
    own = {"what": "one step", "value": 1234.5, "unit": "µs", "asked": "", "beside": "polars"}
    kept = {"monitor": {"date": "2026-01-02", "machine": "a", "load": 0.5, "figures": [own]}}
    *_, row = speed.table(kept).splitlines()
    link = "[monitor](../bench/monitor.py)"
    assert row == f"| one step | 1,234 µs |  | polars | {link} | 2026-01-02 | 1, 0.5 |"


def test_the_page_shows_the_kept_figures() -> None:
    # To renew them: make bench
    shown = re.search(r"<!-- table: speed -->\n(.*)<!-- end", speed.PAGE.read_text(), flags=re.S)
    assert shown is not None
    assert shown[1] == speed.table(json.loads(speed.KEPT.read_text()))


@pytest.mark.parametrize("name", speed.benchmarks())
def test_every_benchmark_keeps_a_figure(name: str) -> None:
    calls = ast.walk(ast.parse((ROOT / "bench" / f"{name}.py").read_text()))
    assert any(isinstance(one, ast.Call) and ast.unparse(one.func) == "keep" for one in calls)


def test_every_benchmark_of_the_table_is_there() -> None:
    for name in json.loads(speed.KEPT.read_text()):
        assert (ROOT / "bench" / f"{name}.py").exists()


def test_no_figure_breaks_its_row() -> None:
    for one in json.loads(speed.KEPT.read_text()).values():
        for own in one["figures"]:
            assert "|" not in own["what"] + own["unit"] + own["asked"] + own["beside"]
