"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from ontarget import AlarmRule
    from ontarget.episodes.reading._layout import FrameOptions

__all__ = [
    "AlarmBelow",
    "AsJson",
    "BehaviorOption",
    "DropCensored",
    "EpisodeColumn",
    "FalseAlarmRate",
    "FirstStep",
    "ForSteps",
    "GroupColumn",
    "HorizonOption",
    "Model",
    "RewardColumn",
    "RuledOutRate",
    "Runs",
    "StepColumn",
    "TargetOption",
    "alarm_rule",
    "frame_options",
]

Model: TypeAlias = Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")]
Runs: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="Recorded episodes: .parquet, .csv or the folder of a Minari dataset.", metavar="RUNS"
    ),
]
TargetOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="The outcomes that count as success: LO:HI, LO: or :HI; several joined by commas.",
        metavar="LO:HI",
    ),
]
# Newer versions of typer show the type of a flag, unless it has an empty name.
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs.", metavar="")
]
EpisodeColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of episode ids.", metavar="NAME")
]
StepColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Column of step numbers; none if the rows are already in order.", metavar="NAME"
    ),
]
FirstStep: TypeAlias = Annotated[
    int | None,
    typer.Option(help="The number of the first step.", show_default="the smallest", metavar="N"),
]
RewardColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of rewards.", metavar="NAME")
]
GroupColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of groups, each calibrated by itself.", metavar="NAME")
]
BehaviorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="What a run is judged by: sum, discounted:0.99, last, max, min, mean, or a column.",
        metavar="NAME",
    ),
]
HorizonOption: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Number of steps of a complete episode.", metavar="N")
]
DropCensored: TypeAlias = Annotated[
    bool, typer.Option("--drop-censored", help="Leave out episodes that were cut off.", metavar="")
]
FalseAlarmRate: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Promised false-alarm rate: the share of successful runs that may alarm.",
        metavar="RATE",
    ),
]

AlarmBelow: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Alarm when the probability falls below this.", metavar="P"),
]
ForSteps: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Alarm only after this many steps in a row.", metavar="N")
]
RuledOutRate: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Alarm when the target is ruled out, with at most this error rate per run.",
        metavar="RATE",
    ),
]


def alarm_rule(
    *,
    alarm_below: float | None = None,
    false_alarm_rate: str | None = None,
    ruled_out: str | None = None,
    for_steps: int = 1,
    clear_above: float | None = None,
) -> AlarmRule:
    """The alarm rule that the options ask for."""
    from ontarget import RuledOut
    from ontarget.conformal._levels import exact_level
    from ontarget.live.rules import rule_of

    if ruled_out is None:
        return rule_of(
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate,
            for_steps=for_steps,
            clear_above=clear_above,
        )
    others = {"--alarm-below": alarm_below, "--false-alarm-rate": false_alarm_rate}
    for name, value in {**others, "--clear-above": clear_above}.items():
        if value is not None:
            raise typer.BadParameter(f"pass --ruled-out or {name}, not both")
    exact_level(ruled_out, name="ruled_out", hint="0.05 allows one run in twenty")
    return RuledOut(ruled_out, for_steps)


def frame_options(
    *,
    episode: str | None = None,
    step: str | None = None,
    first_step: int | None = None,
    reward: str | None = None,
    features: str | None = None,
    categorical: str | None = None,
    behavior: str | None = None,
    group: str | None = None,
    horizon: int | None = None,
    drop_censored: bool = False,
) -> FrameOptions:
    """The options of `Episodes.read` that were given."""
    options: FrameOptions = {}
    if episode is not None:
        options["episode"] = episode
    if step is not None:
        options["step"] = None if step.lower() == "none" else step
    if first_step is not None:
        options["first_step"] = first_step
    if reward is not None:
        options["reward"] = reward
    if features is not None:
        options["features"] = [name.strip() for name in features.split(",")]
    if categorical is not None:
        options["categorical"] = [name.strip() for name in categorical.split(",")]
    if behavior is not None:
        options["behavior"] = behavior
    if group is not None:
        options["group"] = group
    if horizon is not None:
        options["horizon"] = horizon
    if drop_censored:
        options["censored"] = "drop"
    return options
