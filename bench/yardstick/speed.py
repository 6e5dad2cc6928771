"""Runs the benchmarks, and writes the figures they store to docs/speed.md (`make bench`).

    PYTHONPATH=bench python -m yardstick.speed                   # all of bench/
    PYTHONPATH=bench python -m yardstick.speed monitor forest    # these; the others stay
    PYTHONPATH=bench python -m yardstick.speed --data FOLDER     # with real episodes too

The figures are stored in docs/speed.json, with the date and the machine of each benchmark.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from yardstick.figures import PLACE

BENCH = Path(__file__).parents[1]
PAGE, KEPT = BENCH.parent / "docs" / "speed.md", BENCH.parent / "docs" / "speed.json"
# One needs an older checkout, one draws pictures for people to look at, one is shared, and the
# studies have a page of their own (docs/paper/studies.md).
NOT_RUN = {"cost", "pictures", "service_runs"}
NOT_RUN |= {"battles", "distance", "model_kinds", "open_questions"}
# How a benchmark is told the folder of real episodes (see bench/quality.py).
REAL = {
    "leaks": ("--real", "."),
    "marathon": ("--data", "boston.parquet"),
    "quality": ("--data", "."),
}
_TABLE = re.compile(r"(<!-- table: speed -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def machine() -> str:
    """A line of text about this machine: what the figures were measured on."""
    described = Path("/proc/cpuinfo")
    text = described.read_text() if described.exists() else ""
    named = re.search(r"^model name\s*: (.+)$", text, flags=re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{named[1] if named else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}, numba {version('numba')}, "
        f"NumPy {version('numpy')}"
    )


def benchmarks() -> list[str]:
    """The names of all benchmarks that `make bench` runs."""
    return sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in NOT_RUN)


def measured(name: str, data: Path | None = None) -> dict[str, Any]:
    """Run one benchmark; returns the figures that it stored, the date and the machine.

    ``data`` is a folder of real episodes, for the benchmarks that can use them.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "figures.jsonl"
        place.touch()
        settings = os.environ | {PLACE: str(place)}
        told = () if data is None or name not in REAL else (REAL[name][0], data / REAL[name][1])
        subprocess.run([sys.executable, BENCH / f"{name}.py", *told], env=settings, check=True)
        lines = [json.loads(line) for line in place.read_text().splitlines()]
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return {"date": today, "machine": machine(), "load": round(load, 1), "figures": lines}


def table(kept: dict[str, Any]) -> str:
    """All stored figures as text, benchmark by benchmark, and the machines they come from."""
    if not any(one["figures"] for one in kept.values()):
        return "*No figures yet: `make bench` writes them.*\n"
    places = list(dict.fromkeys(one["machine"] for one in kept.values() if one["figures"]))
    lines = [f"{number}. {place}" for number, place in enumerate(places, 1)]
    lines += ["", "| what | figure | asked | beside | benchmark | date | machine, load |"]
    lines.append("|---|---:|---|---|---|---|---|")
    for name, one in sorted(kept.items()):
        where = f"{places.index(one['machine']) + 1}, {one['load']}" if one["figures"] else ""
        for own in one["figures"]:
            cells = (own["what"], f"{spelled(own['value'])} {own['unit']}".rstrip(), own["asked"])
            cells += (own["beside"], f"[{name}](../bench/{name}.py)", one["date"], where)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spelled(value: float) -> str:
    """A number with three digits, without powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    """Run the benchmarks, store their figures, and update the page."""
    every = benchmarks()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="benchmarks to run; all by default")
    parser.add_argument("--data", type=Path, help="a folder of real episodes: see bench/quality.py")
    asked = parser.parse_args()
    chosen = asked.names or every
    if unknown := set(chosen) - set(every):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    failed = []
    for name in chosen:
        print(f"== bench/{name}.py", flush=True)
        try:
            kept[name] = measured(name, asked.data)
        except subprocess.CalledProcessError:  # its own message is printed already
            failed.append(name)
            continue
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(_TABLE.sub(lambda found: found[1] + table(kept), PAGE.read_text()))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; their earlier figures stay")


if __name__ == "__main__":
    main()
