"""How long it takes to write, open and verify a model file, small and large.

Opening and verifying are timed in new processes; the median is shown. For comparison, two more
times are measured: writing as many plain bytes to the disk, and one SHA-256 over them on one core.
They show what the machine allows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from ontarget.modelfile.container import write_container
from yardstick.figures import keep

OPEN = """
import json, sys, time
from ontarget.modelfile.container import Container
path = sys.argv[1]
start = time.perf_counter()
found = Container.open(path)
opened = time.perf_counter() - start
start = time.perf_counter()
found.section(found.sections[0])
first = time.perf_counter() - start
start = time.perf_counter()
found.verify()
print(json.dumps({"open": opened, "first": first, "verify": time.perf_counter() - start}))
"""

# The arrays of one block of a forest of 100 trees: nodes, leaves, roots, bin edges, guides.
SHARES = {"nodes": "u8", "leaves": "u2", "offsets": "u4", "values": "f8", "flags": "u1"}
SMALL = {f"guide-{i}": np.arange(7.0) for i in range(10)}


def sections(n_bytes: int, n_sections: int) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    each = n_bytes // n_sections // len(SHARES)
    raw = rng.bytes(each + 16)
    return {
        f"block-{i:04d}": SMALL
        | {
            name: np.frombuffer(raw, dtype, each // np.dtype(dtype).itemsize)
            for name, dtype in SHARES.items()
        }
        for i in range(n_sections)
    }


def copied(path: Path, size: int) -> float:
    """The seconds that it takes to write this many plain bytes to the disk."""
    block = bytes(2**20)
    start = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def hashed(size: int) -> float:
    data = bytes(min(size, 2**26))
    start = time.perf_counter()
    hashlib.sha256(data).digest()
    return (time.perf_counter() - start) * size / len(data)


def measured(path: Path, repeats: int) -> dict[str, float]:
    turns = []
    for _ in range(repeats):
        command = [sys.executable, "-c", OPEN, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        turns.append(json.loads(done.stdout))
    return {key: median(turn[key] for turn in turns) for key in turns[0]}


def report(folder: Path, megabytes: int, n_sections: int, repeats: int) -> None:
    path = folder / "model.ontarget"
    content = sections(megabytes * 1_000_000, n_sections)
    start = time.perf_counter()
    write_container(path, {"horizon": n_sections}, content)
    seconds = time.perf_counter() - start
    size = path.stat().st_size
    plain, bare = copied(folder / "plain", size), hashed(size)
    found = measured(path, repeats)
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    print(f"{size / 1e6:,.0f} MB, {n_sections} sections, header {header / 1e3:,.0f} kB")
    print(f"  write          {seconds:7.3f} s   {seconds / plain:5.2f} x the bytes alone")
    print(f"  open           {found['open'] * 1e3:7.2f} ms  (below 50 asked)")
    keep(f"open a model file of {size / 1e6:,.0f} MB", found["open"] * 1e3, "ms", asked="< 50 ms")
    print(f"  first section  {found['first'] * 1e3:7.2f} ms")
    ratio = found["verify"] / bare
    asked = "  (below 0.2 s asked)" if megabytes <= 60 else ""
    print(f"  verify         {found['verify']:7.3f} s   {ratio:5.2f} x one SHA-256{asked}")
    path.unlink()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=5)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for megabytes, n_sections in ((60, 50), (1_000, 200), (1_000, 1_000)):
            report(Path(folder), megabytes, n_sections, asked.repeats)


if __name__ == "__main__":
    main()
