"""What the commands print stays as it was kept; `python -m tests.cli.kept` keeps another text."""

from __future__ import annotations

from functools import cache

import pytest

from .kept import COMMANDS, FOLDER, kept, printed

once = cache(printed)


@pytest.mark.parametrize("command", [*COMMANDS, "report"])
def test_a_command_prints_what_was_kept(command: str) -> None:
    assert once()[command] == kept(command)


def test_no_text_is_kept_of_a_command_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*COMMANDS, "report"}
