"""``ontarget simulate`` and ``ontarget fit``: episodes from nothing, a model from episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ontarget.episodes import Episodes
    from ontarget.episodes.frames import FrameOptions

__all__ = ["fit", "read_episodes", "simulate"]


def simulate(
    domain: Annotated[str, typer.Argument(help="tamarisk or skirmish.", metavar="DOMAIN")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write: .parquet or .csv.")
    ],
    episodes: Annotated[
        int, typer.Option("--episodes", "-n", min=1, help="How many episodes.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Same seed, same episodes.")] = 0,
    preset: Annotated[
        str | None,
        typer.Option(help="tamarisk: paper (default), competition, rare-deaths or tight-budget."),
    ] = None,
) -> None:
    """Simulate episodes of one of the paper's domains and write them to a file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ontarget.domains import named
    from ontarget.domains import simulate as run

    chosen = named(domain, preset=preset)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"simulating {domain}", total=episodes)
        recorded = run(
            chosen, episodes, seed, progress=lambda done, _: bar.update(task, completed=done)
        )
    recorded.write(output)
    outcomes = recorded.outcomes
    typer.echo(
        f"{output}: {episodes:,} episodes of {chosen.horizon} steps, "
        f"outcome {outcomes.mean():.1f} ± {outcomes.std():.1f} (mean ± sd)"
    )


def fit(
    runs: Annotated[Path, typer.Argument(help="Recorded episodes: .parquet or .csv.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    episode: Annotated[str | None, typer.Option(help="Column of episode ids.")] = None,
    step: Annotated[str | None, typer.Option(help="Column of steps.")] = None,
    reward: Annotated[str | None, typer.Option(help="Column of rewards.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, separated by commas; by default the rest.")
    ] = None,
    behavior: Annotated[
        str | None, typer.Option(help="sum, discounted:0.99, last, max, min, mean, or a column.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups to calibrate one by one.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of a complete episode.")] = None,
    drop_censored: Annotated[
        bool, typer.Option("--drop-censored", help="Leave cut-off episodes out.")
    ] = False,
    preset: Annotated[str, typer.Option(help="default or paper.")] = "default",
    seed: Annotated[int, typer.Option(help="Same data and seed, same file.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder that lets a killed fit resume.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Learn from recorded episodes, calibrate, and write a model file."""
    from ontarget import GoalMonitor

    options: FrameOptions = {}
    if episode is not None:
        options["episode"] = episode
    if step is not None:
        options["step"] = step
    if reward is not None:
        options["reward"] = reward
    if features is not None:
        options["features"] = features.split(",")
    if behavior is not None:
        options["behavior"] = behavior
    if group is not None:
        options["group"] = group
    if horizon is not None:
        options["horizon"] = horizon
    if drop_censored:
        options["censored"] = "drop"
    recorded = read_episodes(runs, options)
    if not as_json:
        typer.echo(recorded.describe())
        typer.echo(_roles(recorded))
    monitor = GoalMonitor(preset=preset, group=group)  # type: ignore[arg-type]  # it checks itself
    monitor.fit(recorded, seed=seed, checkpoint=checkpoint, progress=not as_json)
    monitor.save(output)
    sizes = dict(monitor.fitted.sizes)
    if as_json:
        typer.echo(json.dumps({"file": str(output), **sizes}))
    else:
        typer.echo(
            f"{output}: trained on {sizes['train']:,}, calibrated on {sizes['calibrate']:,}, "
            f"assured by {sizes['assure']:,} episodes; {output.stat().st_size / 1e6:.1f} MB"
        )


def read_episodes(path: Path, options: FrameOptions) -> Episodes:
    """The episodes in a file."""
    from ontarget import Episodes

    return Episodes.read(path, **options)


def _roles(recorded: Episodes) -> str:
    """What was taken for what, and how to say otherwise."""
    roles = recorded.roles
    said = {
        "--episode": roles.episode,
        "--step": roles.step,
        "--reward": roles.reward,
        "--group": roles.group,
    }
    shown = ", ".join(f"{option} {name}" for option, name in said.items() if name is not None)
    return f"columns    {shown}; the rest are features (override with these options)"
