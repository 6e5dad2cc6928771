"""``ontarget prepare``, and ``fit`` from what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ontarget import Episodes
from ontarget.cli import app
from tests.clusters import two_workers

RUNNER = CliRunner()


def log(folder: Path, n: int = 60) -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(2):
        runs = Episodes.from_arrays(
            rng.normal(size=(n, 4, 1)), rng.normal(size=(n, 4)), ids=np.arange(n) + n * i
        )
        runs.write(folder / f"{i}.csv")
    return folder


def test_a_folder_is_prepared_and_fitted(tmp_path: Path) -> None:
    folder, out = log(tmp_path / "runs"), tmp_path / "prepared"
    shown = RUNNER.invoke(app, ["prepare", str(folder), "-o", str(out)], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "120 of up to 4 steps, 480 rows: 96 to learn, 24 to assure" in shown.stdout
    again = RUNNER.invoke(app, ["prepare", str(folder), "-o", str(out), "--json"])
    assert json.loads(again.stdout)["assure"] == 24
    model = tmp_path / "walks.ontarget"
    told = ["fit", str(out), "-o", str(model), "--json", "--model", "marginal"]
    fitted = RUNNER.invoke(app, told, catch_exceptions=False)
    assert fitted.exit_code == 0
    assert json.loads(fitted.stdout)["learn"] == 96
    new = ["evaluate", str(model), str(out), "--target", "0:", "--json"]
    measured = RUNNER.invoke(app, new)
    assert measured.exit_code == 0, measured.output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what a cluster of another library warns of is its own
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_fit_at_an_address_gives_the_local_files_bytes(engine: str, tmp_path: Path) -> None:
    folder, out = log(tmp_path / "runs"), tmp_path / "prepared"
    assert RUNNER.invoke(app, ["prepare", str(folder), "-o", str(out)]).exit_code == 0

    def fitted(name: str, *more: str) -> bytes:
        told = ["fit", str(out), "-o", str(tmp_path / name), "--model", "marginal", *more]
        command = [sys.executable, "-m", "ontarget", *told]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return (tmp_path / name).read_bytes()

    with two_workers(engine) as address:
        there = fitted("there", "--engine", engine, "--address", address)
    assert there == fitted("here")
