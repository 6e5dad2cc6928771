"""A small river and its model, made once for all tests of the command line."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from typer.testing import CliRunner

from ontarget.cli import app
from ontarget.episodes import Episodes

# The quickest model to fit, for a test that is about something else.
QUICK = ("--model", "marginal")


class River(NamedTuple):
    runs: Path
    new: Path
    model: Path


@cache
def river() -> River:
    folder = Path(mkdtemp(prefix="ontarget-river-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = River(folder / "runs.parquet", folder / "new.parquet", folder / "river.ontarget")
    told(["simulate", "tamarisk", "-n", "600", "-o", files.runs])
    told(["simulate", "tamarisk", "-n", "120", "--seed", "5", "-o", files.new])
    told(["fit", files.runs, "-o", files.model, "--policy", "the crew"])
    return files


def call(arguments: list[Any], **options: Any) -> Any:
    """The result of a command."""
    return CliRunner().invoke(app, [str(one) for one in arguments], **options)


def told(arguments: list[Any], **options: Any) -> str:
    """What a command that goes well writes on standard output."""
    result = call(arguments, **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def messages(position: int = 0, agent: str = "a", *, end: bool = True) -> list[dict[str, Any]]:
    """One new run as the messages of a stream."""
    one = Episodes.read(river().new).take([position])
    found: list[dict[str, Any]] = []
    for t in range(one.horizon):
        state = dict(zip(one.schema.names, one.at(t).states[0].tolist(), strict=True))
        found.append({"agent": agent, "state": state})
        if t:
            found[-1]["reward"] = float(one.rewards_at(t - 1)[0])
    if end:
        last = float(one.rewards_at(one.horizon - 1)[0])
        found.append({"agent": agent, "reward": last, "end": True})
    return found
