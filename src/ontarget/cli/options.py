"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

if TYPE_CHECKING:
    from ontarget import AlarmRule, Episodes

__all__ = [
    "NOT_SO",
    "AlarmBelow",
    "AsJson",
    "Columns",
    "FalseAlarmRate",
    "ForSteps",
    "Model",
    "RuledOutRate",
    "Runs",
    "TargetOption",
    "alarm_rule",
    "reads_runs",
    "remark_lines",
]

Columns: TypeAlias = dict[str, Any]  # options of `Episodes.read`; see `reads_runs`
NOT_SO: Final = (
    "           not so? pass --episode, --step, --reward, --features, --group or another column"
)

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


def _reading(name: str, kind: type, text: str, metavar: str = "NAME", **more: Any) -> Parameter:
    """A parameter of a command that says how to read recorded episodes."""
    is_flag = kind is bool
    option = typer.Option(
        False if is_flag else None,
        f"--{name.replace('_', '-')}",
        help=text,
        metavar=metavar,
        rich_help_panel="How to read RUNS",
        **more,
    )
    annotation = kind if is_flag else kind | None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=annotation)


_READING: Final = (
    _reading("episode", str, "Column of episode ids."),
    _reading("step", str, "Column of steps; none if the rows stand in order."),
    _reading("first_step", int, "Number of the first step.", "N", show_default="the smallest"),
    _reading("reward", str, "Column of rewards, or none."),
    _reading(
        "features", str, "Feature columns, separated by commas; by default the rest.", "NAMES"
    ),
    _reading("categorical", str, "Features whose numbers are names, with commas.", "NAMES"),
    _reading(
        "behavior",
        str,
        "What a run is judged by: sum, discounted:0.99, last, max, min, mean, a column, or "
        "total:COLUMN.",
    ),
    _reading("group", str, "Column of groups to calibrate one by one, or none."),
    _reading("truncated", str, "Column that flags a cut-off, or none."),
    _reading("terminated", str, "Column that flags an end, or none."),
    _reading("horizon", int, "Steps of a complete episode.", "N", min=1),
    # Newer versions of typer show the type of a flag, unless it has an empty name.
    _reading("drop_censored", bool, "Leave cut-off episodes out.", ""),
)


def reads_runs(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say how to read recorded episodes.

    The command takes them as one argument ``columns``: options of `Episodes.read`.
    """
    own = signature(command, eval_str=True).parameters.values()
    shown = [*(one for one in own if one.name != "columns"), *_READING]

    @wraps(command)
    def called(**values: Any) -> None:
        given = {one.name: values.pop(one.name) for one in _READING}
        command(**values, columns=_frame_options(given))

    # typer asks for both: the signature, and the annotations of the function.
    called.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in shown}
    return called


def _frame_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `Episodes.read` that were given; the word none stands for no column."""
    found = {name: value for name, value in given.items() if value is not None}
    if found.pop("drop_censored", False):
        found["censored"] = "drop"
    for name in ("features", "categorical"):
        if name in found:
            found[name] = [part.strip() for part in found[name].split(",")]
    for name in ("step", "reward", "group", "truncated", "terminated"):
        if name in found and found[name].lower() == "none":
            found[name] = None
    return found


def remark_lines(episodes: Episodes) -> str:
    """What was guessed of a file's columns and how to say otherwise; empty if nothing was."""
    if not episodes.remarks:
        return ""
    lines = "\n           ".join(episodes.remarks)
    return f"columns    {lines}\n{NOT_SO}"
