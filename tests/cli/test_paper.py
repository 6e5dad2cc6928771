from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ontarget.cli import app
from ontarget.paper import experiment as plan
from paper.small import TAMARISK


def test_quick_prints_the_table_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "QUICK", TAMARISK)
    arguments = ["paper", "--quick", "--seed", "3", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "A quick run" in result.output
    assert "79.89 ± 0.79 %" in result.output
    assert "surrogate" in result.output
    assert "seed 3" in (tmp_path / "index.html").read_text()
