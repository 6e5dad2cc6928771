"""Streams of ``ontarget watch``: readers that are slow or leave, closed ends, and no last line."""

from __future__ import annotations

import gc
import io
import json
import os
import select
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Sessions, Target
from ontarget.cli import live
from ontarget.cli import view as view_module
from ontarget.cli.view import LiveView
from ontarget.models import Marginal
from tests.walks import walks

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pipes and memory are those of Linux"),
    pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning"),
]

PROGRAM = [sys.executable, "-c", "from ontarget.cli import main; main()"]
# So many lines fill all that is bounded; then come as many as this, in the slow tests more.
FILLING, FAST, SLOW = 400, 1_200, 20_000
SLOWLY = pytest.mark.slow
MOST_BYTES = 64  # kept per line would be 64 MB after a million


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A watch over a small model file, as a command."""
    path = tmp_path_factory.mktemp("streams") / "m.ontarget"
    monitor().save(path)
    return [*PROGRAM, "watch", str(path), "--target", "0:", "--alarm-below", "0.2"]


@cache
def monitor(*, declared: bool = True) -> GoalMonitor:
    runs = walks(120, 4)
    if not declared:
        rewards = np.random.default_rng(0).normal(size=(120, 4))
        runs = Episodes.from_arrays(np.zeros((120, 4, 2)), rewards)
    return GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)


@cache
def several() -> GoalMonitor:
    rng = np.random.default_rng(0)
    rewards = {"gain": rng.normal(size=(120, 4)), "heat": rng.random((120, 4))}
    named = {"profit": "total:gain", "peak": "max:heat"}
    runs = Episodes.from_arrays(rng.normal(size=(120, 4, 2)), rewards, behavior=named)
    return GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)


def line(number: int, **more: Any) -> str:
    """A short line of an agent that runs on and on, or of others by name."""
    return json.dumps({"agent": "a", "state": [0.5, 0.1 * (number % 7)], "reward": 0.1, **more})


def unknown_now_and_then(number: int) -> str:
    return line(number, state=[0.5, None if number % 2 else 1.0])


STREAMS: dict[str, Callable[[int], str]] = {
    "one agent for ever": line,
    "an agent whose status changes at each line": unknown_now_and_then,
    "agents that end": lambda i: line(i, agent=f"{i // 3}", **({"end": True} if i % 3 else {})),
    "agents that never end": lambda i: line(i, agent=f"agent {i}"),
    "agents that are taken over": lambda i: line(i, agent=f"{i % 90}", intervene=True),
    "no JSON": lambda i: "{" * (i % 50),
    "unknown features": lambda i: line(i, state={f"x{i}": 1.0}),
    "unknown groups": lambda i: line(i, agent=f"{i}", group=f"group {i}"),
}


def sessions(kind: str) -> Sessions:
    options: dict[str, Any] = {"alarm_below": 0.2, "max_agents": 100}
    if kind == "goal":
        goal = Goal({"profit": Target.at_least(0.0), "peak": Target.at_most(0.9)})
        return several().sessions(goal, **options)
    return monitor(declared=kind == "declared").sessions(Target.at_least(0.0), **options)


def kept_per_line(
    answer_to: Callable[[Iterator[str]], None], stream: Callable[[int], str], many: int
) -> float:
    """By how many bytes per line the memory has grown, once all that is bounded is full."""

    def held(numbers: range) -> int:
        answer_to(f"{stream(i)}\n" for i in numbers)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    held(range(FILLING))
    tracemalloc.start()
    try:
        early = held(range(FILLING, 2 * FILLING))
        return (held(range(2 * FILLING, 2 * FILLING + many)) - early) / many
    finally:
        tracemalloc.stop()


class Arriving(io.TextIOBase):
    """Lines that come one by one."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def readline(self, limit: int = -1, /) -> str:  # type: ignore[override]
        return next(self._lines, "")


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(
    ("kind", "many"),
    [
        ("undeclared", FAST),
        pytest.param("undeclared", SLOW, marks=SLOWLY),
        pytest.param("declared", SLOW, marks=SLOWLY),
        pytest.param("goal", SLOW, marks=SLOWLY),
    ],
)
def test_what_is_kept_does_not_grow_with_the_lines(kind: str, many: int, name: str) -> None:
    asked = sessions(kind)

    def answer_to(lines: Iterator[str]) -> None:
        for one in live._answers(asked, live._lines(Arriving(lines))):  # type: ignore[arg-type]
            assert one["status"]

    assert kept_per_line(answer_to, STREAMS[name], many) < MOST_BYTES
    assert len(asked) <= 100


@SLOWLY
@pytest.mark.parametrize("name", STREAMS)
def test_what_the_live_view_keeps_does_not_grow_with_the_lines(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bounds are lowered so that the first lines reach them.
    monkeypatch.setattr(view_module, "_MOST", 100)
    monkeypatch.setattr(view_module, "_KEPT", 8)
    asked = sessions("undeclared")
    view = LiveView(asked.contract, "model")

    def answer_to(lines: Iterator[str]) -> None:
        for one in live._answers(asked, live._lines(Arriving(lines))):  # type: ignore[arg-type]
            view.update(one)

    assert kept_per_line(answer_to, STREAMS[name], SLOW) < MOST_BYTES


def resident(process: subprocess.Popen[bytes], what: str) -> int:
    """Kilobytes of memory that a process has now (VmRSS), or had at most (VmHWM)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(one for one in status.splitlines() if one.startswith(what)).split()[1])


@SLOWLY
def test_a_million_steps_on_standard_input_take_no_more_memory(command: list[str]) -> None:
    n = 1_000_000
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def feed(stdin: Any) -> None:
            with stdin:
                for start in range(0, n, 1_000):
                    some = range(start, start + 1_000)
                    stdin.write("".join(f"{line(i, agent=f'{i % 50}')}\n" for i in some).encode())

        feeding = threading.Thread(target=feed, args=(process.stdin,))
        feeding.start()
        early = 0
        for number in range(n):
            answer = json.loads(process.stdout.readline())
            assert answer["agent"] == str(number % 50)
            if number == 20_000:
                early = resident(process, "VmRSS")
        most = resident(process, "VmHWM")
        feeding.join()
        assert process.stdout.read() == b""
    assert process.returncode == 0
    assert most - early < 20_000


def test_a_reader_that_does_not_read_stops_the_stream_and_loses_nothing(
    command: list[str],
) -> None:
    offered = b"".join(f"{line(i, agent=f'{i}')}\n".encode() for i in range(20_000))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line(0, agent="first").encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["agent"] == "first"
        pipe, taken = process.stdin.fileno(), 0
        os.set_blocking(pipe, False)
        while taken < len(offered) and select.select([], [pipe], [], 2.0)[1]:
            taken += os.write(pipe, offered[taken : taken + 4_096])
        # It waits for its reader: what it has taken in fits into two pipes and their buffers.
        assert taken < 500_000
        assert resident(process, "VmHWM") > 0  # and it lives
        answers: list[dict[str, Any]] = []

        def read(stdout: Any) -> None:
            answers.extend(json.loads(one) for one in stdout)

        reading = threading.Thread(target=read, args=(process.stdout,))
        reading.start()
        process.stdin.close()
        reading.join()
    whole, _, rest = offered[:taken].rpartition(b"\n")
    names = [str(i) for i in range(whole.count(b"\n") + 1)]
    assert [one["agent"] for one in answers if "agent" in one][: len(names)] == names
    assert len(answers) == len(names) + bool(rest)  # a line that was cut short is answered too
    assert process.returncode == 0


@pytest.mark.parametrize("answered", [1, *(pytest.param(n, marks=SLOWLY) for n in (0, 50))])
def test_a_reader_that_leaves_ends_the_stream_without_a_word(
    answered: int, command: list[str]
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("".join(f"{line(i)}\n" for i in range(answered)).encode())
        for _ in range(answered):
            process.stdout.readline()
        process.stdout.close()
        with suppress(BrokenPipeError):
            while True:  # until it has noticed
                process.stdin.write(f"{line(0)}\n".encode() * 100)
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("redirected", "answers"),
    [
        ("<&-", 0),
        ("< lines >&-", 0),
        pytest.param("< lines 2>&-", 1, marks=SLOWLY),
        pytest.param("<&- >&- 2>&-", 0, marks=SLOWLY),
        pytest.param("< /dev/null", 0, marks=SLOWLY),
    ],
)
def test_a_standard_stream_that_is_closed_is_an_empty_one(
    redirected: str, answers: int, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text(line(0) + "\n")
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(one)["t"] for one in done.stdout.splitlines()] == [0] * answers


def test_a_stream_that_breaks_off_within_a_line_is_answered_to_its_end(
    command: list[str],
) -> None:
    given = f"{line(0)}\n{line(1)[:20]}"
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    first, second = (json.loads(one) for one in done.stdout.splitlines())
    assert (first["t"], second["line"], second["status"]) == (0, 2, "UNKNOWN")
    assert second["reason"].startswith("not JSON")
    assert done.stderr == ""


def test_a_full_disk_behind_the_output_is_said_in_a_line(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, input=line(0), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "ontarget: no space left on device\n")
