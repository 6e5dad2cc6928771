"""An attack: forged files judged by worker processes, and how each of them ended.

    python -m tests.attacks.attack 2000 [--bounds-checked]

attacks today's format by so many files and prints how many ended in which way, and every fault.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numba
import pytest

from tests.attacks.monitors import write_all

ROOT = Path(__file__).parents[2]


@dataclass
class Attack:
    """How the files of an attack ended, and those that ended badly."""

    endings: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def count(self, number: int, name: str, ending: str) -> None:
        """One more file."""
        self.endings[ending.partition(":")[0]] += 1
        if ending not in ("refused", "answered"):
            self.faults.append(f"mutant {number} of {name}: {ending}")

    def __str__(self) -> str:
        shown = ", ".join(f"{n:,} {ending}" for ending, n in self.endings.most_common())
        return f"{sum(self.endings.values()):,} forged files: {shown}"


def attack(
    folder: Path, numbers: range, *, seconds: float = 5.0, bounds_checked: bool = False
) -> Attack:
    """The endings of the forged files of these numbers, over all processors."""
    found = Attack()
    n_workers = min(len(os.sched_getaffinity(0)), 8)
    environment = os.environ | {
        "ONTARGET_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    if bounds_checked:
        kept = Path(numba.config.CACHE_DIR or folder) / "bounds-checked"
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(kept)}
        _judge(folder, range(0, 0, 1), seconds, environment)  # so that one compiles for all
    lanes = [
        threading.Thread(
            target=_lane,
            args=(found, folder, range(numbers[k], numbers.stop, n_workers), seconds, environment),
        )
        for k in range(n_workers)
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return found


def _lane(
    found: Attack, folder: Path, numbers: range, seconds: float, environment: dict[str, str]
) -> None:
    """Judge these files by one process after the other; what ends a process is one file's doing."""
    while numbers:
        done = _judge(folder, numbers, seconds, environment)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            found.count(*line)
        if done.returncode == 0:
            return
        crash = signal.Signals(-done.returncode).name
        ending = f"over {seconds:g} s" if crash == "SIGPROF" else f"crash: {crash}"
        found.count(numbers[len(lines)], "", ending)
        numbers = numbers[len(lines) + 1 :]


def _judge(
    folder: Path, numbers: range, seconds: float, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """What a process says of these files before it ends, by itself or by a signal."""
    command = [sys.executable, "-m", "tests.attacks.worker", str(folder)]
    command += [str(one) for one in (numbers.start, numbers.stop, numbers.step, seconds)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode > 0:
        pytest.fail(f"the worker itself failed:\n{done.stderr}")
    return done


def main(n: int, *, bounds_checked: bool) -> int:
    """Attack, print, and tell by the exit code whether a file ended badly."""
    with tempfile.TemporaryDirectory() as name:
        write_all(Path(name))
        seconds = 30.0 if bounds_checked else 5.0
        found = attack(Path(name), range(n), seconds=seconds, bounds_checked=bounds_checked)
    sys.stdout.write("\n".join([str(found), *found.faults, ""]))
    return bool(found.faults)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), bounds_checked="--bounds-checked" in sys.argv[2:]))
