"""``ontarget look``, ``prepare`` and ``split``: see a log, and get it ready for a fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.mistakes import as_option
from ontarget.cli.options import (
    AsJson,
    MaxLearn,
    ReadsRuns,
    Runs,
    described,
    model_there,
    option,
    runs_there,
    target_of,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget import Episodes, Goal, Target
    from ontarget.reading.dividing import LogPart

_SHARE = 0.8


@dataclass(frozen=True, kw_only=True)
class LookCommand(ReadsRuns):
    """Look at recorded episodes before a fit: lengths, outcomes, missing values, order, leaks.

    A leak is a column that holds what is not known yet at that step, such as the outcome or the
    reward of its own row. With a leak, a monitor looks perfect on the log and fails on new runs.
    """

    runs: Runs
    target: Annotated[
        str | None,
        option(
            "Also count the episodes inside LO:HI, LO: or :HI, and look for columns that "
            "reveal it; for several behaviors a goal, such as 'return>=200 & energy<=50'.",
            "LO:HI",
        ),
    ] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Print an overview of the log; with several behaviors, one for each."""
        wanted = None if self.target is None else target_of(self.target)
        recorded = self.read(self.runs)
        _refuse_unfit(wanted, recorded)
        each = {name: recorded.only(name) for name in recorded.names} or {"": recorded}
        with working("looking"):
            aims = {name: _aim_of(wanted, name) for name in each}
            found = {name: one.look(aims[name]) for name, one in each.items()}
        met = _met(wanted, each) if recorded.names else None
        if self.as_json:
            one: dict[str, Any] = {name: look.to_json() for name, look in found.items()}
            asked = {} if met is None else {"target": str(wanted), "met": met}
            shown = {"behaviors": one, **asked} if recorded.names else one[""]
            typer.echo(json.dumps(shown, sort_keys=True))
            return
        told = {name: one.told(as_option) for name, one in found.items()}
        told = {name: told[name].removeprefix(each[name].describe()) for name in told}
        if not recorded.names:
            print_facts(described(recorded) + told[""])
            return
        print_facts(described(recorded))
        if met is not None:
            print_facts(f"target     {wanted}: met by {met:,} of {len(recorded):,} episodes")
        for name, text in told.items():
            print_facts(f"\nbehavior   {name}{text}")


def _refuse_unfit(wanted: Target | Goal | None, recorded: Episodes) -> None:
    """Refuse a goal for a single behavior, and a target for several."""
    from ontarget import Goal, Target

    if recorded.names and isinstance(wanted, Target):
        raise InputError(
            f"these episodes have the behaviors {', '.join(recorded.names)}, so --target needs a "
            f"goal such as '{recorded.names[0]} >= 60', got {wanted}"
        )
    if not recorded.names and isinstance(wanted, Goal):
        raise InputError(
            f"a goal needs behaviors with names, got {wanted}; name them with --behavior "
            f"{wanted.names[0]}=sum, or pass a target such as 60:"
        )


def _aim_of(wanted: Target | Goal | None, name: str) -> Target | None:
    """What is asked of one behavior; the only one has no name."""
    from ontarget import Goal

    if not isinstance(wanted, Goal):
        return wanted
    return wanted.projection(name) if name in wanted.names else None


def _met(goal: Target | Goal | None, each: dict[str, Episodes]) -> int | None:
    """How many episodes met a goal; None without a goal."""
    from ontarget import Goal

    if not isinstance(goal, Goal):
        return None
    outcomes = {name: one.outcomes for name, one in each.items()}
    return int(goal.contains(outcomes, {name: one.grid for name, one in each.items()}).sum())


def _there(given: str) -> Path | str:
    """The path, if a file or folder exists there; a pattern with * ? or [ is not checked."""
    return given if any(letter in given for letter in "*?[") else runs_there(Path(given))


@dataclass(frozen=True, kw_only=True)
class PrepareCommand(ReadsRuns):
    """Sort recorded episodes by step, so that fit and evaluate read them piece by piece.

    Only part of the rows is in memory at a time. An episode's rows may be spread over files. After
    an interruption, the same command continues where it stopped.
    """

    runs: Annotated[
        list[str],
        typer.Argument(
            help="Files (.parquet, .csv, .tsv), folders of them, patterns such as 'runs/*.csv', or "
            "the folder of a Minari or LeRobot dataset.",
            metavar="RUNS…",
            callback=lambda given: [str(_there(one)) for one in given],
        ),
    ]
    output: Annotated[Path, option("The folder to write.", "FOLDER", "--output", "-o")]
    model: Annotated[
        Path | None,
        option(
            "Read the columns as this model file does, to prepare new runs for its evaluation.",
            "MODEL",
            callback=model_there,
        ),
    ] = None
    seed: Annotated[int, option("Another seed divides the episodes differently.", "N", min=0)] = 0
    assure: Annotated[
        float, option("Share of episodes that is kept for promises, not learned from.", "SHARE")
    ] = 0.2
    max_learn: MaxLearn = 20_000
    by_group: Annotated[
        str | None,
        option("How to divide groups: stratify, whole or cluster; see Episodes.split.", "HOW"),
    ] = None
    file_column: Annotated[
        str | None,
        option(
            "Add a column of this name with each row's file. Use it if every file numbers "
            "its own episodes: --file-column file --episode file,episode.",
            "NAME",
        ),
    ] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Prepare the episodes, and say how many there are and what to do next."""
        from ontarget import GoalMonitor
        from ontarget.reading import prepare

        options: dict[str, Any] = {**self.columns}
        if self.model is not None:
            options["like"] = GoalMonitor.load(self.model)
        found = prepare(
            self.runs,
            self.output,
            seed=self.seed,
            assure=self.assure,
            max_learn=self.max_learn,
            by_group=self.by_group,  # type: ignore[arg-type]  # it checks itself
            file_column=self.file_column,
            progress=not self.as_json,
            **options,
        )
        about = found.manifest
        sizes = {name: part.episodes for name, part in about.parts.items()}
        rows = sum(part.rows for part in about.parts.values())
        size = sum(path.stat().st_size for path in self.output.rglob("*.parquet"))
        if self.as_json:
            told = {"folder": str(self.output), "rows": rows, "bytes": size}
            told |= {"horizon": about.horizon, **sizes, "remarks": about.remarks}
            typer.echo(json.dumps(told))
            return
        parts = ", ".join(f"{n:,} to {name}" for name, n in sizes.items())
        n = sum(sizes.values())
        lines = [
            f"episodes   {n:,} of up to {about.horizon} steps, {rows:,} rows: {parts}",
            *(f"columns    {remark}" for remark in about.remarks),
            f"prepared   {plain(self.output)}, {size / 1e6:,.1f} MB",
            f"next       ontarget fit {plain(self.output)} -o NAME.ontarget",
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
        option(
            "The two files to write: the older runs, and the newer ones.",
            "OLD NEW",
            "--output",
            "-o",
        ),
    ],
    by: Annotated[
        str | None,
        option(
            "Column that says when a run started: a date, a time, a number. Without it, runs "
            "are divided at random.",
            "NAME",
        ),
    ] = None,
    at: Annotated[
        str | None,
        option("Runs that started at this date or value, or later, are new; needs --by.", "VALUE"),
    ] = None,
    share: Annotated[
        float | None,
        option(f"The share of old runs, instead of --at; {_SHARE} by default.", "SHARE"),
    ] = None,
    episode: Annotated[
        str | None, option("Column of episode ids, or several joined by commas.", "NAME")
    ] = None,
    seed: Annotated[int, option("Another seed divides runs differently.", "N", min=0)] = 0,
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
    for name, part, path in zip(("old", "new"), found, output, strict=True):
        with working(f"writing {path.name}"):
            part.write(path)
        told[name] = _facts_of(part, path)
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


def _facts_of(part: LogPart, path: Path) -> dict[str, Any]:
    about = {"file": str(path), "runs": part.runs, "rows": part.table.height}
    if part.starts is None:
        return about
    return about | {"first": str(part.starts.min()), "last": str(part.starts.max())}


def _in_words(part: dict[str, Any], by: str | None) -> str:
    text = f"{plain(part['file'])}: {part['runs']:,} runs, {part['rows']:,} rows"
    if "first" not in part:
        return f"{text}, drawn at random"
    return f"{text}, {plain(by or '')} from {plain(part['first'])} to {plain(part['last'])}"
