"""``ontarget compare`` and ``ontarget study``: two monitors, or a monitor beside a classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.options import (
    NOT_SO,
    AlarmBelow,
    AsJson,
    CalibrationOption,
    Columns,
    Confidence,
    FalseAlarmRate,
    ForSteps,
    Model,
    ModelTargetOption,
    RuledOutRate,
    Runs,
    TargetOption,
    alarm_rule,
    calibration_of,
    model_there,
    reads_runs,
    remark_lines,
    target_for,
    target_of,
)
from ontarget.cli.output import print_facts


@reads_runs
def compare(
    model: Model,
    other: Annotated[
        Path,
        typer.Argument(
            help="Another model file.", metavar="OTHER", callback=model_there, is_eager=True
        ),
    ],
    runs: Runs,
    columns: Columns,
    target: ModelTargetOption = None,
    false_alarm_rate: FalseAlarmRate = None,
    alarm_below: AlarmBelow = None,
    ruled_out: RuledOutRate = None,
    confidence: Confidence = None,
    for_steps: ForSteps = 1,
    calibration: CalibrationOption = "target",
    as_json: AsJson = False,
) -> None:
    """Compare two models on new episodes that neither has seen, and say which to deploy.

    Differences are paired: both models answer for the same steps of the same episodes, and whole
    episodes are resampled for the intervals. The last line is the verdict.
    """
    chosen = calibration_of(calibration)
    from ontarget import Episodes, GoalMonitor
    from ontarget.report import compare as beside

    rule = alarm_rule(
        alarm_below=alarm_below,
        false_alarm_rate=false_alarm_rate,
        ruled_out=ruled_out,
        confidence=confidence,
        for_steps=for_steps,
    )
    monitors = [GoalMonitor.load(path) for path in (model, other)]
    wanted = target_for(monitors[0], target)
    if target is None and monitors[1].target not in (None, wanted):
        raise typer.BadParameter(
            f"pass --target, because {plain(model)} was fitted with {wanted} and {plain(other)} "
            f"with {monitors[1].target}"
        )
    found, remarks = [], ""
    for monitor in monitors:
        with working(f"reading {runs.name}"):
            recorded = Episodes.read(runs, like=monitor, **columns)
        remarks = remarks or remark_lines(recorded)
        found.append(monitor.evaluate(recorded, wanted, calibration=chosen, progress=not as_json))
    with working("comparing"):
        compared = beside(found[0], found[1], rule, (plain(model), plain(other)))
    if as_json:
        typer.echo(json.dumps(compared.to_json(), sort_keys=True))
        return
    print_facts("\n".join(filter(None, [remarks, str(compared)])))


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
    """Compare a monitor with the classifier that you could write instead, on your own log.

    The log is split at random several times. In each split, a monitor and boosted trees learn from
    the same two thirds of the episodes, and forecast the other third at every step. The last line
    says which is better, and what to do if the classifier wins.
    """
    from ontarget import Episodes, GoalMonitor
    from ontarget.study import study as studied

    wanted = target_of(target)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    if not as_json:
        print_facts(recorded.describe() + f"\n{NOT_SO}" * bool(recorded.remarks))
    monitor = GoalMonitor(group=columns.get("group"))
    found = studied(
        recorded, wanted, monitor=monitor, splits=splits, seed=seed, progress=not as_json
    )
    if as_json:
        typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
        return
    print_facts(
        f"splits     {splits}, each of {found.n_past:,} past and {found.n_new:,} new episodes\n"
    )
    typer.echo(str(found))
