"""``ontarget prepare``: recorded episodes, more than fit in memory, made ready for a fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ontarget._plain import plain
from ontarget.cli.options import AsJson, Columns, model_there, reads_runs, runs_there
from ontarget.cli.output import print_facts

__all__ = ["prepare"]


def _there(given: str) -> Path | str:
    """A file or folder that is there, or a pattern."""
    return given if any(letter in given for letter in "*?[") else runs_there(Path(given))


@reads_runs
def prepare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Files (.parquet, .csv, .tsv), folders of them, patterns such as 'runs/*.csv', or "
            "the folder of a Minari or LeRobot dataset.",
            metavar="RUNS…",
            callback=lambda given: [str(_there(one)) for one in given],
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write.", metavar="FOLDER")
    ],
    columns: Columns,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Read the columns as this model file does, for new runs to evaluate it on.",
            metavar="MODEL",
            callback=model_there,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Another seed divides the episodes differently.", metavar="N")
    ] = 0,
    assure: Annotated[
        float, typer.Option(help="Share of episodes that promises rest on.", metavar="SHARE")
    ] = 0.2,
    max_learn: Annotated[
        int,
        typer.Option(
            min=1,
            help="Learn from at most this many episodes; promises rest on the others.",
            metavar="N",
        ),
    ] = 20_000,
    by_group: Annotated[
        str | None,
        typer.Option(
            help="Divide groups: stratify, whole or cluster; see Episodes.split.", metavar="HOW"
        ),
    ] = None,
    file_column: Annotated[
        str | None,
        typer.Option(
            help="Add a column of this name with each row's file. If every file numbers its own "
            "episodes: --file-column file --episode file,episode.",
            metavar="NAME",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sort recorded episodes by step, so that fit and evaluate read them piece by piece.

    Memory holds a part of the rows at a time. An episode's rows may be spread over files. If it is
    killed, the same command goes on where it was.
    """
    from ontarget import GoalMonitor
    from ontarget.episodes import prepare as prepared_in

    options: dict[str, Any] = {**columns}
    if model is not None:
        options["like"] = GoalMonitor.load(model)
    found = prepared_in(
        runs,
        output,
        seed=seed,
        assure=assure,
        max_learn=max_learn,
        by_group=by_group,  # type: ignore[arg-type]  # it checks itself
        file_column=file_column,
        progress=not as_json,
        **options,
    )
    about = found.manifest
    sizes = {name: part.episodes for name, part in about.parts.items()}
    rows = sum(part.rows for part in about.parts.values())
    size = sum(path.stat().st_size for path in output.rglob("*.parquet"))
    if as_json:
        told = {"folder": str(output), "rows": rows, "bytes": size, "horizon": about.horizon}
        typer.echo(json.dumps({**told, **sizes, "remarks": about.remarks}))
        return
    parts = ", ".join(f"{n:,} to {name}" for name, n in sizes.items())
    n = sum(sizes.values())
    lines = [
        f"episodes   {n:,} of up to {about.horizon} steps, {rows:,} rows: {parts}",
        *(f"columns    {remark}" for remark in about.remarks),
        f"prepared   {plain(output)}, {size / 1e6:,.1f} MB",
        f"next       ontarget fit {plain(output)} -o NAME.ontarget",
    ]
    print_facts("\n".join(lines))
