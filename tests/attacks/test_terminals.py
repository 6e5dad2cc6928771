"""Names and reasons from data, shown on a terminal: they stay text, whatever they hold."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from ontarget import Episodes, GoalMonitor, Target
from ontarget import _progress as progress
from ontarget._text import plain
from ontarget.cli.output import print_facts
from ontarget.cli.view import LiveView
from ontarget.errors import EpisodesError
from ontarget.live import Contract
from ontarget.models import Marginal
from refusals import refuses
from tests.cli.river import call, river, told
from tests.walks import walks

HOSTILE = [
    "\x1b]52;c;ZXZpbA==\x07",  # sets the clipboard
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",  # a link
    "\x1b[2J\x1b[H",  # clears the screen
    "\x9b2J\x9d0;title\x9c",  # the same codes as single characters
    "safe\u202egnp.exe\u2066",  # turns the reading direction
    "one\rtwo\x08\x08\x7f",
    "line\nontarget: all is well\u2028\x0b\x85",
    "[bold red]loud[/] [/nothing] [link=http://evil.example]x[/link]",
    "[" * 500,
    "\udc80\ufeff\u200b",
    "x" * 100_000,
]
# What a terminal acts on, but for rich's own colours and moves, which are taken out first.
RICH = re.compile(r"\x1b\[(\?25[lh]|[0-9;]*m|2K|1A)|\r")
ACTIVE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def screen(*, height: int = 40, width: int = 120) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, highlight=False
    )


def shown(console: Console) -> str:
    """What was written, without rich's own codes; it must encode."""
    text = console.file.getvalue()  # type: ignore[attr-defined]
    text.encode()
    return RICH.sub("", text)


@cache
def contract() -> Contract:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)
    return monitor.watch(Target.at_least(0.0), alarm_below=0.5).contract


@pytest.mark.parametrize("text", HOSTILE)
def test_plain_text_holds_nothing_that_acts(text: str) -> None:
    found = plain(text)
    assert not ACTIVE.search(found)
    assert "\n" not in found
    assert len(found) <= 2_001 or len(text) <= 2_000
    found.encode()


def test_what_people_write_is_shown_as_it_is() -> None:
    for text in ("größe 5 µm", "机器人 7", "рука", "a\u00a0b", "🤖", "[x] 100 %"):
        assert plain(text) == text


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("text", HOSTILE)
def test_the_live_view_shows_hostile_agents_and_reasons_as_text(text: str, n: int) -> None:
    view = LiveView(contract(), f"model {text}")
    for i in range(n):
        answer: dict[str, Any] = {"agent": f"{text}{i}", "t": i, "p": None, "status": "UNKNOWN"}
        view.update({**answer, "reason": f"feature needs a number, got {text}"})
    view.update({"line": 3, "status": "UNKNOWN", "reason": f"not JSON: {text}"})
    console = screen()
    console.print(view)
    assert not ACTIVE.search(shown(console))
    if "[bold red]" in text:
        assert "[bold red]" in shown(console)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("text", HOSTILE)
def test_facts_are_printed_as_text(text: str, terminal: bool) -> None:
    console = screen() if terminal else Console(file=io.StringIO(), highlight=False)
    print_facts(f"policy     {plain(text)}\nfeatures   {plain(text)}", console)
    assert not ACTIVE.search(shown(console))
    assert "ontarget: all is well" not in shown(console).splitlines()


@pytest.mark.parametrize("text", HOSTILE)
def test_signs_of_work_show_file_names_as_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    console = screen()
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with progress.working(f"reading {text}"):
        pass
    with progress.progress_bar(text, 2) as reached:
        reached(1, text)
    assert not ACTIVE.search(shown(console))


@pytest.mark.parametrize("text", HOSTILE[:8])
def test_a_description_of_episodes_keeps_its_lines(text: str) -> None:
    table = pl.DataFrame(
        {"episode": [0, 1], "step": [0, 0], text: [1.0, 2.0], "reward": [1.0, 0.0]}
    ).with_columns(group=pl.lit(text))
    found = Episodes.from_frame(table).describe()
    assert not ACTIVE.search(found)
    assert len(found.split("\n")) == 6


def test_commands_spell_out_what_a_model_and_a_file_name(tmp_path: Path) -> None:
    evil = "\x1b[2Jcrew\x07\n[/]ontarget: all is well"
    model = tmp_path / "a\x1b[2J.ontarget"
    told(["fit", river().runs, "-o", model, "--policy", evil])
    out = told(["inspect", model])
    assert not ACTIVE.search(out)
    assert "policy     \\x1b[2Jcrew\\x07\\n[/]ontarget: all is well" in out
    assert json.loads(told(["inspect", model, "--json"]))["parameters"]["policy"] == evil


def test_messages_spell_out_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "runs\x1b[2J.csv"
    path.write_text("episode,step,reward,a\x1b]0;evil\x07b\n0,0,1,2\n")
    result = call(["fit", path, "-o", tmp_path / "m.ontarget", "--episode", "no\x9b2Jne"])
    assert result.exit_code == 1
    assert not ACTIVE.search(result.output)
    assert "no\\x9b2Jne" in result.output


def test_a_column_named_like_mathematics_does_not_stop_a_figure() -> None:
    values = np.random.default_rng(0).normal(size=(60, 3)).cumsum(axis=1)
    table = pl.DataFrame(
        {
            "episode": np.repeat(np.arange(60), 3),
            "step": np.tile(np.arange(3), 60),
            "x": values.ravel(),
            "$\\frac{$ \x1b[2J": values.ravel(),
        }
    )
    runs = Episodes.from_frame(table, behavior="$\\frac{$ \x1b[2J", features=["x"])
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)
    figure = monitor.evaluate(runs, Target.at_least(0.0)).figure("fan")
    figure.savefig(io.BytesIO(), format="png")
    assert "\\x1b" in figure.axes[0].get_ylabel()


def test_an_error_names_hostile_text_in_quotes() -> None:
    table = pl.DataFrame({"episode": [0], "step": [0], "reward": ["\x1b[2J"]})
    with refuses(EpisodesError, None, r"'\x1b[2J'"):
        Episodes.from_frame(table)
