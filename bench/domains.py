"""How fast the simulators are: python bench/domains.py.

Compilation is timed separately, in new processes: once with an empty cache of compiled code, and
once with the cache that the first process left behind. Everything else is timed in this process,
after compilation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ontarget._threads import n_threads
from ontarget.domains import rollout_outcomes, simulate, simulate_with_snapshots
from ontarget.domains.domain import Domain, domain_of, take
from yardstick.figures import keep

EPISODES = 10_000
REQUIRED_SECONDS = {"tamarisk": 2.0, "skirmish": 30.0}
REPEATS = 3

FIRST_USE = """
import time
from ontarget.domains import simulate
from ontarget.domains.domain import domain_of
domain = domain_of({name!r})
start = time.perf_counter()
simulate(domain, 1, progress=False)
print(time.perf_counter() - start)
"""


def first_use(name: str, cache: str) -> float:
    """Seconds until the first episode is simulated, in a new process with this cache folder."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE.format(name=name)],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def best(action: Callable[[], object]) -> float:
    """The shortest of a few runs, in seconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def with_threads(count: int, action: Callable[[], float]) -> float:
    before = os.environ.get("ONTARGET_THREADS")
    os.environ["ONTARGET_THREADS"] = str(count)
    try:
        return action()
    finally:
        if before is None:
            del os.environ["ONTARGET_THREADS"]
        else:
            os.environ["ONTARGET_THREADS"] = before


def rollouts_per_second(domain: Domain[Any]) -> float:
    """How many simulated runs, started in the middle of an episode, finish per second."""
    t = domain.horizon // 2
    run = simulate_with_snapshots(domain, 20, snapshots=[t])
    states = take(run.snapshots[t], np.arange(20))
    return 20 * 400 / best(lambda: rollout_outcomes(domain, states, 0.0, t, rollouts=400))


def main() -> None:
    table = Table(title=f"{EPISODES:,} episodes, best of {REPEATS}, {n_threads()} threads")
    for column in (
        "domain",
        "seconds",
        "required",
        "headroom",
        "ns per step",
        "1 thread",
        "gain",
        "rollouts/s",
        "first use, compiling",
        "first use, cached",
    ):
        table.add_column(column, justify="left" if column == "domain" else "right")
    for name, required in REQUIRED_SECONDS.items():
        if find_spec(f"ontarget.domains.{name}") is None:
            continue
        domain = domain_of(name)
        with tempfile.TemporaryDirectory() as cache:
            compiling, cached = first_use(name, cache), first_use(name, cache)
        simulate(domain, 1, progress=False)

        def run(domain: Domain[Any] = domain) -> float:
            return best(lambda: simulate(domain, EPISODES, progress=False))

        seconds, alone = run(), with_threads(1, run)
        keep(f"simulate {EPISODES:,} episodes of {name}", seconds, "s", asked=f"< {required:g} s")
        table.add_row(
            name,
            f"{seconds:.2f}",
            f"< {required:g}",
            f"{required / seconds:.1f}×",
            f"{seconds / (EPISODES * domain.horizon) * 1e9:,.0f}",
            f"{alone:.2f}",
            f"{alone / seconds:.1f}×",
            f"{rollouts_per_second(domain):,.0f}",
            f"{compiling:.1f} s",
            f"{cached:.2f} s",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
