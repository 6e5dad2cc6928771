"""``ontarget inspect`` and ``ontarget evaluate``: what a model file holds, and how good it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import percent, plain
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    TARGET_OF_MODEL,
    AlarmBelow,
    AsJson,
    CalibrationOption,
    Columns,
    Confidence,
    FalseAlarmRate,
    ForSteps,
    Model,
    OrderOption,
    RuledOutRate,
    Runs,
    alarm_rule,
    calibration_of,
    reads_runs,
    remark_lines,
    target_for,
    targets_read,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.cli.rows import log_of, parts_in_json, parts_table, starts_of

if TYPE_CHECKING:
    from rich.table import Table

    from ontarget import AlarmRule, Evaluation
    from ontarget.episodes.history import History

_WIDE = 200  # columns
_MOST_UNANSWERED = 0.1  # a share of steps; with more, --fail-unless-held fails

# How episodes that were cut off were treated (method M24 in docs/methods.md).
_CENSORED = {
    "drop": "such episodes were left out, so those that remain may be a biased selection",
    "worst-case": "promises hold however such episodes would have ended",
    "weights": "such episodes were left out, and others at random to make up for it",
    "horizon": "only episodes that could run up to the horizon were used, each up to the horizon",
}


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file contains, after checking every byte of it."""
    from ontarget.episodes import Schema
    from ontarget.episodes.history import history_from
    from ontarget.fitted.choices import Choices
    from ontarget.modelfile.several import inspect_any
    from ontarget.reading.look import listed

    with working(f"checking {model.name}"):
        found = inspect_any(model)
    if as_json:
        typer.echo(json.dumps(found, sort_keys=True))
        return
    sizes = sorted(found["sizes"].items(), reverse=True)  # learn, or train, first; assure last
    features = Schema.from_json(found["features"])
    blocks, chosen = len(found["blocks"]), Choices.from_json(found["chosen"])
    lines = {
        "file": f"{plain(model)}, {found['bytes'] / 1e6:.1f} MB, every byte checked",
        "policy": plain(found["parameters"]["policy"] or "not named"),
        "horizon": f"{found['horizon']} steps, {blocks} model{'s' * (blocks != 1)} of kind "
        f"{', '.join(sorted({kind for kind in found['kinds'] if kind}))}",
        **({"blocks": chosen.blocks_in_words} if found["horizon"] > 1 else {}),
        **({"experts": chosen.experts_in_words} if chosen.experts else {}),
        "features": listed(features) + _recalled(history_from(found["history"], features)),
        **_behaviors(found),
        "episodes": ", ".join(f"{size:,} {part}" for part, size in sizes),
        **_outcomes(found),
        **({"target": plain(found["target"])} if "target" in found else {}),
        "cut off": _CENSORED.get(found["censoring"], "no episode is marked as cut off"),
        "groups": ", ".join(map(plain, found["groups"])) if found["groups"] else "none",
        "p": _p(found["mapped_from"]),
        **({} if chosen.held_out is None else {"held out": chosen.held_out.in_words}),
        "alarms": _alarms(dict(sizes)),
        **({"never": _never(found["impossible"])} if found["impossible"] else {}),
        "grid": f"outcomes are rounded to the nearest multiple of {found['grid']:g}",
    }
    print_facts("\n".join(f"{name:<10} {text}" for name, text in lines.items()))


def _behaviors(found: dict[str, Any]) -> dict[str, str]:
    """A line for ``inspect``, as a label and a text: the behaviors that runs are judged by."""
    several = found.get("behaviors")
    if several is None:
        return {"behavior": plain(found["behavior"])}
    return {"behaviors": plain(", ".join(f"{name} ({spec})" for name, spec in several.items()))}


def _outcomes(found: dict[str, Any]) -> dict[str, str]:
    """A line for ``inspect``: how the learning runs ended, and of which targets p knows nothing."""
    several = found["outcomes"] if "behaviors" in found else {"": found["outcomes"]}
    said = [
        f"{f'{plain(name)} ' * bool(name)}{one['least']:.6g} to {one['most']:.6g}"
        for name, one in several.items()
        if one
    ]
    if not said:
        return {}
    text = f"{', '.join(said)} in the learning runs; p has nothing to learn from for a target that "
    return {"outcomes": f"{text}all of these met, or none"}


def _recalled(history: History) -> str:
    """Text: what the models read of a run besides its present state; empty if nothing."""
    if history.steps:
        steps = "the step" if history.steps == 1 else f"the {history.steps} steps"
        also = f"those of {steps} before, the rewards there"
        return f"; also {also}, and the means over all steps so far"
    said = []
    if history.counts:
        said.append(f"how often {len(history.counts)} categories occurred so far")
    if history.changes:
        said.append(f"changes and means so far of {len(history.changes)} features")
    return f"; also {' and '.join(said)}" if said else ""


def _never(outcomes: list[float]) -> str:
    """A sentence that lists the outcomes to which the model gives probability 0."""
    return f"no recorded run ended in {', '.join(f'{one:g}' for one in outcomes)}: probability 0"


def _p(episodes: int) -> str:
    """Text: how p is calibrated, given how many learning episodes are kept for that."""
    if not episodes:
        return "calibrated with the ranks of the calibration episodes, as in the paper"
    return f"each target has its own calibration curve, learned from {episodes:,} learning episodes"


def _alarms(sizes: dict[str, int]) -> str:
    """Text: whether the false-alarm rates of this model are promised or only measured."""
    if sizes["assure"]:
        return "their rates are promised by the assure episodes"
    if "learn" in sizes:
        return "without assure episodes their rates are measured, not promised"
    return "without assure episodes they have no rates"


@reads_runs
def evaluate(
    model: Model,
    runs: Runs,
    columns: Columns,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="The outcomes that count as success: LO:HI, LO: or :HI; join several by commas. "
            "For several behaviors, conditions: 'return>=200 & energy<=50'. Repeat the "
            "option to check several targets.",
            metavar="LO:HI",
            show_default=TARGET_OF_MODEL,
            callback=targets_read,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write the log's own rows with the answers: .parquet or .csv.", metavar="FILE"
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also measure for each value of a column, or for each step; the report shows it "
            "too; can be repeated.",
            metavar="NAME",
        ),
    ] = None,
    order: OrderOption = None,
    fail_unless_held: Annotated[
        bool,
        typer.Option(
            "--fail-unless-held",
            help=f"Exit with {int(Exit.CHECK)} unless the verdict is held, with no answer at 10 % "
            "of steps at most; for scheduled checks.",
            metavar="",
        ),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write an HTML page with figures.", metavar="FILE")
    ] = None,
    false_alarm_rate: FalseAlarmRate = None,
    alarm_below: AlarmBelow = None,
    ruled_out: RuledOutRate = None,
    confidence: Confidence = None,
    for_steps: ForSteps = 1,
    calibration: CalibrationOption = "target",
    as_json: AsJson = False,
) -> None:
    """Check on new episodes whether probabilities come true and the alarm keeps its promise.

    The model must not have been fitted on any of these episodes. The default alarm promises at most
    5 % false alarms. The last line is the verdict: held, not held, or why there is no verdict.
    """
    chosen, several = calibration_of(calibration), len(target or ()) > 1
    if report is not None:
        check_output(report)
        if several:
            raise typer.BadParameter("a report is about one target; pass --target once")
    if out is not None:
        check_output(out, (".parquet", ".csv"))
    from ontarget import Episodes, GoalMonitor
    from ontarget.report.parts import parts_by
    from ontarget.report.verdict import json_of

    monitor = GoalMonitor.load(model)
    wanted = [target_for(monitor, one) for one in target or (None,)]
    rule = alarm_rule(
        alarm_below=alarm_below,
        false_alarm_rate=false_alarm_rate,
        ruled_out=ruled_out,
        confidence=confidence,
        for_steps=for_steps,
    )
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, like=monitor, **columns)
        asked = out is not None or bool(by) or order is not None
        log = log_of(runs, recorded, {**columns, "like": monitor}) if asked else None
    names = list(dict.fromkeys(by or ()))
    listed = []
    if log is not None:
        for name in names:
            log.check(name)
        listed = [name for name in names if name in log.table.columns]
    times, starts = starts_of(log, len(recorded), order, listed)
    found = [
        monitor.evaluate(recorded, one, calibration=chosen, order=times, by=starts, progress=True)
        for one in wanted
    ]
    panels = [
        {} if log is None else {name: log.panel(one, name) for name in names} for one in found
    ]
    if report is not None:
        with working("drawing the report"):
            found[0].report(report, rule, by=panels[0], name=model.name)
    if out is not None and log is not None:
        with working(f"writing {out.name}"):
            log.write(out, found, rule)
    parts = [
        {name: parts_by(one, values, name) for name, values in panel.items()}
        for one, panel in zip(found, panels, strict=True)
    ]
    if as_json:
        measures = [
            json_of(one, rule) | ({"by": parts_in_json(part)} if part else {})
            for one, part in zip(found, parts, strict=True)
        ]
        told: dict[str, Any] = measures[0] if len(measures) == 1 else {"targets": measures}
        typer.echo(json.dumps(told | {"remarks": recorded.remarks}, sort_keys=True))
        _end(found, rule, fail_unless_held)
        return
    if recorded.remarks:
        print_facts(remark_lines(recorded))
    written = [f"report     {plain(report)}" * bool(report), f"rows       {plain(out)}" * bool(out)]
    for k, (one, part) in enumerate(zip(found, parts, strict=True)):
        typer.echo("\n" * (k > 0), nl=False)
        _show(one, rule, written, [parts_table(own, name) for name, own in part.items()])
    _end(found, rule, fail_unless_held)


def _end(found: list[Evaluation], rule: AlarmRule, fail_unless_held: bool) -> None:
    from ontarget.report import Judgement

    good = (Judgement.HELD, Judgement.HELD_IN_PART)
    if fail_unless_held and not all(
        one.verdict(rule).judgement in good and one.unanswered.share <= _MOST_UNANSWERED
        for one in found
    ):
        raise typer.Exit(Exit.CHECK)


def _show(found: Evaluation, rule: AlarmRule, written: list[str], parts: list[Table]) -> None:
    """Print the results of an evaluation: measures, files, a table of forecasts, the verdict."""
    from rich.console import Console

    with working("measuring"):
        *summary, verdict = found.summary(rule).splitlines()
        table = reliability_table(found)
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width that a table must fit
        console = Console(highlight=False, width=_WIDE)
    print_facts("\n".join(filter(None, [*summary, *written])), console)
    for shown in filter(None, [table, *parts]):
        console.print()
        console.print(shown)
    console.print()
    print_facts(verdict, console)


def reliability_table(found: Evaluation, bins: int = 10) -> Table:
    """A table for a terminal: forecasts and how often they came true, one row per tenth of p."""
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
                percent(float(binned.mean_p[k]), fixed=True),
                percent(float(binned.rate_met[k]), fixed=True),
                " to ".join(
                    percent(float(end[k]), fixed=True) for end in (binned.low, binned.high)
                ),
                f"{binned.count[k]:,}",
                style=None if inside else "yellow",
            )
    return table
