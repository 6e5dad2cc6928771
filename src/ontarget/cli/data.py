"""``ontarget simulate`` and ``ontarget fit``: episodes from nothing, a model from episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget.cli.columns import read_runs
from ontarget.cli.options import (
    AsJson,
    BehaviorOption,
    DropCensored,
    EpisodeColumn,
    GroupColumn,
    HorizonOption,
    RewardColumn,
    Runs,
    StepColumn,
    frame_options,
)
from ontarget.cli.printing import print_facts
from ontarget.cli.progress import bar, working

if TYPE_CHECKING:
    from ontarget.episodes import Episodes

__all__ = ["fit", "simulate"]


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
    as_json: AsJson = False,
) -> None:
    """Simulate episodes of one of the paper's domains and write them to a file."""
    from ontarget.domains import named
    from ontarget.domains import simulate as run

    chosen = named(domain, preset=preset)
    with bar(f"simulating {domain}", episodes) as advance:
        recorded = run(chosen, episodes, seed, progress=advance)
    recorded.write(output)
    outcomes = recorded.outcomes
    if as_json:
        found = {"file": str(output), "episodes": episodes, "horizon": chosen.horizon}
        found |= {"mean": float(outcomes.mean()), "sd": float(outcomes.std())}
        typer.echo(json.dumps(found))
        return
    typer.echo(
        f"{output}: {episodes:,} episodes of {chosen.horizon} steps, "
        f"outcome {outcomes.mean():.1f} ± {outcomes.std():.1f} (mean ± sd)"
    )


def fit(
    runs: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    episode: EpisodeColumn = None,
    step: StepColumn = None,
    reward: RewardColumn = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, separated by commas; by default the rest.")
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Features whose numbers are names, separated by commas.")
    ] = None,
    behavior: BehaviorOption = None,
    group: GroupColumn = None,
    horizon: HorizonOption = None,
    drop_censored: DropCensored = False,
    preset: Annotated[str, typer.Option(help="default or paper.")] = "default",
    policy: Annotated[str, typer.Option(help="A label for the policy that was recorded.")] = "",
    seed: Annotated[int, typer.Option(help="Same data and seed, same file.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder that lets a killed fit resume.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from recorded episodes, calibrate, and write a model file.

    A file has one row per episode and step. Columns are guessed by their names; what was guessed
    is said, and each option names the column itself.
    """
    from ontarget import GoalMonitor

    options = frame_options(
        episode=episode,
        step=step,
        reward=reward,
        features=features,
        categorical=categorical,
        behavior=behavior,
        group=group,
        horizon=horizon,
        drop_censored=drop_censored,
    )
    _check_folder(output)
    with working(f"reading {runs.name}"):
        recorded, remarks = read_runs(runs, options)
    if not as_json:
        print_facts(f"{recorded.describe()}\n{_roles(recorded, remarks)}")
    monitor = GoalMonitor(preset=preset, group=group, policy=policy)  # type: ignore[arg-type]  # it checks itself
    monitor.fit(recorded, seed=seed, checkpoint=checkpoint, progress=not as_json)
    monitor.save(output)
    sizes = dict(monitor.fitted.sizes)
    size = output.stat().st_size
    if as_json:
        roles = recorded.roles
        columns = {"episode": roles.episode, "step": roles.step, "reward": roles.reward}
        found = {"file": str(output), "bytes": size, "columns": columns, "remarks": list(remarks)}
        typer.echo(json.dumps({**found, **sizes}))
        return
    low = _lower_fifth(recorded)
    print_facts(
        f"model      {output}, {size / 1e6:.1f} MB: trained on {sizes['train']:,}, calibrated on "
        f"{sizes['calibrate']:,}, assured by {sizes['assure']:,} episodes\n"
        f"next       ontarget evaluate {output} NEW_RUNS --target {low:.3g}:\n"
        "           measures it on runs it has not seen; four in five of these ended above "
        f"{low:.3g}"
    )


def _lower_fifth(recorded: Episodes) -> float:
    import numpy as np

    return float(np.quantile(recorded.outcomes, 0.2))


def _check_folder(output: Path) -> None:
    """Refuse before the work, not after it."""
    if not output.parent.is_dir():
        raise FileNotFoundError(2, "no such folder", str(output.parent))


def _roles(recorded: Episodes, remarks: tuple[str, ...]) -> str:
    """What was taken for what, and how to say otherwise."""
    roles = recorded.roles
    parts = {
        "episode": roles.episode,
        "step": roles.step,
        "reward": roles.reward,
        "group": roles.group,
        "truncated": roles.truncated,
        "terminated": roles.terminated,
    }
    shown = ", ".join(f"{part} = {name}" for part, name in parts.items() if name is not None)
    lines = [f"columns    {shown}; the rest are features"]
    lines += [f"           {remark}" for remark in remarks]
    lines.append("           not so? pass --episode, --step, --reward, --features or --group")
    return "\n".join(lines)
