"""``ontarget recalibrate``: a model file after the process has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ontarget._plain import plain
from ontarget._progress import working
from ontarget.cli.options import AsJson, Columns, Model, Runs, reads_runs, remark_lines
from ontarget.cli.output import check_output
from ontarget.cli.printing import print_facts

__all__ = ["recalibrate"]


@reads_runs
def recalibrate(
    model: Model,
    runs: Runs,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write.", metavar="FILE")
    ],
    columns: Columns,
    renew_p: Annotated[
        bool,
        typer.Option(
            "--renew-p",
            help="Let half of the new episodes correct p; the other half carries the promises.",
            metavar="",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of that choice and of draws.", metavar="N")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Let the promises of a model rest on new episodes, without learning it anew.

    For a process that has changed a little: an updated policy, another season. The model keeps
    what it has learned, and p. Bounds, alarms and the drift guard are made from the new episodes
    alone, and the output says what so few can promise.
    """
    from ontarget import Episodes, GoalMonitor

    check_output(output)
    monitor = GoalMonitor.load(model)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, like=monitor, **columns)
    with working("recalibrating"):
        renewed = monitor.recalibrate(recorded, renew_p=renew_p, seed=seed)
    renewed.save(output)
    size = output.stat().st_size
    if as_json:
        found = {"file": str(output), "bytes": size, "remarks": recorded.remarks}
        typer.echo(json.dumps({**found, **renewed.sizes}))
        return
    told = [
        remark_lines(recorded),
        recorded.describe(),
        renewed.summary(),
        f"model      {plain(output)}, {size / 1e6:.1f} MB: {renewed.fitted.trained.in_words}",
    ]
    print_facts("\n".join(filter(None, told)))
