"""``ontarget prepare`` and ``split``: prepare a large log for a fit; divide old and new runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.options import AsJson, Columns, model_there, reads_runs, runs_there
from ontarget.cli.output import check_output, print_facts
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget.reading.dividing import DividedLog

_SHARE = 0.8


def _there(given: str) -> Path | str:
    """The path, if a file or folder exists there; a pattern with * ? or [ is not checked."""
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
            help="Read the columns as this model file does, to prepare new runs for its "
            "evaluation.",
            metavar="MODEL",
            callback=model_there,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Another seed divides the episodes differently.", metavar="N")
    ] = 0,
    assure: Annotated[
        float,
        typer.Option(
            help="Share of episodes that is kept for promises, not learned from.", metavar="SHARE"
        ),
    ] = 0.2,
    max_learn: Annotated[
        int,
        typer.Option(
            min=1,
            help="Learn from at most this many episodes; the others support promises.",
            metavar="N",
        ),
    ] = 20_000,
    by_group: Annotated[
        str | None,
        typer.Option(
            help="How to divide groups: stratify, whole or cluster; see Episodes.split.",
            metavar="HOW",
        ),
    ] = None,
    file_column: Annotated[
        str | None,
        typer.Option(
            help="Add a column of this name with each row's file. Use it if every file numbers "
            "its own episodes: --file-column file --episode file,episode.",
            metavar="NAME",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sort recorded episodes by step, so that fit and evaluate read them piece by piece.

    Only part of the rows is in memory at a time. An episode's rows may be spread over files. After
    an interruption, the same command continues where it stopped.
    """
    from ontarget import GoalMonitor
    from ontarget.reading import prepare as prepared_in

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


def split(
    runs: Annotated[
        Path,
        typer.Argument(
            help="A table of recorded episodes: .parquet, .csv, .tsv or .txt.",
            metavar="RUNS",
            callback=runs_there,
        ),
    ],
    output: Annotated[
        tuple[Path, Path],
        typer.Option(
            "--output",
            "-o",
            help="The two files to write: the older runs, and the newer ones.",
            metavar="OLD NEW",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Column that says when a run started: a date, a time, a number. Without it, runs "
            "are divided at random.",
            metavar="NAME",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Runs that started at this date or value, or later, are new; needs --by.",
            metavar="VALUE",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help=f"The share of old runs, instead of --at; {_SHARE} by default.",
            metavar="SHARE",
        ),
    ] = None,
    episode: Annotated[
        str | None,
        typer.Option(help="Column of episode ids, or several joined by commas.", metavar="NAME"),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Another seed divides runs differently.", metavar="N")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Divide a log into older runs to fit on and newer runs to check the model on.

    Every run goes to one file as a whole, and runs that started together go to the same file. Rows,
    columns and their order stay as they are.
    """
    _check(runs, output, by, at, share)
    from ontarget.reading.dividing import divided_log

    with working(f"reading {runs.name}"):
        found = divided_log(
            runs,
            episode=episode,
            by=by,
            at=at,
            share=_SHARE if share is None else share,
            seed=seed,
        )
    told = {}
    for name, path in zip(("old", "new"), output, strict=True):
        with working(f"writing {path.name}"):
            told[name] = _written(found, path, later=name == "new")
    if as_json:
        typer.echo(json.dumps(told))
        return
    old, new = (plain(path) for path in output)
    lines = [f"{name:<10} {_in_words(one, by)}" for name, one in told.items()]
    check = f"ontarget evaluate NAME.ontarget {new} --target …" + f" --order {by}" * (
        by is not None
    )
    lines.append(f"next       ontarget fit {old} -o NAME.ontarget, then {check}")
    print_facts("\n".join(lines))


def _check(
    runs: Path, output: tuple[Path, Path], by: str | None, at: str | None, share: float | None
) -> None:
    for path in output:
        check_output(path, (".parquet", ".csv", ".tsv", ".txt"))
    if len({path.resolve() for path in (runs, *output)}) < 3:
        raise InputError("split needs three different files: the log, the old and the new runs")
    if at is not None and by is None:
        raise typer.BadParameter(
            "--at needs --by NAME: the column whose values are compared with --at"
        )
    if at is not None and share is not None:
        raise typer.BadParameter("pass --at or --share, not both")
    if share is not None and not 0.0 < share < 1.0:
        raise typer.BadParameter(f"--share needs a number strictly between 0 and 1, got {share}")


def _written(found: DividedLog, path: Path, *, later: bool) -> dict[str, Any]:
    rows, reach = found.write(path, later=later), found.reach(later=later)
    about = {"file": str(path), "runs": found.runs(later=later), "rows": rows}
    return about if reach is None else about | {"first": str(reach[0]), "last": str(reach[1])}


def _in_words(part: dict[str, Any], by: str | None) -> str:
    text = f"{plain(part['file'])}: {part['runs']:,} runs, {part['rows']:,} rows"
    if "first" not in part:
        return f"{text}, drawn at random"
    return f"{text}, {plain(by or '')} from {plain(part['first'])} to {plain(part['last'])}"
