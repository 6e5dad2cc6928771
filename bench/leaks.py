"""How many planted leaks `Episodes.look` finds, and how often it warns about clean logs.

A leak is a column that reveals the future. Every kind of leak in the tests is planted into a clean
log. The clean logs are simulated episodes of two domains, and tables of real episodes in a folder.
For clean logs, no warnings are right.

    python bench/leaks.py --real FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from ontarget import Episodes
from ontarget.domains import simulate
from yardstick.figures import keep


def clean_sets(folder: Path | None, most: int) -> Iterator[tuple[str, Episodes]]:
    """Logs without leaks: simulated episodes, and the tables in a folder.

    At most ``most`` episodes of each are used. A table has the columns episode and step, and either
    reward or result.
    """
    for domain in ("tamarisk", "skirmish"):
        yield domain, simulate(domain, min(most, 1_000), progress=False)
    for path in sorted(folder.glob("*.parquet")) if folder else ():
        table = pl.read_parquet(path)
        names = table["episode"].unique(maintain_order=True)
        some = names.sample(min(most, names.len()), seed=0).to_list()
        told: dict[str, Any] = {} if "reward" in table.columns else {"outcome": "result"}
        told["times"] = [one for one, kind in table.schema.items() if kind.is_temporal()]
        yield path.stem, Episodes.from_frame(table.filter(pl.col("episode").is_in(some)), **told)


def main() -> None:
    """Count the leaks that are found, and the cautions (warnings) about clean logs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, help="a folder of .parquet tables of real episodes")
    parser.add_argument("--most", type=int, default=2_000, help="episodes of each real table")
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests are no package of ours
    from tests.reading.planted import LEAKS, clean_log, planted

    found = 0
    for leak in LEAKS:
        kind, runs = planted(leak, clean_log())
        told = [one.kind for one in runs.look().cautions]
        found += told == [kind]
        print(f"  {leak:<36} {', '.join(told) or 'nothing'}")
    print(f"{found} of {len(LEAKS)} planted leaks found, each by its kind and nothing else\n")
    keep("planted leaks found", found, f"of {len(LEAKS)}", asked="all")
    for name, runs in clean_sets(asked.real, asked.most):
        cautions = runs.look().cautions
        print(f"  {name:<12} {len(runs):>6,} episodes, {len(cautions)} cautions")
        keep(f"cautions about a clean log, {name}", len(cautions), "", asked="0")
        for one in cautions:
            print(f"    {one}")


if __name__ == "__main__":
    main()
