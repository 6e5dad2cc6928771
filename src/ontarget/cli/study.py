"""``ontarget inspect`` and ``ontarget evaluate``: what a model file holds, and how good it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget.cli.columns import read_runs
from ontarget.cli.options import (
    AsJson,
    DropCensored,
    EpisodeColumn,
    FalseAlarmRate,
    GroupColumn,
    Model,
    RewardColumn,
    Runs,
    StepColumn,
    TargetOption,
    frame_options,
)
from ontarget.cli.printing import print_facts
from ontarget.cli.progress import bar, working

if TYPE_CHECKING:
    from rich.table import Table

    from ontarget import GoalMonitor
    from ontarget.episodes.frames import FrameOptions
    from ontarget.monitor.evaluation import Evaluation

__all__ = ["evaluate", "inspect", "reliability_table"]


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Say what a model file holds, after checking every byte of it."""
    from ontarget.monitor.file import inspect_file

    with working(f"checking {model.name}"):
        found = inspect_file(model)
    if as_json:
        typer.echo(json.dumps(found, sort_keys=True))
        return
    sizes = found["sizes"]
    names = [feature["name"] for feature in found["features"]]
    blocks = len(found["blocks"])
    lines = {
        "file": f"{model}, {found['bytes'] / 1e6:.1f} MB, every byte checked",
        "policy": found["policy"] or "not named",
        "horizon": f"{found['horizon']} steps, {blocks} models of kind {found['kind']}",
        "features": ", ".join(names) or "none",
        "behavior": found["behavior"],
        "episodes": f"{sizes['train']:,} train, {sizes['calibrate']:,} calibrate, "
        f"{sizes['assure']:,} assure",
        "groups": ", ".join(map(str, found["groups"])) if found["groups"] else "none",
        "grid": f"outcomes are compared to the nearest {found['grid']:g}",
    }
    print_facts("\n".join(f"{name:<10} {text}" for name, text in lines.items()))


def evaluate(
    model: Model,
    runs: Runs,
    target: TargetOption,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with figures: report.html.", metavar="FILE")
    ] = None,
    false_alarm_rate: FalseAlarmRate = "0.05",
    episode: EpisodeColumn = None,
    step: StepColumn = None,
    reward: RewardColumn = None,
    group: GroupColumn = None,
    drop_censored: DropCensored = False,
    as_json: AsJson = False,
) -> None:
    """Measure on new episodes whether what is given 80 % comes true 80 times in 100.

    The episodes must be new: none that the model was fitted on.
    """
    from ontarget import GoalMonitor, Target

    monitor = GoalMonitor.load(model)
    wanted = Target.parse(target)
    given = frame_options(
        episode=episode, step=step, reward=reward, group=group, drop_censored=drop_censored
    )
    with working(f"reading {runs.name}"):
        recorded, _ = read_runs(runs, {**_shape_of(monitor), **given})
    with bar("evaluating", monitor.horizon) as advance:
        found = monitor.evaluate(recorded, wanted, progress=advance)
    rate = false_alarm_rate or "0.05"
    if report is not None:
        with working("drawing the report"):
            found.report(report, false_alarm_rate=rate)
    if as_json:
        typer.echo(json.dumps(_measures(found, rate), sort_keys=True))
        return
    with working("measuring"):
        summary, table, alarm = found.summary(), reliability_table(found), _alarm(found, rate)
    from rich.console import Console

    console = Console(highlight=False)
    print_facts(f"{summary}\n{alarm}", console)
    if report is not None:
        print_facts(f"report     {report}", console)
    console.print()
    console.print(table)


def _shape_of(monitor: GoalMonitor) -> FrameOptions:
    """What new episodes must share with the monitor, dictionaries included where it keeps any."""
    fitted = monitor.fitted
    if fitted.assure is not None:
        return {"like": fitted.assure}
    return {
        "features": fitted.schema.names,
        "behavior": fitted.behavior,
        "horizon": fitted.horizon,
    }


def _alarm(found: Evaluation, rate: str) -> str:
    from ontarget.errors import CalibrationError, InputError

    try:
        promised = found.promised_alarms(rate)
    except (CalibrationError, InputError) as error:
        return f"alarm      none: {error}"
    quality = promised.quality
    below = ", ".join(f"{rule.threshold:.3g}" for rule in promised.rules)
    lead = ""
    if quality.lead_steps.size:
        lead = f", median lead {quality.median_lead_steps:g} steps"
    return (
        f"alarm      below p = {below}: {quality.false_alarms.value:.1%} false alarms (promised "
        f"{float(rate):.1%}), {quality.detections.value:.1%} of failures caught{lead}"
    )


def _measures(found: Evaluation, rate: str) -> dict[str, Any]:
    from ontarget.errors import CalibrationError, InputError

    measures: dict[str, Any] = {
        "target": str(found.target),
        "episodes": int(found.met.size),
        "met": float(found.met.mean()),
        "ece": found.ece()._asdict(),
        "brier": found.brier()._asdict(),
        "log_loss": found.log_loss()._asdict(),
        "raw": {
            "ece": found.ece("raw")._asdict(),
            "brier": found.brier("raw")._asdict(),
            "log_loss": found.log_loss("raw")._asdict(),
        },
        "ruled_out_wrongly": found.ruled_out_wrongly().value,
        "assured_wrongly": found.assured_wrongly().value,
    }
    try:
        promised = found.promised_alarms(rate)
    except (CalibrationError, InputError) as error:
        return measures | {"alarm": None, "alarm_reason": str(error)}
    quality, lead = promised.quality, promised.quality.median_lead_steps
    return measures | {
        "alarm": {
            "promised": float(rate),
            "below": [rule.threshold for rule in promised.rules],
            "false_alarm_rate": quality.false_alarms.value if quality.false_alarms.n else None,
            "detection_rate": quality.detections.value if quality.detections.n else None,
            "median_lead_steps": None if math.isnan(lead) else lead,
        }
    }


def reliability_table(found: Evaluation, bins: int = 10) -> Table:
    """What was said, what came true, and a bar of each, for people."""
    from rich.table import Table

    from ontarget.evaluation import pool, reliability

    pooled = pool(found.p, found.met)
    binned = reliability(pooled.p, pooled.met, bins=bins, episode=pooled.episode)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("it said", "came true", "95 % interval", "forecasts"):
        table.add_column(name, justify="right", header_style="dim", no_wrap=True)
    for k in range(bins):
        if binned.count[k]:
            inside = binned.low[k] <= binned.mean_p[k] <= binned.high[k]
            table.add_row(
                f"{binned.mean_p[k]:.1%}",
                f"{binned.rate_met[k]:.1%}",
                f"{binned.low[k]:.1%} to {binned.high[k]:.1%}",
                f"{binned.count[k]:,}",
                style=None if inside else "yellow",
            )
    return table
