"""A monitor fitted on one marathon and used on another: every command, from fit to drift.

    python bench/marathon.py --data boston.parquet

The data are the Boston marathons of 2013 and 2014. The race of 2013 was stopped early. Its list has
only runners who had finished by then, so more of them are under four hours than their age and sex
alone would suggest. A monitor fitted on 2014 must find its p (the probability to finish within four
hours) too low in 2013. One fitted on 2013 must find its p too high in 2014. The file is sorted by
finish time, so runners are drawn by a hash of their id. Without the file, this benchmark does
nothing.
"""

from __future__ import annotations

import argparse
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from typer.testing import CliRunner

from ontarget.cli import app
from yardstick.figures import keep

TARGET = ":240"


def drawn(runs: pl.DataFrame, sizes: dict[str, int]) -> dict[str, pl.DataFrame]:
    """Parts of a race with the given numbers of runners, drawn by a hash of their ids."""
    names = runs["episode"].unique().to_list()
    names.sort(key=lambda name: blake2b(str(name).encode(), digest_size=8).digest())
    found, start = {}, 0
    for part, n in sizes.items():
        found[part] = runs.filter(pl.col("episode").is_in(names[start : start + n]))
        start += n
    return found


def under(runs: pl.DataFrame) -> float:
    """The share of runners who meet the target."""
    ends = runs.group_by("episode").agg(pl.col("reward").sum())
    return float((ends["reward"] <= 240).mean())  # type: ignore[arg-type]


def told(*arguments: object) -> str:
    """The output of an ontarget command with these arguments, without its progress bar."""
    given = [str(one) for one in arguments]
    done = CliRunner().invoke(app, given)
    if done.exit_code:
        raise SystemExit(f"ontarget {' '.join(given)}: {done.stderr}")
    return done.stdout


def show(*arguments: object) -> str:
    """Run an ontarget command; print the command and its output, and return the output.

    Of a path, only the last part is printed.
    """
    text = told(*arguments).rstrip()
    folder = next(str(one.parent) for one in arguments if isinstance(one, Path))
    given = " ".join(one.name if isinstance(one, Path) else str(one) for one in arguments)
    print(f"\n$ ontarget {given}\n{text.replace(f'{folder}/', '')}", flush=True)
    return text


def life(races: dict[str, pl.DataFrame], folder: Path, *, fit: int, new_runs: int) -> None:
    """Fit a monitor on one race, then run each command on the other race."""
    first, second = races
    old = drawn(races[first], {"fit": fit, "same": new_runs})
    other = drawn(races[second], {"new": new_runs, "later": new_runs})
    for part, runs in (old | other).items():
        runs.write_parquet(folder / f"{part}.parquet")
    # Both races in one file, in the order in which the monitor meets them.
    both = [part.with_columns(race=pl.lit(i)) for i, part in enumerate((old["same"], other["new"]))]
    pl.concat(both).write_parquet(folder / "both.parquet")
    print(f"\n== fitted on {fit:,} runners of {first}, met by those of {second}")
    print(f"   under four hours: {under(races[first]):.1%} in {first}, "
          f"{under(races[second]):.1%} in {second}")  # fmt: skip

    def file(name: str) -> Path:
        return folder / f"{name}.{'ontarget' if name.startswith('monitor') else 'parquet'}"

    told("fit", file("fit"), "-o", file("monitor"), "--drop", "year")
    asked = ("--target", TARGET)
    same = show("drift", file("monitor"), file("same"), *asked)
    new = show("drift", file("monitor"), file("new"), *asked)
    columns = ("--order", "race", "--by", "year")
    by = show("drift", file("monitor"), file("both"), *asked, *columns)
    evaluated = show("evaluate", file("monitor"), file("both"), *asked, *columns)
    show("recalibrate", file("monitor"), file("new"), "-o", file("monitor2"), "--renew-p")
    show("drift", file("monitor2"), file("later"), *asked)
    show("compare", file("monitor"), file("monitor2"), file("later"), *asked)

    higher = under(races[second]) > under(races[first])
    way, judged = ("low", "changed") if higher else ("high", "changed for the worse")
    expected = (
        (same, "verdict    no sign of a change"),
        (new, f"verdict    {judged}: p is now"),
        (new, f"points too {way}"),
        (by, f"where year is {second}, p is"),
        (evaluated, f"where year is {second}, p is"),
        (evaluated, "where race is 1 (a best guess)"),
        (by, f"about run {new_runs + 1:,} of {2 * new_runs:,}, where race is 1 (a best guess)"),
    )
    for text, said in expected:
        if said not in text:
            raise SystemExit(f"expected {said!r} in\n{text}")
    print(f"\nnamed rightly: {judged}, p too {way}, by year, since the other race", flush=True)
    said = f"statements about a changed race that are right, fitted on {first}"
    keep(said, len(expected), f"of {len(expected)}", asked="all")


def main() -> None:
    """Run all commands with either race as the past, or only a small part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="boston.parquet, one row per runner and mat")
    parser.add_argument("--quick", action="store_true", help="few runners, to see that it runs")
    parser.add_argument("--fitted-on", choices=("2014", "2013"), help="one way alone")
    given = parser.parse_args()
    if given.data is None:
        print("skipped: pass --data boston.parquet")
        return
    table = pl.read_parquet(given.data)
    races = {year: table.filter(pl.col("year") == int(year)) for year in ("2014", "2013")}
    sizes = {"fit": 600, "new_runs": 400} if given.quick else {"fit": 2000, "new_runs": 1000}
    for order in (("2014", "2013"), ("2013", "2014")):
        if given.fitted_on not in (None, order[0]):
            continue
        with TemporaryDirectory() as folder:
            life({year: races[year] for year in order}, Path(folder), **sizes)


if __name__ == "__main__":
    main()
