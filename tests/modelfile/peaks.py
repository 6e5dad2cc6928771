"""How much memory a task takes on each of several files, each measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# A fork's peak starts at what its parent holds, so that the imports are paid for once.
_FORKS = """
import json, os, sys
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

def measured(path):
    before = peak()
    result = task(path)
    return json.dumps([peak() - before, result]).encode()

task(sys.argv[1])  # whatever is set up on first use
for path in sys.argv[2:]:
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, measured(path))
        os._exit(0)
    os.close(writable)
    with open(readable) as file:
        print(file.read())
    assert os.waitpid(child, 0)[1] == 0
"""

HAS_PEAKS = Path("/proc/self/status").exists()


def peaks(task: str, warm_up: Path, paths: list[Path]) -> list[tuple[int, object]]:
    """Bytes taken and the result of the Python text's ``task(path)``, for each path."""
    command = [sys.executable, "-W", "ignore", "-c", task + _FORKS, str(warm_up), *map(str, paths)]
    alone = os.environ | {"ONTARGET_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]
