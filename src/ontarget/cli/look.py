"""``ontarget look``: what a log holds, before anything is fitted."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ontarget._progress import working
from ontarget.cli.mistakes import as_option
from ontarget.cli.options import NOT_SO, AsJson, Columns, Runs, reads_runs
from ontarget.cli.printing import print_facts

__all__ = ["look"]


@reads_runs
def look(
    runs: Runs,
    columns: Columns,
    target: Annotated[
        str | None,
        typer.Option(
            help="Also count the episodes inside LO:HI, LO: or :HI, and look for columns that "
            "tell it.",
            metavar="LO:HI",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at recorded episodes before a fit: lengths, outcomes, gaps, order, and leaks.

    A leak is a column that holds what nobody can know yet, such as the outcome or the reward of its
    own row. With a leak, a monitor looks perfect on the log and fails on new runs.
    """
    from ontarget import Episodes, Target

    wanted = None if target is None else Target.parse(target)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    with working("looking"):
        found = recorded.look(wanted)
    if as_json:
        typer.echo(json.dumps(found.to_json(), sort_keys=True))
        return
    described = recorded.describe()
    told = found.told(as_option).removeprefix(described)
    print_facts(described + f"\n{NOT_SO}" * bool(recorded.remarks) + told)
