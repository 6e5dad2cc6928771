"""How long it takes to read ten million recorded rows as Episodes, compared with polars alone.

Each reader runs in a process of its own, so that the peak of its memory can be measured. The
readers take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from yardstick.figures import keep

# VmHWM starts anew with the program; ru_maxrss would carry over the parent's peak.
PEAK = """
import json, re, sys, time
def peak():
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status).group(1)) * 1024
"""

READ_EPISODES = """
import ontarget, polars, numpy
from ontarget.reading import files
before = peak()
start = time.perf_counter()
runs = ontarget.Episodes.read(sys.argv[1])
seconds = time.perf_counter() - start
used = peak() - before
store = runs._store
arrays = sum(a.nbytes for a in vars(store).values() if isinstance(a, numpy.ndarray))
start = time.perf_counter()
rows = sum(len(runs.at(t)) for t in range(runs.horizon))
print(json.dumps({"seconds": seconds, "peak": used, "arrays": arrays, "rows": rows,
                  "at": (time.perf_counter() - start) / runs.horizon}))
"""

READ_POLARS = """
import polars
before = peak()
start = time.perf_counter()
frame = polars.scan_parquet(sys.argv[1]).collect()
seconds = time.perf_counter() - start
used = peak() - before
print(json.dumps({"seconds": seconds, "peak": used, "rows": frame.height}))
"""


def measured(code: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-c", PEAK + code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write(path: Path, n: int, steps: int, features: int) -> tuple[float, int]:
    from ontarget import Episodes

    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(
        rng.normal(size=(n, steps, features)), rng.normal(size=(n, steps)).round(2)
    )
    start = time.perf_counter()
    runs.write(path)
    return time.perf_counter() - start, path.stat().st_size


def import_seconds(module: str) -> float:
    """How many seconds more an import takes than that of NumPy.

    The two take turns, and the median of the differences counts.
    """

    def once(name: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
        return time.perf_counter() - start

    return median(once(module) - once("numpy") for _ in range(15))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--episodes", type=int, default=100_000)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--features", type=int, default=8)
    options.add_argument("--repeats", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.parquet"
        seconds, size = write(path, asked.episodes, asked.steps, asked.features)
        print(
            f"write    {asked.episodes * asked.steps:,} rows  {seconds:.2f} s  {size / 1e6:,.0f} MB"
        )
        turns = [
            (measured(READ_POLARS, path), measured(READ_EPISODES, path))
            for _ in range(asked.repeats)
        ]
    ratio = median(ours["seconds"] / theirs["seconds"] for theirs, ours in turns)
    polars, ours = turns[-1]
    for name, found in (("polars", polars), ("Episodes", ours)):
        print(f"{name:8} read  {found['seconds']:.2f} s  peak {found['peak'] / 1e6:,.0f} MB")
    print(f"time   {ratio:.2f} x polars (median of {asked.repeats}; at most 4 asked)")
    keep("read a Parquet log of 10,000,000 rows", ratio, "×", asked="≤ 4 ×", beside="polars alone")
    memory = max(found["peak"] / found["arrays"] for _, found in turns)
    print(f"memory {memory:.2f} x the arrays' {ours['arrays'] / 1e6:,.0f} MB (at most 3 asked)")
    keep("memory of reading them", memory, "×", asked="≤ 3 ×", beside="the arrays alone")
    print(f"one step of {asked.episodes:,} states: {ours['at'] * 1e3:.2f} ms")
    extra = import_seconds("ontarget")  # below 0: nothing but the package itself is loaded yet
    print(f"import ontarget: {extra:+.3f} s against import numpy (below +0.3 asked)")
    extra = import_seconds("ontarget; ontarget.Episodes")
    asked_ms = {"asked": "< 300 ms", "beside": "more than import numpy"}
    keep("import ontarget, and load Episodes", 1e3 * extra, "ms", **asked_ms)
    print(f"import ontarget; ontarget.Episodes: {extra:+.3f} s against import numpy")


if __name__ == "__main__":
    main()
