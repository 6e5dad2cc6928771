"""``ontarget simulate`` and ``ontarget fit``: make episodes, and a model from episodes."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.mistakes import as_option
from ontarget.cli.options import (
    NOT_SO,
    TARGET_HELP,
    AsJson,
    Columns,
    RewardBounds,
    Runs,
    bounds_of,
    reads_runs,
    target_of,
    target_read,
    unseen_line,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.errors import EpisodesWarning

if TYPE_CHECKING:
    from ontarget import GoalMonitor
    from ontarget.episodes import Episodes
    from ontarget.fitted.fitted import Fitted


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


@reads_runs
def fit(
    runs: Runs,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write.", metavar="FILE")
    ],
    columns: Columns,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"{TARGET_HELP} The model file keeps it, so that later commands need none; they "
            "may still ask about another.",
            metavar="LO:HI",
            callback=target_read,
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="How to fit: default, or as in the paper.", metavar="NAME")
    ] = "default",
    model: Annotated[
        str | None,
        typer.Option(
            help="A kind of model, such as quantile_network.",
            metavar="NAME",
        ),
    ] = None,
    history: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Also read this many earlier steps; by default the runs decide what is read.",
            metavar="K",
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="A label for the policy that was recorded.", metavar="TEXT")
    ] = "",
    seed: Annotated[
        int, typer.Option(min=0, help="The same data and seed give the same file.", metavar="N")
    ] = 0,
    assure: Annotated[
        float | None,
        typer.Option(
            help="Share of episodes that is kept for promises, not learned from. 0: learn from all "
            "and promise nothing.",
            show_default="0.2",
            metavar="SHARE",
        ),
    ] = None,
    max_learn: Annotated[
        int,
        typer.Option(
            min=1,
            help="Learn from at most this many episodes; the others support promises.",
            metavar="N",
        ),
    ] = 20_000,
    reward_bounds: RewardBounds = None,
    engine: Annotated[
        str, typer.Option(help="Where to fit: local, dask or ray.", metavar="NAME")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="The address of the dask or ray cluster: tcp://HOST:8786 for dask, HOST:6379 or "
            "auto for ray. By default one is started on this machine.",
            metavar="ADDRESS",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder from which a fit that was killed can resume.", metavar="FOLDER"
        ),
    ] = None,
    precedents: Annotated[
        bool,
        typer.Option(
            help="Keep the ids of the runs learned from, so that `explain` can name precedents.",
            metavar="",
        ),
    ] = True,
    paths: Annotated[
        bool | None,
        typer.Option(
            help="Keep the steps of the runs learned from, to predict bands for later steps.",
            show_default="up to five million steps",
            metavar="",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from recorded episodes, calibrate, and write a model file.

    The file has one row per episode and step. Columns are recognised by their names, and the
    output says which column was taken for what. To choose a column yourself, use its option.
    """
    from ontarget import Episodes

    check_output(output)
    bounds = bounds_of(reward_bounds)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    # Loaded only now: it takes seconds, and most mistakes are about the file.
    from ontarget import GoalMonitor
    from ontarget.fitting.engines import check_engine, connected
    from ontarget.reading import PreparedEpisodes

    # look() reads whole columns, so of prepared episodes it gets only the learning part.
    seen = PreparedEpisodes(runs).part("learn").compact() if recorded.is_prepared else recorded
    check_engine(engine, address)
    monitor = GoalMonitor(
        model,
        preset=preset,  # type: ignore[arg-type]  # it checks itself
        group=columns.get("group"),
        reward_bounds=bounds,
        policy=policy,
        history=history,
    )
    if not as_json:
        print_facts(recorded.describe() + f"\n{NOT_SO}" * bool(recorded.remarks))
    each = [seen.only(name) for name in seen.names] or [seen]
    looked = [one.look() for one in each]
    standing_out = dict.fromkeys(filter(None, (one.head(as_option) for one in looked)))
    if standing_out and not as_json:
        print_facts("\n".join(standing_out))
    with connected(engine, address) as where, warnings.catch_warnings():
        if any(caution.kind == "outliers" for one in looked for caution in one.cautions):
            warnings.simplefilter("ignore", EpisodesWarning)  # said already
        monitor.fit(
            runs if recorded.is_prepared else recorded,
            target=None if target is None else target_of(target),
            assure=assure,
            max_learn=max_learn,
            seed=seed,
            engine=where,
            checkpoint=checkpoint,
            progress=not as_json,
            precedents=precedents,
            paths=paths,
        )
    monitor.save(output)
    sizes, unknown, coded = monitor.sizes, _unknown(monitor), recorded.recoded(monitor.schema)
    size = output.stat().st_size
    if as_json:
        roles = recorded.roles
        names = {"episode": roles.episode, "step": roles.step, "reward": roles.reward}
        found = {"file": str(output), "bytes": size, "columns": names}
        found |= {"remarks": recorded.remarks, "unknown_steps": unknown, "unseen": coded.unseen}
        found |= {"unknown_categories": [one.to_json() for one in coded.strangers]}
        found |= {"cautions": [caution for one in looked for caution in one.to_json()["cautions"]]}
        typer.echo(json.dumps({**found, **sizes}))
        return
    told = [
        _caution(unknown, recorded, monitor) if unknown else "",
        unseen_line(coded),
        _one_sided(recorded) if reward_bounds is None and not recorded.names else "",
        monitor.summary(),
        f"model      {plain(output)}, {size / 1e6:.1f} MB: {_alone(monitor).trained.in_words}",
        _next_step(monitor, recorded, output),
    ]
    print_facts("\n".join(filter(None, told)))


def _one_sided(recorded: Episodes) -> str:
    """A hint, as text, to declare reward bounds if no reward was below 0, or none above 0."""
    earned = recorded.reward_range
    if earned is None or not (earned[0] >= 0.0 or earned[1] <= 0.0):
        return ""
    side, bounds = ("below", "0:") if earned[0] >= 0.0 else ("above", ":0")
    return (
        f"hint       no reward {side} 0 was seen; if there can be none, pass --reward-bounds "
        f"{bounds} (p is then exactly 0 or 1 as soon as these bounds decide a run)"
    )


def _unknown(monitor: GoalMonitor) -> list[int]:
    """The steps at which the monitor answers UNKNOWN, because too few episodes reach them."""
    fitted = _alone(monitor)
    groups = range(fitted.n_groups)
    return [t for t in range(fitted.horizon) if any(fitted.unknown(t, g) for g in groups)]


def _alone(monitor: GoalMonitor) -> Fitted:
    """The monitor's fitted models; if it has several behaviors, those of the first one.

    Use them for what is the same for all behaviors.
    """
    names = list(monitor.readings)
    return monitor.only(names[0]).fitted if names else monitor.fitted


def _caution(unknown: list[int], recorded: Episodes, monitor: GoalMonitor) -> str:
    first, least = unknown[0], monitor.min_calibration
    to_the_end = unknown == list(range(first, monitor.horizon))
    steps = f"from step {first} on" if to_the_end else f"at {len(unknown):,} steps"
    last = int((recorded.lengths > first).sum())
    bounded = any(map(math.isfinite, _alone(monitor).reward_bounds))
    unless = ", unless the target is decided by then" * bounded
    return (
        f"caution    {steps} the monitor will say UNKNOWN instead of a probability{unless}: fewer "
        f"than {least} episodes to learn from get there ({last:,} of all {len(recorded):,} "
        "episodes do)"
    )


def _next_step(monitor: GoalMonitor, recorded: Episodes, output: Path) -> str:
    """Text: what to do after a fit."""
    if monitor.target is None:
        return _next_goal(recorded, output) if recorded.names else _next(recorded, output)
    return (
        f"next       ontarget evaluate {plain(output)} NEW_RUNS\n{'':<11}checks it on runs that it "
        f"has not seen, for the target {plain(str(monitor.target))}; --target asks about another"
    )


def _next_goal(recorded: Episodes, output: Path) -> str:
    """Text: what to do after fitting several behaviors, with goals that most of these runs met."""
    import numpy as np

    ended = {name: recorded.only(name).outcomes for name in recorded.names}
    low = {name: np.quantile(one, 0.2) for name, one in ended.items()}
    # A target that every run met would be of no use: p has nothing to learn from.
    met = ", ".join(f"{name}>={low[name]:.3g}" for name in low if low[name] > ended[name].min())
    gap = " " * 11
    if not met:
        return f"next       ontarget evaluate {plain(output)} NEW_RUNS --target 'GOAL'"
    return (
        f"next       ontarget evaluate {plain(output)} NEW_RUNS --target 'GOAL'\n"
        f"{gap}checks it on runs that it has not seen. Join conditions by &: four in five of the\n"
        f"{gap}runs above met each of these: {met}"
    )


def _next(recorded: Episodes, output: Path) -> str:
    """Text: what to do after a fit, with targets that most of these runs met."""
    import numpy as np

    outcomes = recorded.outcomes
    low, high = np.quantile(outcomes, [0.2, 0.8])
    gap, told = " " * 11, []
    # A target that every run met would be of no use: p has nothing to learn from.
    if low > outcomes.min():
        told.append(f"{low:.3g}: (at least {low:.3g})")
    if high < outcomes.max():
        told.append(f":{high:.3g} (at most {high:.3g})")
    command = f"next       ontarget evaluate {plain(output)} NEW_RUNS --target TARGET"
    if not told:
        return f"{command}\n{gap}checks it on runs that it has not seen"
    return (
        f"{command}\n"
        f"{gap}checks it on runs that it has not seen. Four in five of the runs above met each\n"
        f"{gap}of these targets: {', '.join(told)}"
    )
