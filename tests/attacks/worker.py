"""A process that judges forged files one after the other, under limits on memory and time.

    python -m tests.attacks.worker FOLDER FIRST STOP STEP SECONDS

It prints one line of JSON per file. A crash or a limit ends the process, and whoever started it
knows by the number of lines which file did it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from ontarget.modelfile.container import container_bytes
from tests.attacks.judge import ANSWERED, ending
from tests.attacks.monitors import read_all
from tests.attacks.mutants import mutant

SPARE = 64_000_000


def address_space() -> int:
    """Bytes of memory that this process has mapped."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def main(folder: str, first: int, stop: int, step: int, seconds: float) -> None:
    """Judge the forged files of these numbers."""
    contents = read_all(Path(folder))
    path = Path(folder) / f"forged-{first % step}.file"
    for name, (header, sections) in contents.items():  # whatever is compiled or loaded on first use
        path.write_bytes(container_bytes(header, sections))
        assert ending(path) == ANSWERED, name
    taken = address_space()
    for number in range(first, stop, step):
        name, data = mutant(contents, number)
        path.write_bytes(data)
        most = max(taken, address_space()) + SPARE + 2 * len(data)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, seconds)  # unhandled, so it ends even a kernel
        found = ending(path)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        sys.stdout.write(json.dumps([number, name, found]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], *(int(one) for one in sys.argv[2:5]), seconds=float(sys.argv[5]))
