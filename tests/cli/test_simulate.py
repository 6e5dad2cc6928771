from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ontarget.cli import app
from ontarget.domains import Tamarisk, simulate
from ontarget.episodes import Episodes


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_simulate_writes_the_episodes_of_the_seed(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"runs.{ending}"
    result = CliRunner().invoke(
        app, ["simulate", "tamarisk", "-n", "30", "--seed", "7", "-o", str(path)]
    )
    assert result.exit_code == 0, result.output
    assert "30 episodes of 50 steps" in result.output
    expected = simulate(Tamarisk("paper"), 30, seed=7)
    assert np.array_equal(Episodes.read(path).outcomes, expected.outcomes)


def test_simulate_takes_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    arguments = ["simulate", "tamarisk", "-n", "20", "--preset", "competition", "-o", str(path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert Episodes.read(path).outcomes.mean() < -200
