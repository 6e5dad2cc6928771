"""What the README shows, run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from ontarget.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.S)


def python_blocks() -> list[str]:
    return [code for language, code in BLOCKS if language == "python"]


def text_blocks() -> list[str]:
    return [shown for language, shown in BLOCKS if language == "text"]


def test_the_first_example_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(python_blocks()[0], "README", "exec"), {})  # our own README
    assert capsys.readouterr().out == text_blocks()[0]


def test_the_evaluation_shown_is_that_of_the_tutorial() -> None:
    # The tutorial's outputs are run by test_docs.py.
    assert text_blocks()[1] in (ROOT / "docs" / "tutorial.md").read_text()


def test_the_frame_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    log = pl.DataFrame(
        {
            "run": [i for i in range(60) for _ in range(3)],
            "tick": [0, 1, 2] * 60,
            "speed": [0.5 * i for i in range(180)],
            "gain": [1.0] * 180,
        }
    )
    exec(compile(python_blocks()[1], "README", "exec"), {"log": log})
    assert "episodes   60" in capsys.readouterr().out


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = next(code for _, code in BLOCKS if "ontarget inspect" in code)
    live = '{"agent": "a", "state": [0, 0, 0, 0, 0, 0, 1]}\n{"agent": "a", "end": true}\n'
    for line in block.strip().splitlines():
        command = line.split("#")[0].split("|")[-1].strip()
        # As many episodes as a quick test can take; the rest is as shown.
        words = shlex.split(re.sub(r"-n \d+", "-n 400", command))[1:]
        done = CliRunner().invoke(app, words, input=live)
        assert done.exit_code == 0, done.output
    assert '"status": "DONE"' in done.output
