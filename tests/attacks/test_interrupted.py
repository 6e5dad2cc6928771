"""A file that is being written when the process is killed or the disk is full is old or new."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attacks.interrupted import FILES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits files as Linux does")

ROOT = Path(__file__).parents[2]
OLD = b"old, \xff\nuneven\n"  # nothing that a message about writing should speak of
PART = re.compile(r"\.ontarget-[0-9a-f]{16}\.part")


class Writer:
    """A process that writes a file on request, and what an undisturbed attempt is like."""

    def __init__(self, path: Path, process: subprocess.Popen[str]) -> None:
        self.path, self._process = path, process
        path.parent.mkdir()
        self.clear()
        first = self.attempt()
        assert first["ending"] == "done"
        self.new = path.read_bytes()
        self.calls, self.seconds = first["calls"], first["seconds"]
        self.clear()

    def attempt(self, **asked: Any) -> dict[str, Any]:
        """How one more attempt ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"file": self.path.name, **asked}) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    @property
    def parts(self) -> list[Path]:
        """Files that were being written."""
        return [path for path in self.path.parent.rglob("*") if PART.fullmatch(path.name)]

    def clear(self) -> None:
        """The folder as it is before an attempt: the old file alone."""
        shutil.rmtree(self.path.parent)
        self.path.parent.mkdir()
        self.path.write_bytes(OLD)

    def check(self) -> None:
        """Every name holds something whole, and what was begun is finished by the next attempt."""
        assert self.path.read_bytes() in (OLD, self.new)
        others = {path.name for path in self.path.parent.iterdir()} - {self.path.name, "blocks"}
        assert all(PART.fullmatch(name) for name in others)
        if self.path.name == "fit.ontarget":  # goes on from what is there
            assert self.attempt()["ending"] == "done"
            assert self.path.read_bytes() == self.new
        self.clear()


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Writer]]:
    """One process, as a writer of each file."""
    folder = tmp_path_factory.mktemp("writers")
    environment = os.environ | {
        "ONTARGET_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, "-m", "tests.attacks.interrupted", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        yield {name: Writer(folder / name / name, process) for name in FILES}


def calls_of(one: Writer, n: int, rng: np.random.Generator) -> list[int]:
    """The calls to interrupt: some of them, or all when many are asked for."""
    every = np.arange(1, one.calls + 1)
    return (every if n > 5 else rng.choice(every, n, replace=False)).tolist()


@pytest.mark.parametrize("n", [1, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(
    name: str, n: int, writers: dict[str, Writer], capsys: pytest.CaptureFixture[str]
) -> None:
    one, rng = writers[name], np.random.default_rng(n)
    calls = calls_of(one, n, rng)
    for point in calls:
        assert one.attempt(at="call", point=point, how="kill")["ending"] == "killed"
        one.check()
    for point in rng.integers(0, len(one.new), n).tolist():
        assert one.attempt(at="byte", point=point, how="kill")["ending"] == "killed"
        assert one.path.read_bytes() == OLD
        one.check()
    for share in rng.random(n).tolist():
        one.attempt(at="instant", point=share * one.seconds, how="kill")
        one.check()
    if n > 1:
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: killed {len(calls) + 2 * n} times, nothing lost\n")


@pytest.mark.parametrize("n", [1, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_at_any_write_leaves_no_part_and_says_so(
    name: str, n: int, writers: dict[str, Writer], capsys: pytest.CaptureFixture[str]
) -> None:
    one, rng = writers[name], np.random.default_rng(n)
    asked = [("call", k, "No space left on device") for k in calls_of(one, n, rng)]
    bytes_taken = [0, *rng.integers(1, len(one.new), n).tolist(), len(one.new) - 1]
    asked += [("byte", k, "File too large") for k in bytes_taken]
    for at, point, reason in asked:
        ending = one.attempt(at=at, point=point, how="fail")["ending"]
        assert reason in ending, (at, point)
        assert name in ending, (at, point)  # the file, or the folder of its blocks
        assert "\n" not in ending
        assert one.parts == []
        one.check()
    if n > 1:
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: a full disk {len(asked)} times, nothing lost\n")
