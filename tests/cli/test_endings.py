"""How commands end: exit codes, one line for a mistake, nothing half-written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ontarget._package import __version__
from ontarget.cli import app
from ontarget.cli.mistakes import _OPTIONS, in_options
from ontarget.episodes import Episodes
from ontarget.errors import Argument, EpisodesError, Placeholder

from .river import QUICK, call, river, told

COMMANDS = [one.name for one in app.registered_commands if one.name]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_shows_an_example(command: str) -> None:
    text = told([command, "--help"], env={"COLUMNS": "120"})
    assert "Example:" in text
    assert f"ontarget {command}" in text


def test_help_lists_every_command_and_where_to_start() -> None:
    text = told(["--help"])
    assert all(f" {command} " in text for command in COMMANDS)
    assert "Start with: ontarget demo" in text


def test_version_is_said() -> None:
    assert told(["--version"]) == f"ontarget {__version__}\n"


def test_without_debug_no_traceback_and_with_it_the_error_itself() -> None:
    arguments = ["fit", "nothing.csv", "-o", "m.ontarget"]
    plain = call(arguments)
    assert (plain.exit_code, "Traceback" in plain.output) == (1, False)
    for debugging in (["--debug", *arguments], [*arguments, "--debug"]):
        assert isinstance(call(debugging).exception, EpisodesError)


def test_a_bug_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ontarget.conformal.levels.plan_sizes", broken)
    assert isinstance(call(["plan"]).exception, ZeroDivisionError)


@pytest.mark.parametrize("when", ["ontarget.reading.files.frame_of", "os.fsync"])
def test_an_interrupt_leaves_nothing_half_written(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(when, interrupted)
    result = call(["simulate", "tamarisk", "-n", "20", "-o", tmp_path / "runs.parquet"])
    assert result.exit_code == 130
    assert result.output == ""
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-c", "from ontarget.cli import main; main()"]
    arguments = ["inspect", str(river().model), "--json"]
    with subprocess.Popen(
        command + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def _loaded_by(commands: dict[str, int], folder: Path) -> list[str]:
    """Which large packages are loaded by commands that end with these exit codes."""
    heavy = ["numpy", "sklearn", "numba", "polars", "matplotlib", "scipy"]
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom ontarget.cli import app\n"
        f"for command, code in {commands}.items():\n"
        "    found = CliRunner().invoke(app, command.split())\n"
        "    assert found.exit_code == code, (command, found.output)\n"
        f"print(*(name for name in {heavy} if name in sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_and_common_mistakes_load_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    commands = {
        "--help": 0,
        "fit --help": 0,
        "bogus": 2,
        "fit": 2,
        "fit gone.csv -o m.ontarget": 1,
        "prepare gone.csv -o folder": 1,
        "evaluate gone.ontarget log.csv --target 3:": 1,
        "evaluate log.csv gone.ontarget --target 3:": 1,
        "watch gone.ontarget --target 3:": 1,
        "serve gone.ontarget --target 3:": 1,
        "compare log.csv log.csv log.csv --target 3:": 1,
    }
    assert _loaded_by(commands, tmp_path) == []


def test_mistakes_in_a_target_or_a_model_load_no_library(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    (tmp_path / "m.ontarget").write_bytes(bytes(8) + b"{")
    (tmp_path / "cut.ontarget").touch()
    commands = {
        "look log.csv --target 5:3": 1,
        "evaluate m.ontarget log.csv --target 5": 1,
        "watch m.ontarget --target abc": 1,
        "explain m.ontarget log.csv --run 1 --step 2 --target 5:3": 1,
        "inspect cut.ontarget": 1,
    }
    assert _loaded_by(commands, tmp_path) == ["numpy"]


def test_completion_knows_the_commands() -> None:
    environment = {
        "_ONTARGET_COMPLETE": "complete_bash",
        "COMP_WORDS": "ontarget ev",
        "COMP_CWORD": "1",
    }
    result = call([], env=environment, prog_name="ontarget")
    assert result.output.split() == ["evaluate"]


def test_demo_goes_through_and_leaves_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    text = told(["demo", "--folder", folder, "-n", "900"])
    assert "4. Watch" in text
    assert "ALARM" in text
    assert "DONE" in text
    assert "steps before the end" in text
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["new.parquet", "report.html", "river.ontarget", "runs.parquet"]
    # What it says to try next works, on runs that the model has not seen.
    line = next(line for line in text.splitlines() if "ontarget evaluate" in line)
    assert "it said" in told(line.split()[1:])
    line = next(line for line in text.splitlines() if "ontarget watch" in line)
    assert '"status": "DONE"' in told(line.split()[1:])


def test_demo_says_how_to_put_the_command_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["ontarget.cli.demo"]  # the package has a function of that name
    script = tmp_path / ".venv" / "bin" / "activate"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "which", lambda name: f"/bin/{name}")
    assert module._activation() == []
    monkeypatch.setattr(module, "which", lambda name: None)
    assert module._activation() == [". .venv/bin/activate"]


def test_arguments_are_told_as_options_that_exist() -> None:
    options = {
        name for command in COMMANDS for name in re.findall(r"--[\w-]+", told([command, "--help"]))
    }
    for name in _OPTIONS:
        error = EpisodesError(Argument(name), " is wrong")
        assert in_options(error).split()[0] in options
    for argument, spelled in [
        (Argument("censored", "drop"), "--censored drop"),
        (Argument("step", None), "--step none"),
        (Argument("first_step", 1), "--first-step 1"),
        (Argument("categorical", ["wind"]), "--categorical wind"),
        (Argument("features", Placeholder("NAMES")), "--features NAMES"),
        (Argument("unbounded", True), "unbounded=True"),
    ]:
        assert in_options(EpisodesError("pass ", argument)) == f"pass {spelled}"


def test_a_remedy_is_told_as_an_option(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(60)).to_frame()
    table.filter(pl.col("step") < 40).with_columns(truncated=pl.col("step") == 39).write_csv(
        tmp_path / "cut.csv"
    )
    arguments = ["fit", tmp_path / "cut.csv", "-o", tmp_path / "m.ontarget", "--horizon"]
    assert "or --censored drop to leave them out" in call([*arguments, 50]).stderr
    assert "pass --horizon 40 or more" in call([*arguments, 30]).stderr


WRITING: dict[str, list[Any]] = {
    "x.parquet": ["simulate", "tamarisk", "-n", 2, "-o", "x.parquet"],
    "x.ontarget": ["fit", "{runs}", *QUICK, "-o", "x.ontarget"],
    "again": ["recalibrate", "{model}", "{new}", "-o", "again"],
    "old.csv": ["split", "{new}", "-o", "old.csv", "free.csv"],
    "new.csv": ["split", "{new}", "-o", "free.csv", "new.csv"],
    "folder": ["prepare", "{new}", "-o", "folder"],
    "report": ["evaluate", "{model}", "{new}", "--target", "-60:", "--report", "report"],
    "out.csv": ["evaluate", "{model}", "{new}", "--target", "-60:", "--out", "out.csv"],
    "why.png": ["explain", "{model}", "{new}", "--run", 0, "--target", "-60:", "--figure",
                "why.png"],
    "pages": ["paper", "--quick", "-o", "pages"],
    "blocks": ["fit", "{runs}", *QUICK, "-o", "x.ontarget", "--checkpoint", "blocks"],
    "shown": ["demo", "-n", 200, "--folder", "shown"],
}  # fmt: skip


def filled(name: str, path: Path) -> list[str]:
    """The command that writes the file of this name, with this path in its place."""
    given = [str(path) if one == name else one for one in WRITING[name]]
    return [str(one).format(**river()._asdict()) for one in given]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names on Windows")
@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_no_command_replaces_what_is_no_regular_file(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(os.devnull)
    elif os.getuid() == 0:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    else:
        pytest.skip("only root can make a device")
    before = path.lstat()
    result = call(filled(name, path))
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1
    assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert [found.name for found in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", WRITING)
def test_a_path_that_no_file_can_have_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(filled(name, tmp_path / f"{'x' * 5_000}{Path(name).suffix}"))
    assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [
    ["inspect", "{}"], ["look", "{}.csv"], ["fit", "{}.csv", "-o", "x.ontarget"],
    ["evaluate", "{}", "new.csv", "--target", "0:"], ["watch", "{}", "--target", "0:"],
    ["prepare", "{}.csv", "-o", "x"], ["prepare", "{}*.csv", "-o", "x"],
    ["serve", "{}", "--target", "0:"],
])  # fmt: skip
def test_a_file_that_cannot_exist_is_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call([one.format("x" * 5_000) for one in command])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    assert result.output.count("\n") == 1
