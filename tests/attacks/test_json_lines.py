"""Hostile lines on the standard input of ``ontarget watch``: each gets one answer."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from ontarget import GoalMonitor, Sessions, Target
from ontarget.cli import live
from ontarget.cli.view import LiveView
from ontarget.models import Marginal
from tests.cli.river import call, messages, river
from tests.walks import walks

FAST, SLOW = 60, 700
STATUSES = {"OK", "ALARM", "UNKNOWN", "DONE"}

PIECES = [
    *("{", "}", "[", "]", ":", ",", '"', "null", "true", "1e999", "-1e999", "NaN", "Infinity"),
    *('"\\ud800"', "\x00", "\x1b[2J", "9" * 5_000, "[" * 5_000, '{"a":' * 2_000, " " * 10_000),
    *("\ufeff", "\u2028", "0x1", "1_0", "'x'", "//", "é", "\udc80", "\r", "\x85", "1.5e", "-"),
]
VALUES = [
    *("null", "true", "0", "-1", "1e308", "1e999", "NaN", '""', '"x"', "[]", "{}", "[[]]", '"1"'),
    *('{"x0": 1, "x1": 2}', '{"x0": {}, "x1": []}', '["a", "b"]', "[1, 2]", "[null, null]"),
    *("[1e999, 0]", "[1, 2, 3]", "9" * 400, '"\\u001b[2J\\u202e"', '{"x1": "on", "x0": null}'),
]


def hostile(rng: np.random.Generator) -> str:
    """A line that is nearly a message, or only looks like one."""
    keys = ["agent", "state", "reward", "behavior", "group", "end"]
    some = rng.permutation(keys)[: rng.integers(1, 7)]
    line = "{" + ", ".join(f'"{key}": {VALUES[rng.integers(len(VALUES))]}' for key in some) + "}"
    for _ in range(rng.choice(3, p=[0.7, 0.2, 0.1])):
        at = int(rng.integers(len(line) + 1))
        line = line[:at] + PIECES[rng.integers(len(PIECES))] + line[at + rng.integers(3) :]
    return line.replace("\n", " ")


@cache
def monitor() -> GoalMonitor:
    return GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)


def sessions(**options: Any) -> Sessions:
    return monitor().sessions(Target.at_least(0.0), **options)


def answered(lines: list[str]) -> list[dict[str, Any]]:
    stream = io.StringIO("".join(f"{line}\n" for line in lines), newline="\n")
    return list(live._answers(sessions(), live._lines(stream)))


def attack(seeds: range) -> Counter[str]:
    """Every hostile line gets an answer that is JSON, and a later run is watched as ever."""
    endings: Counter[str] = Counter()
    good = [
        '{"agent": "good", "state": [0.5, 1]}',
        '{"agent": "good", "state": [0, 0], "reward": 1}',
    ]
    expected = answered(good)
    for seed in seeds:
        line = hostile(np.random.default_rng(seed))
        found = answered([line, *good])
        if line.strip():
            first, *found = found
            assert first["status"] in STATUSES, line
            assert first["status"] != "UNKNOWN" or first["reason"], line
            json.dumps(first, allow_nan=False).encode("ascii")
            p = first.get("p")
            assert p is None or 0.0 <= p <= 1.0
        endings[first["status"] if line.strip() else "blank"] += 1
        assert found == expected, line
    return endings


def test_a_hostile_line_gets_one_answer() -> None:
    attack(range(FAST))


@pytest.mark.slow
def test_many_hostile_lines_get_one_answer_each(capsys: pytest.CaptureFixture[str]) -> None:
    found = attack(range(FAST, FAST + SLOW))
    with capsys.disabled():
        sys.stdout.write(f"\n{SLOW:,} hostile lines of JSON: {dict(found)}\n")
    assert found.total() == SLOW


class Endless(io.TextIOBase):
    """A line of so many characters, made as it is read."""

    def __init__(self, length: int, after: str) -> None:
        self.left, self.after = length, after

    def readline(self, limit: int = -1, /) -> str:  # type: ignore[override]
        assert 0 < limit <= live._LONGEST_LINE
        if self.left == 0:
            line, self.after = self.after, ""
            return line
        piece = min(limit, self.left)
        self.left -= piece
        return "[" * (piece - (self.left == 0)) + "\n" * (self.left == 0)


def test_a_line_of_a_gigabyte_is_refused_in_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = Endless(10**9, '{"agent": "a", "state": [0, 0]}\n')
    first, second = live._answers(sessions(), live._lines(stream))  # type: ignore[arg-type]
    assert first == {
        "line": 1,
        "status": "UNKNOWN",
        "reason": "a line needs fewer than 1,000,000 characters",
    }
    assert (second["agent"], second["t"]) == ("a", 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_an_endless_name_is_refused_and_a_long_last_line_is_answered() -> None:
    named = json.dumps({"agent": "a" * 10_000, "state": [0, 0]})
    assert "at most 500 characters" in answered([named])[0]["reason"]
    cut = io.StringIO("x" * (live._LONGEST_LINE + 5))  # and no end of line
    assert [one["status"] for one in live._answers(sessions(), live._lines(cut))] == ["UNKNOWN"]


def test_agents_that_are_silent_or_too_many_are_forgotten() -> None:
    now = [0.0]
    contract = sessions().contract
    kept = Sessions(contract, max_agents=50, idle_seconds=10.0, clock=lambda: now[0])
    for i in range(1_000):
        kept.answer({"agent": str(i), "state": [0.0, 0.0]})
    assert len(kept) == 50
    now[0] = 9.0
    assert kept.answer({"agent": "999", "state": [0.0, 0.0], "reward": 0.0})["t"] == 1
    now[0] = 18.0
    assert kept.answer({"agent": "998", "state": [0.0, 0.0]})["t"] == 0
    assert list(kept) == ["999", "998"]


def test_the_live_view_keeps_few_agents_of_many() -> None:
    view = LiveView(sessions().contract, "model")
    for i in range(5_000):
        view.update({"agent": str(i), "t": 0, "p": 0.5, "low": 0.4, "high": 0.6, "status": "OK"})
    assert len(view.tracks) <= 1_000
    assert "4999" in view.tracks
    assert view.agents == 5_000


def test_idle_seconds_are_an_option_that_checks_itself() -> None:
    arguments = ["watch", river().model, "--target", "-60:"]
    wrong = call([*arguments, "--idle", "0"], input="")
    assert wrong.exit_code == 2
    stream = "".join(json.dumps(one) + "\n" for one in messages(0)[:2])
    found = call([*arguments, "--idle", "1e-9"], input=stream)
    assert [json.loads(line)["t"] for line in found.stdout.splitlines()] == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals are those of Unix")
def test_a_termination_ends_the_stream_after_whole_lines() -> None:
    command = [sys.executable, "-c", "from ontarget.cli import main; main()"]
    with subprocess.Popen(
        [*command, "watch", str(river().model), "--target", "-60:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(json.dumps(messages(0)[0]) + "\n")
        running.stdin.flush()
        first = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 143
        assert running.stdout.read() == ""
        assert running.stderr.read() == ""
    assert first["t"] == 0
