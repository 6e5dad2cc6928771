"""``ontarget explain``: why p is what it is at one step of a recorded run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ontarget._progress import working
from ontarget.cli.options import (
    AsJson,
    Model,
    ModelTargetOption,
    ReadsRuns,
    Runs,
    SetsAlarm,
    option,
    target_for,
)
from ontarget.cli.output import check_output
from ontarget.cli.replay import Replay, named_runs
from ontarget.errors import EpisodesError, FewEpisodesError

if TYPE_CHECKING:
    from ontarget import Episodes, Goal, GoalMonitor, Target
    from ontarget.live.setting import AlarmSetting

_PICTURES = (".png", ".svg")
_FROM_THE_HIGH = (
    "p had fallen before this step too, so the change since step {} is explained, where p was "
    "highest; --since {} explains the last step alone"
)
_NEAREST = (
    "step {} was chosen: the run raised its first alarm at step {}, where no model answers, and "
    "this is the nearest step at which one does"
)


@dataclass(frozen=True, kw_only=True)
class ExplainCommand(ReadsRuns, SetsAlarm):
    """Say what changed p at a step of a recorded run, and which recorded runs count most for p.

    The change since an earlier step is shared out among the reward earned, each feature and the
    passing of time. Precedents are the recorded runs that the model weighs most; a model that was
    fitted with --no-precedents does not know them.
    """

    own: ClassVar[frozenset[str]] = frozenset({"step"})

    model: Model
    runs: Runs
    name: Annotated[str, option("The id of the episode.", "ID", "--run")]
    target: ModelTargetOption = None
    step: Annotated[
        int | None,
        option(
            "The step, counted from 0; by default that of the first alarm or, without one, "
            "that of the largest fall of p. If no model answers there, the nearest that has one.",
            "T",
            min=0,
        ),
    ] = None  # type: ignore[assignment]  # not the column
    since: Annotated[
        int | None,
        option(
            "Explain the change since this step; by default since the step before or, if most "
            "of the fall came earlier, since the highest p.",
            "T",
            min=0,
        ),
    ] = None
    figure: Annotated[Path | None, option("Also draw it: .png or .svg.", "FILE")] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Find the step, explain it, and print or draw the explanation."""
        if self.figure is not None:
            check_output(self.figure, _PICTURES)
        _ = self.rule  # refused before anything that takes time
        from ontarget import GoalMonitor

        with working(f"opening {self.model.name}"):
            monitor = GoalMonitor.load(self.model)
        wanted = target_for(monitor, self.target)
        episodes = self.read(self.runs, monitor)
        if not episodes.names:
            episodes = monitor.fitted.alike(episodes)
        one = named_runs(episodes, [self.name])
        answered, picked = _answered(monitor, one), ""
        step, since = self.step, self.since
        if step is None:
            with working("looking for the step"):
                step, high, picked = _picked(monitor, one, wanted, self, answered)
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
            calibration=self.calibration,
        )
        if self.figure is not None:
            from ontarget._whole_file import write_whole
            from ontarget.evaluation.figures import figure_bytes

            kind = self.figure.suffix[1:]
            write_whole(self.figure, [figure_bytes(found.figure(), kind)])  # type: ignore[arg-type]
        if self.as_json:
            typer.echo(json.dumps(found.to_dict() | {"picked": picked or None}, sort_keys=True))
        else:
            typer.echo("\n".join(filter(None, [picked, str(found)])))


def _reading(run: Episodes, step: int) -> tuple[Any, Any]:
    """The state of a run at a step, and the behavior so far: a number, or a dictionary by name."""
    if not run.names:
        rows = run.at(step)
        return rows.states[0], float(rows.behavior[0])
    each = {name: run.only(name).at(step) for name in run.names}
    so_far = {name: float(rows.behavior[0]) for name, rows in each.items()}
    return next(iter(each.values())).states[0], so_far


def _answered(monitor: GoalMonitor, run: Episodes) -> set[int]:
    """The steps of a run at which a model answers; only these steps can be explained."""
    parts, last = list(monitor.contracts.joint.parts.values()), int(run.lengths[0])
    own = run.only(run.names[0]) if run.names else run
    group = int(parts[0].groups_in(own)[0])
    steps = range(min(last, parts[0].horizon))
    return {t for t in steps if not any(part.unknown(t, group) for part in parts)}


def _earlier(run: Episodes, step: int, since: int | None, answered: set[int]) -> int | None:
    """The earlier step to compare with, after checking that both steps belong to the run."""
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
    alarm: AlarmSetting,
    answered: set[int],
) -> tuple[int, int | None, str]:
    """The step to explain, the earlier step to compare with, and why the first was chosen."""
    try:
        sessions = monitor.sessions(target, alarm=alarm.rule, calibration=alarm.calibration)
        promised = True
    except FewEpisodesError:  # no alarm can be promised, but p is known
        sessions = monitor.sessions(target, alarm_below=0.0, calibration=alarm.calibration)
        promised = False
    told = [sessions.answer(one) for one in Replay(run, grouped=monitor.groups is not None)]
    steps = [one for one in told if one["status"] != "DONE"]
    raised = next((one["t"] for one in steps if promised and one["status"] == "ALARM"), None)
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
    why = "no alarm was raised" if promised else "no alarm can be promised"
    falls = {t: p[t - 1] - p[t] for t in p if t - 1 in p}
    if not falls:
        return max(p), None, f"step {max(p)} was chosen: {why}, and it is the last with a model"
    t = max(falls, key=lambda one: falls[one])
    fell = "there p fell most" if falls[t] > 0.0 else "p never fell, and rose least there"
    return t, None, f"step {t} was chosen: {why}, and {fell}"


def _high(p: dict[int, float], step: int) -> int | None:
    """The earlier step at which p was highest, if p fell mostly before the last step."""
    if step not in p or step - 1 not in p:
        return None
    earlier = [t for t in p if t < step]
    high = max(earlier, key=lambda t: (p[t], t))
    return high if p[step - 1] - p[step] < 0.5 * (p[high] - p[step]) else None
