from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ontarget.cli import app, main
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "chess", "-o", "x.csv"], "`domain` needs one of skirmish, smax, tamarisk"),
        (["simulate", "tamarisk", "-n", "5", "-o", "x.txt"], ".parquet or .csv"),
        (
            ["simulate", "tamarisk", "--preset", "x", "-o", "x.csv"],
            "a preset of Tamarisk needs one of",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["ontarget", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_help_shows_an_example() -> None:
    result = CliRunner().invoke(app, ["simulate", "--help"])
    assert "ontarget simulate tamarisk -n 10000 --seed 0 -o runs.parquet" in result.output
