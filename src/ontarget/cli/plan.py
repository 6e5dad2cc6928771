"""``ontarget plan``: how many episodes to record."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._text import percent
from ontarget.cli.options import AsJson

if TYPE_CHECKING:
    from ontarget.conformal.levels import SizePlan

# How `fit` divides episodes, unless it is told otherwise.
_LEARN, _ASSURE = 0.8, 0.2


def plan(
    accuracy: Annotated[
        float,
        typer.Option(
            help="The largest error you accept: 0.02 is two percentage points.", metavar="SHARE"
        ),
    ] = 0.02,
    level: Annotated[
        str,
        typer.Option(
            help="The confidence with which the error should stay below that.", metavar="LEVEL"
        ),
    ] = "0.95",
    false_alarm_rate: Annotated[
        str | None,
        typer.Option(help="The false-alarm rate to promise, such as 0.05.", metavar="RATE"),
    ] = None,
    success_rate: Annotated[
        float | None,
        typer.Option(
            help="The share of runs that meet the target, if you know it.", metavar="SHARE"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how many episodes to record for the accuracy that you want.

    A fit learns p from four in five episodes; the fifth supports promises. The plan covers only the
    error from chance. How sharp the probabilities are depends on the model; evaluate measures it.
    """
    from ontarget._arguments import share
    from ontarget.conformal.levels import plan_sizes

    if success_rate is not None:
        share("success_rate", success_rate)
    found = plan_sizes(accuracy, level, false_alarm_rate=false_alarm_rate)
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"record": _to_record(found, success_rate)}))
        return
    _show(found, success_rate)


def _to_record(found: SizePlan, success_rate: float | None) -> int:
    """How many episodes to record in all, so that each part that `fit` makes is large enough."""
    total = math.ceil(found.at_one_threshold / _LEARN)
    if found.successes is not None:
        total = max(total, math.ceil(found.successes / (success_rate or 1.0) / _ASSURE))
    return total


def _show(found: SizePlan, success_rate: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"For ±{found.accuracy:.3g} with {found.level:.4g} confidence:\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    learn, assure = "learn episodes", "assure episodes"
    table.add_row(f"{found.at_one_threshold:,}", learn, "for p of one target, roughly")
    table.add_row(f"{found.at_one_threshold:,}", assure, "for low and high of one target")
    table.add_row(
        f"{found.at_all_thresholds:,}",
        assure,
        "for all targets at once (with two ends: within twice the error)",
    )
    for asked, needed in found.coverage.items():
        table.add_row(
            f"{needed:,}",
            assure,
            f"for the coverage of {percent(asked, 0, fixed=True)} intervals",
        )
    table.add_row(
        f"{found.coverage_surely[0.9]:,}",
        assure,
        f"the fewest for 90 % intervals with confidence {found.level:.4g}",
    )
    if found.successes is not None:
        rate = found.false_alarm_rate
        table.add_row(
            f"{found.successes_to_promise:,}",
            "successful assure episodes",
            f"the fewest to promise a false-alarm rate of {rate:.3g} on average",
        )
        table.add_row(
            f"{found.successes_surely:,}",
            "successful assure episodes",
            f"the fewest to promise it with confidence {found.level:.4g} (--confidence)",
        )
        table.add_row(
            f"{found.successes:,}",
            "successful assure episodes",
            f"for your recording's true rate to be that close to {rate:.3g}",
        )
    console.print(table)
    known = (
        ""
        if success_rate is None
        else f" ({percent(success_rate, 0, fixed=True)} of them successful)"
    )
    console.print(
        f"\nRecord {_to_record(found, success_rate):,} episodes{known} for p"
        f"{' and the alarm' * (found.successes is not None)}: fit learns from 80 in 100 and keeps "
        "20 as assure episodes, for promises. If you need another line of assure episodes, record "
        "five times its number. Record some more for evaluate.",
    )
    if found.successes is not None and not success_rate:
        console.print("Pass --success-rate if some of them miss the target.", style="dim")
