"""``ontarget explain``: why p is what it is at one step of a recorded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget.cli.options import (
    AlarmBelow,
    AsJson,
    CalibrationOption,
    Columns,
    FalseAlarmRate,
    Model,
    ModelTargetOption,
    Runs,
    alarm_rule,
    calibration_of,
    reads_runs,
    target_for,
)
from ontarget.cli.output import check_output
from ontarget.cli.replay import Replay
from ontarget.errors import EpisodesError

if TYPE_CHECKING:
    from ontarget import AlarmRule, Episodes, Goal, GoalMonitor, Target

_PICTURES = (".png", ".svg")
_FROM_THE_HIGH = (
    "p had fallen before this step too, so the change since step {} is explained, where p was "
    "highest; --since {} explains the last step alone"
)
_NEAREST = (
    "step {} was chosen: the run raised its first alarm at step {}, where no model answers, and "
    "this is the nearest step at which one does"
)


@reads_runs
def explain(
    model: Model,
    runs: Runs,
    columns: Columns,
    run: Annotated[str, typer.Option(help="The id of the episode.", metavar="ID")],
    target: ModelTargetOption = None,
    step: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The step, counted from 0; by default that of the first alarm or, without one, "
            "that of the largest fall of p. If no model answers there, the nearest that has one.",
            metavar="T",
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Explain the change since this step; by default since the step before or, if most "
            "of the fall came earlier, since the highest p.",
            metavar="T",
        ),
    ] = None,
    false_alarm_rate: FalseAlarmRate = None,
    alarm_below: AlarmBelow = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw it: .png or .svg.", metavar="FILE"),
    ] = None,
    calibration: CalibrationOption = "target",
    as_json: AsJson = False,
) -> None:
    """Say what changed p at a step of a recorded run, and which recorded runs count most for p.

    The change since an earlier step is shared out among the reward earned, each feature and the
    passing of time. Precedents are the recorded runs that the model weighs most; a model that was
    fitted with --no-precedents does not know them.
    """
    if figure is not None:
        check_output(figure, _PICTURES)
    chosen = calibration_of(calibration)
    rule = alarm_rule(alarm_below=alarm_below, false_alarm_rate=false_alarm_rate)
    from ontarget import Episodes, GoalMonitor

    with working(f"opening {model.name}"):
        monitor = GoalMonitor.load(model)
    wanted = target_for(monitor, target)
    with working(f"reading {runs.name}"):
        episodes = Episodes.read(runs, like=monitor, **columns)
        if not episodes.names:
            episodes = monitor.fitted.alike(episodes)
    one, picked = _run(episodes, run), ""
    answered = _answered(monitor, one)
    if step is None:
        with working("looking for the step"):
            step, high, picked = _picked(monitor, one, wanted, rule, chosen, answered)
        if since is None and high is not None:
            since, picked = high, f"{picked}. {_FROM_THE_HIGH.format(high, step - 1)}"
    earlier = _earlier(one, step, since, answered)
    found = monitor.explain(
        step,
        *_reading(one, step),
        wanted,
        before=None if earlier is None else _reading(one, earlier),
        since=earlier,
        group=None if monitor.groups is None or one.groups is None else one.groups.tolist()[0],
        calibration=chosen,
    )
    if figure is not None:
        from ontarget._whole_file import write_whole
        from ontarget.evaluation.figures import figure_bytes

        kind = figure.suffix[1:]
        write_whole(figure, [figure_bytes(found.figure(), kind)])  # type: ignore[arg-type]
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"picked": picked or None}, sort_keys=True))
        return
    typer.echo("\n".join(filter(None, [picked, str(found)])))


def _reading(run: Episodes, step: int) -> tuple[Any, Any]:
    """The state of a run at a step, and the behavior so far: a number, or a dictionary by name."""
    if not run.names:
        rows = run.at(step)
        return rows.states[0], float(rows.behavior[0])
    each = {name: run.only(name).at(step) for name in run.names}
    so_far = {name: float(rows.behavior[0]) for name, rows in each.items()}
    return next(iter(each.values())).states[0], so_far


def _run(episodes: Episodes, name: str) -> Episodes:
    """The episode with this id, as `Episodes` with one entry."""
    names = [str(one) for one in episodes.ids.tolist()]
    if name not in names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise EpisodesError(f"--run needs the id of an episode, got {name!r}; there are {shown}")
    return episodes.take([names.index(name)])


def _answered(monitor: GoalMonitor, run: Episodes) -> set[int]:
    """The steps of a run at which a model answers; only these steps can be explained."""
    parts, last = list(monitor.contracts.joint.parts.values()), int(run.lengths[0])
    own = run.only(run.names[0]) if run.names else run
    group = int(parts[0].groups_in(own)[0])
    steps = range(min(last, parts[0].horizon))
    return {t for t in steps if not any(part.unknown(t, group) for part in parts)}


def _earlier(run: Episodes, step: int, since: int | None, answered: set[int]) -> int | None:
    """The earlier step to compare with, after checking that both steps belong to the run.

    By default it is the last earlier step at which a model answers; None if there is no such step.
    """
    name, last = run.ids[0], run.lengths[0] - 1
    if step > last:
        raise EpisodesError(f"--step needs 0 to {last} in episode {name}, got {step}")
    if since is None:
        return max((t for t in answered if t < step), default=None)
    if since >= step:
        raise EpisodesError(f"--since needs a step before step {step}, got {since}")
    return since


def _picked(
    monitor: GoalMonitor,
    run: Episodes,
    target: Target | Goal,
    rule: AlarmRule,
    calibration: Any,
    answered: set[int],
) -> tuple[int, int | None, str]:
    """The step to explain, the earlier step to compare with, and why the first was chosen.

    The step to explain is that of the first alarm or, without an alarm, that of the largest fall of
    p. If no model answers at that step, it is the nearest step at which one does. If the
    earlier step is None, the caller takes the last step before at which a model answers.
    """
    from ontarget.errors import FewEpisodesError

    try:
        sessions, alarm = monitor.sessions(target, alarm=rule, calibration=calibration), True
    except FewEpisodesError:  # no alarm can be promised, but p is known
        sessions = monitor.sessions(target, alarm_below=0.0, calibration=calibration)
        alarm = False
    told = [sessions.answer(one) for one in Replay(run, grouped=monitor.groups is not None)]
    steps = [one for one in told if one["status"] != "DONE"]
    raised = next((one["t"] for one in steps if alarm and one["status"] == "ALARM"), None)
    p = {one["t"]: one["p"] for one in steps if one["p"] is not None and one["t"] in answered}
    if not p:
        raise EpisodesError(
            f"no model answers at any step of episode {run.ids[0]}, so nothing can be explained; "
            "choose another --run, or fit on more episodes"
        )
    if raised is not None and raised in p:
        said = f"step {raised} was chosen: there the run raised its first alarm"
        return raised, _high(p, raised), said
    if raised is not None:
        nearest = min(p, key=lambda t: (abs(t - raised), t))
        return nearest, _high(p, nearest), _NEAREST.format(nearest, raised)
    why = "no alarm was raised" if alarm else "no alarm can be promised"
    falls = {t: p[t - 1] - p[t] for t in p if t - 1 in p}
    if not falls:
        return max(p), None, f"step {max(p)} was chosen: {why}, and it is the last with a model"
    t = max(falls, key=lambda one: falls[one])
    fell = "there p fell most" if falls[t] > 0.0 else "p never fell, and rose least there"
    return t, None, f"step {t} was chosen: {why}, and {fell}"


def _high(p: dict[int, float], step: int) -> int | None:
    """The earlier step at which p was highest, if most of the fall of p came before the last step.

    ``p`` has the probability at each step. The result is None if at least half of the fall came in
    the last step, from ``step - 1`` to ``step``, or if p is unknown at one of these two.
    """
    if step not in p or step - 1 not in p:
        return None
    earlier = [t for t in p if t < step]
    high = max(earlier, key=lambda t: (p[t], t))
    return high if p[step - 1] - p[step] < 0.5 * (p[high] - p[step]) else None
