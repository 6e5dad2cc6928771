"""``ontarget explain``: why p is what it is at one step of a recorded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget.cli.options import (
    AsJson,
    CalibrationOption,
    Columns,
    Model,
    Runs,
    TargetOption,
    calibration_of,
    reads_runs,
    target_of,
)
from ontarget.cli.output import check_output
from ontarget.errors import EpisodesError

if TYPE_CHECKING:
    from ontarget import Episodes

__all__ = ["explain"]

_PICTURES = (".png", ".svg")


@reads_runs
def explain(
    model: Model,
    runs: Runs,
    target: TargetOption,
    columns: Columns,
    run: Annotated[str, typer.Option(help="The id of the episode.", metavar="ID")],
    step: Annotated[int, typer.Option(min=0, help="The step, counted from 0.", metavar="T")],
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw it: .png or .svg.", metavar="FILE"),
    ] = None,
    calibration: CalibrationOption = "target",
    as_json: AsJson = False,
) -> None:
    """Say what moved the probability at a step of a recorded run, and which runs it rests on.

    The change since the step before is shared out among the reward earned, each feature and the
    passing of time. Precedents are the recorded runs that the model weighs most; a model that was
    fitted with --no-precedents does not know them.
    """
    if figure is not None:
        check_output(figure, _PICTURES)
    wanted, chosen = target_of(target), calibration_of(calibration)
    from ontarget import Episodes, GoalMonitor

    with working(f"opening {model.name}"):
        monitor = GoalMonitor.load(model)
    with working(f"reading {runs.name}"):
        episodes = Episodes.read(runs, like=monitor, **columns)
        if not episodes.names:
            episodes = monitor.fitted.alike(episodes)
    one = _run(episodes, run, step)
    found = monitor.explain(
        step,
        *_reading(one, step),
        wanted,
        before=_reading(one, step - 1) if step else None,
        group=None if monitor.groups is None or one.groups is None else one.groups.tolist()[0],
        calibration=chosen,
    )
    if figure is not None:
        from ontarget._whole_file import write_whole
        from ontarget.evaluation.figures import figure_bytes

        kind = figure.suffix[1:]
        write_whole(figure, [figure_bytes(found.figure(), kind)])  # type: ignore[arg-type]
    typer.echo(json.dumps(found.to_dict(), sort_keys=True) if as_json else str(found))


def _reading(run: Episodes, step: int) -> tuple[Any, Any]:
    """The state of a run at a step, and its behavior so far; of several behaviors, by name."""
    if not run.names:
        rows = run.at(step)
        return rows.states[0], float(rows.behavior[0])
    each = {name: run.only(name).at(step) for name in run.names}
    so_far = {name: float(rows.behavior[0]) for name, rows in each.items()}
    return next(iter(each.values())).states[0], so_far


def _run(episodes: Episodes, name: str, step: int) -> Episodes:
    """The one episode of this id, which has the step."""
    names = [str(one) for one in episodes.ids.tolist()]
    if name not in names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise EpisodesError(f"no episode {name!r} among these; there are {shown}")
    one = episodes.take([names.index(name)])
    if step >= one.lengths[0]:
        raise EpisodesError(f"--step needs 0 to {one.lengths[0] - 1} in episode {name}, got {step}")
    return one
