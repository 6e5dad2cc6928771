"""``ontarget drift`` and ``recalibrate``: has the process changed, and what to do then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    AsJson,
    CalibrationOption,
    Columns,
    Model,
    ModelTargetOption,
    OrderOption,
    Runs,
    calibration_of,
    reads_runs,
    remark_lines,
    target_for,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.cli.rows import log_of, starts_of


@reads_runs
def drift(
    model: Model,
    runs: Runs,
    columns: Columns,
    target: ModelTargetOption = None,
    order: OrderOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Say how far p is off for each value of this column, such as a season or a "
            "machine; can be repeated.",
            metavar="NAME",
        ),
    ] = None,
    at: Annotated[
        int, typer.Option(min=0, help="The step at which runs are compared.", metavar="STEP")
    ] = 0,
    level: Annotated[
        str,
        typer.Option(
            help="The least probability that no change is reported if there is none.",
            metavar="LEVEL",
        ),
    ] = "0.99",
    calibration: CalibrationOption = "target",
    fail_on_change: Annotated[
        bool,
        typer.Option(
            "--fail-on-change",
            help=f"Exit with {int(Exit.CHECK)} if something has changed, for scheduled checks.",
            metavar="",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check on new episodes whether the process has changed, since when, and whether for the worse.

    The new episodes are compared with the model's assure episodes, which the fit held out. Pass
    only runs in which nobody acted on an alarm.
    """
    chosen = calibration_of(calibration)
    from ontarget import Episodes, GoalMonitor

    monitor = GoalMonitor.load(model)
    wanted = target_for(monitor, target)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, like=monitor, **columns)
        asked = order is not None or by
        log = log_of(runs, recorded, {**columns, "like": monitor}) if asked else None
    times, parts = starts_of(log, len(recorded), order, by or ())
    with working("comparing"):
        found = monitor.drift(
            recorded, wanted, order=times, by=parts, t=at, level=level, calibration=chosen
        )
    if as_json:
        typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
    else:
        print_facts("\n".join(filter(None, [remark_lines(recorded), str(found)])))
    if fail_on_change and found.changed:
        raise typer.Exit(Exit.CHECK)


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
            help="Use half of the new episodes to correct p; the other half supports the promises.",
            metavar="",
        ),
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="The seed for choosing that half and for random draws.", metavar="N"
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Base a model's promises on new episodes, without fitting the model again.

    Use it for a process that has changed a little: an updated policy, another season. The model and
    p stay as they are. Bounds, alarms and the drift guard are computed from the new episodes alone,
    and the output says what this number of episodes can promise.
    """
    check_output(output)
    from ontarget import Episodes, GoalMonitor

    monitor = GoalMonitor.load(model)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, like=monitor, **columns)
    with working("recalibrating"):
        renewed = monitor.recalibrate(recorded, renew_p=renew_p, seed=seed)
    renewed.save(output)
    size, trained = output.stat().st_size, renewed.contracts.fitted.trained
    if as_json:
        found = {"file": str(output), "bytes": size, "remarks": recorded.remarks}
        typer.echo(json.dumps({**found, **renewed.sizes}))
        return
    told = [
        recorded.describe(),
        renewed.summary(),
        f"model      {plain(output)}, {size / 1e6:.1f} MB: {trained.in_words}",
    ]
    print_facts("\n".join(filter(None, told)))
