"""``ontarget study``: compares a monitor with the classifiers that you could write instead."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ontarget._progress import working
from ontarget.cli.options import (
    NOT_SO,
    AsJson,
    Columns,
    Runs,
    TargetOption,
    reads_runs,
    target_of,
)
from ontarget.cli.output import print_facts


@reads_runs
def study(
    runs: Runs,
    target: TargetOption,
    columns: Columns,
    splits: Annotated[
        int,
        typer.Option(
            min=2, help="How many random splits of the episodes to average over.", metavar="N"
        ),
    ] = 5,
    seed: Annotated[
        int, typer.Option(min=0, help="The same data and seed give the same study.", metavar="N")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare a monitor with the classifiers that you could write instead, on your own log.

    The log is split at random several times. In each split, a monitor, boosted trees and a logistic
    regression learn from the same two thirds of the episodes, and forecast the other third at every
    step. The last line says which is better, and what to do if a classifier wins.
    """
    from ontarget import Episodes, GoalMonitor
    from ontarget.study import study as compare

    wanted = target_of(target)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    if not as_json:
        print_facts(recorded.describe() + f"\n{NOT_SO}" * bool(recorded.remarks))
    monitor = GoalMonitor(group=columns.get("group"))
    found = compare(
        recorded, wanted, monitor=monitor, splits=splits, seed=seed, progress=not as_json
    )
    if as_json:
        typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
        return
    print_facts(
        f"splits     {splits}, each of {found.n_past:,} past and {found.n_new:,} new episodes\n"
    )
    typer.echo(str(found))
