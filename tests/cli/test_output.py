"""What commands print reaches every stream, whatever its encoding and its width."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from ontarget.cli import app

from .river import call, river, told

GOAL = ("--target", "-60:")
COMMANDS: list[list[Any]] = [
    ["--help"],
    ["evaluate", "--help"],
    ["plan"],
    ["look", "{runs}", *GOAL],
    ["inspect", "{model}"],
    ["evaluate", "{model}", "{new}", *GOAL],
    ["compare", "{model}", "{model}", "{new}", *GOAL],
    ["drift", "{model}", "{new}", *GOAL],
    ["explain", "{model}", "{new}", "--run", "3", *GOAL],
    ["watch", "{model}", "--replay", "{new}", "--run", "3", *GOAL],
]


def filled(command: list[Any]) -> list[str]:
    return [one.format(**river()._asdict()) for one in command]


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp437"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_encoding_is_printed_in(command: list[Any], encoding: str) -> None:
    usual = told(filled(command))
    found = CliRunner(charset=encoding).invoke(app, filled(command))
    assert (found.exit_code, found.exception) == (0, None)
    assert found.stdout.count("\n") == usual.count("\n")
    assert found.stdout.count("?") == usual.count("?")


def test_characters_without_a_stand_in_become_question_marks_and_errors_are_printed_too() -> None:
    found = CliRunner(charset="cp437").invoke(app, ["inspect", "größe-漢.ontarget"])
    assert (found.exit_code, type(found.exception)) == (1, SystemExit)
    assert "größe-?.ontarget" in found.stderr


def test_a_redirected_output_in_another_encoding_is_written() -> None:
    settings = os.environ | {"PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "ontarget", *filled(["look", "{runs}", *GOAL])]
    done = subprocess.run(command, capture_output=True, env=settings)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("cp1252").count("\n") > 5


@pytest.mark.parametrize("columns", ["0", "1", "-1", "abc", "12.5", "", "9" * 12, "9" * 5_000])
@pytest.mark.parametrize("command", [["inspect", "{model}"], ["fit", "--help"]], ids=" ".join)
def test_a_width_that_makes_no_sense_is_ignored(
    command: list[Any], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = told(filled(command))
    monkeypatch.setenv("COLUMNS", columns)
    assert call(filled(command)).stdout == usual
