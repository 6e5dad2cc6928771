"""``ontarget look``: an overview of a log, before anything is fitted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._progress import working
from ontarget.cli.mistakes import as_option
from ontarget.cli.options import NOT_SO, AsJson, Columns, Runs, reads_runs, target_of
from ontarget.cli.output import print_facts
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget import Episodes, Goal, Target


@reads_runs
def look(
    runs: Runs,
    columns: Columns,
    target: Annotated[
        str | None,
        typer.Option(
            help="Also count the episodes inside LO:HI, LO: or :HI, and look for columns that "
            "reveal it; for several behaviors a goal, such as 'return>=200 & energy<=50'.",
            metavar="LO:HI",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at recorded episodes before a fit: lengths, outcomes, missing values, order, leaks.

    A leak is a column that holds what is not known yet at that step, such as the outcome or the
    reward of its own row. With a leak, a monitor looks perfect on the log and fails on new runs.
    """
    from ontarget import Episodes, Goal

    wanted = None if target is None else target_of(target)
    with working(f"reading {runs.name}"):
        recorded = Episodes.read(runs, **columns)
    if recorded.names:
        _look_at_each(recorded, wanted, as_json)
        return
    if isinstance(wanted, Goal):
        raise InputError(
            f"a goal needs behaviors with names, got {wanted}; name them with --behavior "
            f"{wanted.names[0]}=sum, or pass a target such as 60:"
        )
    with working("looking"):
        found = recorded.look(wanted)
    if as_json:
        typer.echo(json.dumps(found.to_json(), sort_keys=True))
        return
    described = recorded.describe()
    told = found.told(as_option).removeprefix(described)
    print_facts(described + _remarks(recorded) + told)


def _look_at_each(recorded: Episodes, goal: Target | Goal | None, as_json: bool) -> None:
    """Print an overview of the episodes for each behavior, and how many met the goal."""
    from ontarget import Target

    if isinstance(goal, Target):
        raise InputError(
            f"these episodes have the behaviors {', '.join(recorded.names)}, so --target needs a "
            f"goal such as '{recorded.names[0]} >= 60', got {goal}"
        )
    with working("looking"):
        found = {
            name: recorded.only(name).look(
                goal.projection(name) if goal is not None and name in goal.names else None
            )
            for name in recorded.names
        }
    each_alone = {name: recorded.only(name) for name in recorded.names}
    outcomes = {name: one.outcomes for name, one in each_alone.items()}
    grids = {name: one.grid for name, one in each_alone.items()}
    met = None if goal is None else int(goal.contains(outcomes, grids).sum())
    if as_json:
        asked = {} if goal is None else {"target": str(goal), "met": met}
        each = {name: one.to_json() for name, one in found.items()}
        typer.echo(json.dumps({"behaviors": each, **asked}, sort_keys=True))
        return
    print_facts(recorded.describe() + _remarks(recorded))
    if goal is not None:
        print_facts(f"target     {goal}: met by {met:,} of {len(recorded):,} episodes")
    for name, one in found.items():
        told = one.told(as_option).removeprefix(recorded.only(name).describe())
        print_facts(f"\nbehavior   {name}{told}")


def _remarks(recorded: Episodes) -> str:
    return f"\n{NOT_SO}" * bool(recorded.remarks)
