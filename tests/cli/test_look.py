from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes

from .river import QUICK, call, river, told


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """Runs with their final score in every row, and a wind that is missing at times."""
    rng = np.random.default_rng(0)
    gains = rng.normal(size=(60, 4)).round(3)
    log = pl.DataFrame(
        {
            "run": np.repeat(np.arange(60), 4),
            "t": np.tile(np.arange(4), 60),
            "wind": rng.normal(size=240),
            "final score": np.repeat(gains.sum(axis=1), 4),
            "reward": gains.ravel(),
        }
    )
    gaps = pl.when(pl.col("t") > 0).then(pl.col("wind"))
    log.with_columns(gaps).write_csv(tmp_path / "log.csv")
    return tmp_path / "log.csv"


def test_look_shows_the_log_and_words_the_remedy_as_an_option(leaky: Path) -> None:
    shown = told(["look", leaky, "--target", "0:"])
    assert shown.startswith(Episodes.read(leaky).describe())
    assert "missing    wind 25" in shown
    assert "target     [0, inf): met by" in shown
    assert "caution    'final score' equals the outcome" in shown
    assert "Pass --drop 'final score'" in shown
    assert "not right? name the columns" in shown
    assert "leaks      none found" in told(["look", leaky, "--drop", "final score"])


def test_look_prints_json_for_programs(leaky: Path) -> None:
    found = json.loads(told(["look", leaky, "--json", "--target", "0:"]))
    assert found == json.loads(json.dumps(found))
    assert [one["kind"] for one in found["cautions"]] == ["outcome"]
    assert found["met"] + sum(Episodes.read(leaky).outcomes < 0.0) == found["episodes"] == 60


def test_fit_says_first_what_stands_out(leaky: Path, tmp_path: Path) -> None:
    lines = told(["fit", leaky, "-o", tmp_path / "m.ontarget", *QUICK]).splitlines()
    labels = [line[:11].strip() for line in lines]
    assert labels.index("missing") < labels.index("caution") < labels.index("model")
    found = json.loads(told(["fit", leaky, "-o", tmp_path / "m.ontarget", *QUICK, "--json"]))
    assert [one["columns"] for one in found["cautions"]] == [["final score"]]


def test_a_fit_of_clean_runs_says_nothing_about_leaks() -> None:
    assert json.loads(told(["look", river().runs, "--json"]))["cautions"] == []


def test_a_bad_target_is_one_message(leaky: Path) -> None:
    result = call(["look", leaky, "--target", "high"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("ontarget: ")
