"""``ontarget plan``, ``simulate``, ``warm`` and ``paper``: commands that need no log."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._progress import progress_bar
from ontarget._text import percent, plain
from ontarget.cli.options import AsJson, option
from ontarget.cli.output import check_folder, check_output

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor
    from ontarget.conformal.levels import SizePlan

_RUNS, _STEPS = 120, 4  # of `warm`
# How `fit` divides episodes, unless it is told otherwise.
_LEARN, _ASSURE = 0.8, 0.2


def simulate(
    domain: Annotated[
        str, typer.Argument(help="The domain: tamarisk, skirmish or smax.", metavar="DOMAIN")
    ],
    output: Annotated[
        Path,
        option("The file to write: .parquet or .csv.", "FILE", "--output", "-o"),
    ],
    episodes: Annotated[
        int, option("How many episodes to simulate.", "N", "--episodes", "-n", min=1)
    ] = 10_000,
    seed: Annotated[int, option("The same seed gives the same episodes.", "N", min=0)] = 0,
    preset: Annotated[
        str | None,
        option("tamarisk: paper (default), competition, rare-deaths or tight-budget.", "NAME"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate episodes of one of the paper's domains and write them to a file."""
    from ontarget.domains import simulate as run
    from ontarget.domains.domain import domain_of

    check_output(output, (".parquet", ".csv"))
    chosen = domain_of(domain, preset=preset)
    recorded = run(chosen, episodes, seed)
    recorded.write(output)
    outcomes = recorded.outcomes
    if as_json:
        found = {"file": str(output), "episodes": episodes, "horizon": chosen.horizon}
        found |= {"mean": float(outcomes.mean()), "sd": float(outcomes.std())}
        typer.echo(json.dumps(found))
        return
    typer.echo(
        f"{plain(output)}: {episodes:,} episodes of {chosen.horizon} steps, "
        f"outcome {outcomes.mean():.1f} ± {outcomes.std():.1f} (mean ± sd)"
    )


def warm(as_json: AsJson = False) -> None:
    """Compile the numerical code for this machine now, so that the first real use is fast.

    It runs a small fit, a watch, an evaluation and an explanation. The compiled code is kept on
    disk; a second call only checks it, in a few seconds.
    """
    start = perf_counter()
    stages: dict[str, Callable[[GoalMonitor], None]] = {
        "watching": _watch,
        "evaluating": _evaluate,
        "explaining": _explain,
        "simulating": _simulate,
    }
    with progress_bar("fitting", 1 + len(stages), unit="parts", shown=not as_json) as reached:
        monitor = _fitted()
        for done, (name, use) in enumerate(stages.items(), start=1):
            reached(done, name)
            use(monitor)
    seconds = perf_counter() - start
    if as_json:
        typer.echo(json.dumps({"seconds": round(seconds, 1)}))
        return
    typer.echo(f"compiled and kept for this machine, in {seconds:.0f} s")


def _runs(seed: int) -> Episodes:
    """A few simulated runs of different lengths, with a number, a category and missing values."""
    import numpy as np
    import polars as pl

    from ontarget import Episodes

    rng = np.random.default_rng(seed)
    run, step = (one.ravel() for one in np.mgrid[:_RUNS, :_STEPS])
    table = pl.DataFrame(
        {
            "episode": run,
            "step": step,
            "level": np.where(rng.random(run.size) < 0.1, np.nan, rng.normal(size=run.size)),
            "mode": np.array(["calm", "busy"])[rng.integers(2, size=run.size)],
            "reward": rng.normal(size=run.size),
        }
    )
    ragged = table.filter((pl.col("step") < 2) | (pl.col("episode") % 3 > 0))
    return Episodes.from_frame(ragged, horizon=_STEPS)


def _fitted() -> GoalMonitor:
    from ontarget import GoalMonitor

    return GoalMonitor().fit(_runs(0), progress=False)


def _watch(monitor: GoalMonitor) -> None:
    from ontarget import Target

    state = {"level": 0.5, "mode": "calm"}
    monitor.watch(Target.at_least(0.0), alarm_below=0.5).step(state)
    monitor.fleet(Target.at_least(0.0), 2, alarm_below=0.5).step([[0.5, 0.0], [0.1, 1.0]])


def _evaluate(monitor: GoalMonitor) -> None:
    from ontarget import Below, Target

    monitor.evaluate(_runs(1), Target.at_least(0.0), progress=False).summary(Below(0.5))


def _explain(monitor: GoalMonitor) -> None:
    from ontarget import Target

    states = [[0.5, 0.0], [0.1, 1.0]]
    monitor.explain(1, states[1], 0.5, Target.at_least(0.0), before=(states[0], 0.0))
    monitor.path_band(1, states, 0.5, 0.8)


def _simulate(_: GoalMonitor) -> None:
    from ontarget.domains import simulate

    for domain in ("tamarisk", "skirmish"):
        simulate(domain, 4, progress=False)


def paper(
    output: Annotated[Path, option("The folder to write to.", "FOLDER", "--output", "-o")] = Path(
        "out/paper"
    ),
    quick: Annotated[
        bool,
        option("A quick run with fewer episodes and partitions; takes seconds.", "", "--quick"),
    ] = False,
    seed: Annotated[int, option("The same seed gives the same numbers.", "N", min=0)] = 0,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes two or three minutes.
    """
    from rich.console import Console
    from rich.table import Table

    from ontarget.paper.experiment import FULL, QUICK
    from ontarget.paper.page import checks_table, main_table, time_table
    from ontarget.paper.reproduction import reproduce

    plan = (QUICK if quick else FULL).with_seed(seed)
    check_folder(output)
    with progress_bar("starting", 100, unit="%") as reached:
        done = reproduce(plan, output, report=lambda text, share: reached(100.0 * share, text))
    shown = [main_table(done.results), time_table(done.timing)]
    console = Console(highlight=False)
    if plan.quick:
        console.print("A quick run: fewer episodes and partitions than the paper's.")
    else:  # the requirements are for the full size
        shown.insert(1, checks_table(done.results))
    for one in shown:
        table = Table(*one.head, box=None, pad_edge=False)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
    typer.echo(
        "Our skirmish is a surrogate, and our Tamarisk's constants and policy are chosen: these "
        "are not the authors' data."
    )
    typer.echo(f"{plain(output / 'index.html')}: the page; results.json and figures beside it")


def plan(
    accuracy: Annotated[
        float, option("The largest error you accept: 0.02 is two percentage points.", "SHARE")
    ] = 0.02,
    level: Annotated[
        str, option("The confidence with which the error should stay below that.", "LEVEL")
    ] = "0.95",
    false_alarm_rate: Annotated[
        str | None, option("The false-alarm rate to promise, such as 0.05.", "RATE")
    ] = None,
    success_rate: Annotated[
        float | None, option("The share of runs that meet the target, if you know it.", "SHARE")
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
    _show_plan(found, success_rate)


def _to_record(found: SizePlan, success_rate: float | None) -> int:
    """How many episodes to record in all, so that each part that `fit` makes is large enough."""
    total = math.ceil(found.at_one_threshold / _LEARN)
    if found.successes is not None:
        total = max(total, math.ceil(found.successes / (success_rate or 1.0) / _ASSURE))
    return total


def _show_plan(found: SizePlan, success_rate: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"For ±{found.accuracy:.3g} with {found.level:.4g} confidence:\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    learn, assure, met = "learn episodes", "assure episodes", "successful assure episodes"
    one, every = found.at_one_threshold, found.at_all_thresholds
    sure = f"with confidence {found.level:.4g}"
    rows = [
        (one, learn, "for p of one target, roughly"),
        (one, assure, "for low and high of one target"),
        (every, assure, "for all targets at once (with two ends: within twice the error)"),
    ]
    for asked, needed in found.coverage.items():
        rows.append(
            (needed, assure, f"for the coverage of {percent(asked, 0, fixed=True)} intervals")
        )
    rows.append((found.coverage_surely[0.9], assure, f"the fewest for 90 % intervals {sure}"))
    if found.successes is not None:
        rate = f"{found.false_alarm_rate:.3g}"
        for number, text in (
            (
                found.successes_to_promise,
                f"the fewest to promise a false-alarm rate of {rate} on average",
            ),
            (found.successes_surely, f"the fewest to promise it {sure} (--confidence)"),
            (found.successes, f"for your recording's true rate to be that close to {rate}"),
        ):
            rows.append((number or 0, met, text))
    for number, part, text in rows:
        table.add_row(f"{number:,}", part, text)
    console.print(table)
    known = "" if success_rate is None else percent(success_rate, 0, fixed=True)
    console.print(
        f"\nRecord {_to_record(found, success_rate):,} episodes"
        f"{f' ({known} of them successful)' * bool(known)} for p"
        f"{' and the alarm' * (found.successes is not None)}: fit learns from 80 in 100 and keeps "
        "20 as assure episodes, for promises. If you need another line of assure episodes, record "
        "five times its number. Record some more for evaluate.",
    )
    if found.successes is not None and not success_rate:
        console.print("Pass --success-rate if some of them miss the target.", style="dim")
