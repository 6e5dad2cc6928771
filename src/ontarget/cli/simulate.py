"""``ontarget simulate``, ``warm`` and ``paper``: commands that need no log of the user's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._plain import plain
from ontarget._progress import progress_bar
from ontarget.cli.options import AsJson
from ontarget.cli.output import check_folder, check_output

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor

_RUNS, _STEPS = 120, 4


def simulate(
    domain: Annotated[
        str, typer.Argument(help="The domain: tamarisk, skirmish or smax.", metavar="DOMAIN")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .parquet or .csv.", metavar="FILE"),
    ],
    episodes: Annotated[
        int,
        typer.Option("--episodes", "-n", min=1, help="How many episodes to simulate.", metavar="N"),
    ] = 10_000,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same episodes.", metavar="N")
    ] = 0,
    preset: Annotated[
        str | None,
        typer.Option(
            help="tamarisk: paper (default), competition, rare-deaths or tight-budget.",
            metavar="NAME",
        ),
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
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write to.", metavar="FOLDER")
    ] = Path("out/paper"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A quick run with fewer episodes and partitions; takes seconds.",
            metavar="",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same numbers.", metavar="N")
    ] = 0,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes two or three minutes.
    """
    from rich.console import Console
    from rich.table import Table

    from ontarget.paper.page import checks_table, main_table, time_table
    from ontarget.paper.plan import FULL, QUICK
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
