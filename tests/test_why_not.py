"""The six ways of docs/why-not.md: each gives a probability, and the page shows all of them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import why_not
from ontarget import Target
from tests.walks import walks
from yardstick.peers import Task, matrix

PAGE = Path(__file__).parents[1] / "docs" / "why-not.md"


def test_a_table_is_renewed_between_its_marks() -> None:
    found = why_not.Found("ontarget", 2, 0.125, None, 1.0, 0.07)
    table = why_not.table([found])
    assert table.splitlines()[-1] == "| ontarget | 2 | 0.1250 | 1.0 s | 0.07 ms |"
    page = "a\n<!-- table: log -->\nold\n<!-- end of table -->\nb"
    renewed = f"a\n<!-- table: log -->\n{table}\n<!-- end of table -->\nb"
    assert why_not.renewed(page, "log", table) == renewed
    assert why_not.renewed(page, "river", table) == page


@pytest.mark.parametrize("name", why_not.WAYS)
def test_the_page_shows_every_way_with_its_lines_of_code(name: str) -> None:
    rows = re.findall(rf"^\| {re.escape(name)} \| (\d+) \|", PAGE.read_text(), flags=re.M)
    assert [int(lines) for lines in rows] == 2 * [why_not.code_lines(why_not.WAYS[name])]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in why_not.WAYS if name != "ontarget"])
def test_a_way_tells_good_runs_from_bad_ones(name: str) -> None:
    if name == "calibrated-explanations":
        pytest.importorskip("calibrated_explanations", reason="it is not installed")
    warnings.simplefilter("ignore")  # the peers' own
    task = Task(walks(400), walks(100, seed=1), Target.at_least(0.2))
    p = why_not.WAYS[name](task)(matrix(task.asked))
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert p[task.asked.met].mean() > p[~task.asked.met].mean() + 0.2
