"""``ontarget study``: compares a monitor with the classifiers that you could write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from ontarget._plain import plain
from ontarget._progress import working
from ontarget.cli.options import (
    NOT_SO,
    AsJson,
    Columns,
    RewardBounds,
    Runs,
    TargetOption,
    bounds_of,
    reads_runs,
    target_of,
)
from ontarget.cli.output import check_output, print_facts

if TYPE_CHECKING:
    from rich.console import Console

    from ontarget import Episodes, Evaluation, Goal, GoalMonitor, Target
    from ontarget.study import Study

_FIGURES = (".png", ".svg")


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
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the result: .png or .svg.", metavar="FILE")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="The monitor's model: default, paper, auto, or a kind such as quantile_forest.",
            metavar="NAME",
        ),
    ] = "default",
    reward_bounds: RewardBounds = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The same data and seed give the same study.", metavar="N")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare a monitor with the classifiers that you could write instead, on your own log.

    The log is split at random several times. In each split, a monitor, boosted trees and a logistic
    regression learn from the same two thirds of the episodes, and forecast the other third at every
    step. The last lines say which is better, by how much, and what to do if a classifier wins.
    """
    from ontarget import Episodes
    from ontarget.study.running import check_episodes, expected_seconds, run_study

    wanted = target_of(target)
    if figure is not None:
        check_output(figure, _FIGURES)
    monitor = _monitor(model, columns.get("group"), reward_bounds)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    check_episodes(recorded, wanted)
    if not as_json:
        seconds = expected_seconds(recorded, splits)
        print_facts(recorded.describe() + f"\n{NOT_SO}" * bool(recorded.remarks))
        print_facts(f"time       {_duration(seconds)} for {splits} splits, three fits each")
    found = run_study(
        recorded, wanted, monitor=monitor, splits=splits, seed=seed, progress=not as_json
    )
    if figure is not None:
        with working("drawing"):
            _draw(found, figure)
    if as_json:
        typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
        return
    from rich.console import Console

    console = Console(highlight=False)
    print_facts(_asked(recorded, found), console)
    if figure is not None:
        print_facts(f"figure     {plain(figure)}", console)
    console.print()
    print_study(found, console)


def beside_rivals(found: Evaluation, past: Episodes, target: Target | Goal) -> Study:
    """A study that compares an evaluated monitor with classifiers trained on past episodes."""
    from ontarget import Goal
    from ontarget.study import study_beside

    if isinstance(target, Goal) and target.only is not None:
        past = past.only(target.only[0])
    with working("fitting classifiers"):
        return study_beside(found, past)


def print_study(found: Study, console: Console) -> None:
    """Print a study's table and its conclusions."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    head, rows = found.table()
    for k, name in enumerate(head):
        side: Literal["left", "right"] = "right" if k else "left"
        table.add_column(name, justify=side, header_style="dim", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
    told = "\n".join(f"beside     {one}" for one in found.verdicts)
    if found.unanswered:
        told = f"no answer  {found.unanswered}\n{told}"
    print_facts(
        f"{told}\n           after ±: how far the 95 % interval reaches to each side", console
    )


def _monitor(model: str, group: str | None, reward_bounds: str | None) -> GoalMonitor:
    """An unfitted monitor with these settings."""
    from ontarget import GoalMonitor
    from ontarget.errors import InputError
    from ontarget.models.registry import kinds

    bounds = bounds_of(reward_bounds)
    if model in ("default", "paper"):
        preset = cast(Literal["default", "paper"], model)
        return GoalMonitor(preset=preset, group=group, reward_bounds=bounds)
    if model not in kinds():
        known = ", ".join(("default", "paper", *kinds()))
        raise InputError(f"--model needs one of {known}, got {model!r}")
    return GoalMonitor(model, group=group, reward_bounds=bounds)


def _asked(recorded: Episodes, found: Study) -> str:
    from ontarget.study.running import met_by

    share = float(met_by(recorded, found.target).mean())
    return (
        f"target     {found.target}: met by {100 * share:.1f} % of {len(recorded):,} episodes\n"
        f"splits     {len(found.trials)}, each of {found.n_past:,} past and {found.n_new:,} new "
        "episodes; where p is UNKNOWN, the past's success rate at that step is used instead"
    )


def _draw(found: Study, path: Path) -> None:
    from ontarget._whole_file import write_whole
    from ontarget.evaluation.figures import figure_bytes

    kind = cast(Literal["png", "svg"], path.suffix[1:])
    write_whole(path, [figure_bytes(found.figure(), kind)])


def _duration(seconds: float) -> str:
    """A number of seconds in words, rounded.

    Examples
    --------
    >>> _duration(12.0), _duration(95.0), _duration(9_000.0)
    ('about 10 seconds', 'about 2 minutes', 'about 2.5 hours')
    """
    if seconds < 45.0:
        return f"about {max(10, 10 * round(seconds / 10)):.0f} seconds"
    if seconds < 3_600.0:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s' * (minutes != 1)}"
    return f"about {seconds / 3600:.1f} hours"
