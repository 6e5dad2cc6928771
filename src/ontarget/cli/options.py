"""Options that several commands of the command line share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import typer

from ontarget._arguments import usable_path
from ontarget.errors import EpisodesFileError, ModelFileError

if TYPE_CHECKING:
    from ontarget import AlarmRule, Episodes, Goal, GoalMonitor, Target
    from ontarget.episodes.behavior import Bounds

_Path = TypeVar("_Path", Path, Path | None)
_LOGS = frozenset((".csv", ".tsv", ".txt", ".parquet"))
Columns: TypeAlias = dict[str, Any]  # options of `Episodes.read`; see `reads_runs`
NOT_SO: Final = (
    "           not right? name the columns: --episode, --step, --reward, --features, --group, …"
)


# These checks are made before anything is loaded that takes time to load.
def runs_there(path: _Path) -> _Path:
    """The path, if a file or folder exists there; otherwise raise a usage error."""
    if path is None:
        return path
    if not usable_path(path, error=EpisodesFileError).exists():
        raise EpisodesFileError(f"{path}: no such file or folder")
    return path


def model_there(path: _Path) -> _Path:
    """The path, if there is a file that begins as model files do; otherwise raise a usage error."""
    if path is None:
        return path
    if not usable_path(path, error=ModelFileError).exists():
        raise ModelFileError(f"{path}: no such file or folder")
    if path.suffix.lower() in _LOGS:
        raise ModelFileError(
            f"{path} is not an ontarget model file; pass MODEL first, and make it from a log with "
            f"`ontarget fit`"
        )
    if path.is_file() and not _begins_as_a_model(path):
        from ontarget.modelfile.container import Container

        Container.open(path)  # says what is wrong with it
    return path


def target_read(text: str | None) -> str | None:
    """The text, if it describes a target; otherwise raise an error."""
    if text is not None:
        target_of(text)
    return text


def targets_read(texts: list[str] | None) -> list[str] | None:
    """The texts, if each describes a target; otherwise raise an error."""
    for text in texts or ():
        target_of(text)
    return texts


def _begins_as_a_model(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"  # after the eight bytes of a length


Model: TypeAlias = Annotated[
    Path,
    typer.Argument(help="A model file.", metavar="MODEL", callback=model_there, is_eager=True),
]
Runs: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="Recorded episodes: .parquet, .csv, the folder of a Minari or LeRobot dataset, or "
        "the output of `ontarget prepare`.",
        metavar="RUNS",
        callback=runs_there,
        is_eager=True,  # a file that is missing is told before NumPy reads a target
    ),
]
TARGET_HELP: Final = (
    "The outcomes that count as success: LO:HI, LO: or :HI; join several by commas. For several "
    "behaviors, conditions: 'return>=200 & energy<=50'."
)
TARGET_OF_MODEL: Final = "the target that MODEL was fitted with"
TargetOption: TypeAlias = Annotated[str, typer.Option(help=TARGET_HELP, metavar="LO:HI")]
# For commands that read a model, which may have been fitted with a target.
ModelTargetOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--target",
        help=TARGET_HELP,
        metavar="LO:HI",
        show_default=TARGET_OF_MODEL,
        callback=target_read,
    ),
]
# Newer versions of typer show the type of a flag, unless it has an empty name.
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs.", metavar="")
]
FalseAlarmRate: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Alarm with a promised false-alarm rate: at most this share of the runs that meet "
        "the target raise it, on average over recordings. Without any alarm option it is 0.05.",
        metavar="RATE",
    ),
]

AlarmBelow: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Alarm when the probability falls below this value; nothing is promised.", metavar="P"
    ),
]
ForSteps: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1, help="Alarm only after its condition has held for N steps in a row.", metavar="N"
    ),
]
CalibrationOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--calibration",
        help="How to calibrate p: for this one target (target), or in the same way for all "
        "targets, to compare several (common).",
        metavar="NAME",
    ),
]
OrderOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--order",
        help="Column of times, to find a change that began midway, and since when; by default the "
        "order of the runs plays no part.",
        metavar="NAME",
    ),
]
RewardBounds: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The least and most that one step can ever earn; for several behaviors "
        "NAME=LO:HI,NAME=LO:HI.",
        metavar="LO:HI",
    ),
]
RuledOutRate: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Alarm when the target is ruled out; at most this share of all runs is ruled out "
        "wrongly, on average over recordings.",
        metavar="RATE",
    ),
]
Confidence: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="With 0.95, the alarm's rate holds for at least 95 in 100 of the recordings that you "
        "might have made; by default it holds on average over them.",
        metavar="LEVEL",
    ),
]


def alarm_rule(
    *,
    alarm_below: float | None = None,
    false_alarm_rate: str | None = None,
    ruled_out: str | None = None,
    confidence: str | None = None,
    for_steps: int = 1,
    clear_above: float | None = None,
) -> AlarmRule:
    """The alarm rule that these options describe; by default one with 5 % promised false alarms.

    `evaluate` and `watch` both use it, so `evaluate` checks the same alarm that `watch` raises.
    """
    from ontarget import RuledOut
    from ontarget.conformal.levels import exact_level
    from ontarget.live.rules import rule_of

    if ruled_out is None:
        chosen = alarm_below is not None or false_alarm_rate is not None
        return rule_of(
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate if chosen else "0.05",
            confidence=confidence,
            for_steps=for_steps,
            clear_above=clear_above,
        )
    others = {"--alarm-below": alarm_below, "--false-alarm-rate": false_alarm_rate}
    for name, value in {**others, "--clear-above": clear_above}.items():
        if value is not None:
            raise typer.BadParameter(f"pass --ruled-out or {name}, not both")
    exact_level(ruled_out, name="ruled_out", hint="0.05 allows one run in twenty")
    return RuledOut(ruled_out, for_steps, confidence)


def calibration_of(name: str) -> Literal["target", "common"]:
    """The value of the option ``--calibration``, after checking it."""
    if name not in ("target", "common"):
        raise typer.BadParameter(f"--calibration needs target or common, got {name!r}")
    return name  # type: ignore[return-value]  # checked above


def bounds_of(text: str | None) -> Bounds | dict[str, Bounds] | None:
    """The least and the most reward per step, from a text LO:HI, LO: or :HI.

    For several behaviors, NAME=LO:HI gives the bounds of one of them.
    """
    if text is None:
        return None
    if "=" in text:
        named = [one.partition("=") for one in text.split(",")]
        return {name.strip(): _one_bound(bounds, text) for name, _, bounds in named}
    return _one_bound(text, text)


def _one_bound(bounds: str, text: str) -> Bounds:
    try:
        low, high = (float(end) if end.strip() else None for end in bounds.split(":"))
    except ValueError as error:
        raise typer.BadParameter(
            "--reward-bounds needs LO:HI, LO: or :HI, or NAME=LO:HI,… for several behaviors, got "
            f"{text!r}"
        ) from error
    return low, high


def _reading(name: str, kind: type, text: str, metavar: str = "NAME", **more: Any) -> Parameter:
    """An option, for the signature of a command, that says how to read recorded episodes."""
    option = typer.Option(
        None,
        f"--{name.replace('_', '-')}",
        help=text,
        metavar=metavar,
        rich_help_panel="How to read RUNS",
        **more,
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


_READING: Final = (
    _reading("episode", str, "Column of episode ids, or several joined by commas."),
    _reading(
        "step",
        str,
        "Column of step numbers or of times. Several, joined by commas, sort the rows; 'none' "
        "takes the rows in their order.",
    ),
    _reading("first_step", int, "Number of the first step.", "N", show_default="the smallest"),
    _reading("reward", str, "Column of rewards, or none."),
    _reading(
        "reward_since_last",
        bool,
        "The reward column holds what was earned since the row before: use the next row's.",
        "",
    ),
    _reading(
        "features",
        str,
        "Feature columns, separated by commas; by default all columns without another role.",
        "NAMES",
    ),
    _reading(
        "times",
        str,
        "Columns of dates or times to make features of: hours since the start, hour, weekday.",
        "NAMES",
    ),
    _reading(
        "every", str, "Make one step of each 30s, 15m, 1h or 1d, by the times of the rows.", "TIME"
    ),
    _reading("outcome", str, "Column with a run's result, known only at its end."),
    _reading("drop", str, "Columns to leave out, separated by commas.", "NAMES"),
    _reading(
        "categorical",
        str,
        "Features whose numbers stand for categories, such as a type; separated by commas.",
        "NAMES",
    ),
    _reading(
        "behavior",
        list[str],
        "What a run is judged by: sum, discounted:0.99, last, max, min or mean of the rewards or, "
        "as min:distance, of a column; a column with the value itself; or total:COLUMN. For "
        "several behaviors, repeat it: --behavior return=sum --behavior energy=sum:energy.",
        "BEHAVIOR",
    ),
    _reading("group", str, "Column of groups, each calibrated by itself, or none."),
    _reading(
        "truncated",
        str,
        "Column that is true in the last row of an episode that was cut off, or none.",
    ),
    _reading(
        "terminated",
        str,
        "Column that is true in the last row of an episode that ended by itself, or none.",
    ),
    _reading("horizon", int, "The most steps that an episode can have.", "N", min=1),
    _reading(
        "censored",
        str,
        "What to do with episodes that were cut off: refuse (an error), drop, worst-case "
        "(promises allow for any outcome), weights (needs --stop-probability) or horizon (needs "
        "--cutoff).",
        "HOW",
        show_default="refuse",
    ),
    _reading(
        "stop_probability",
        str,
        "For --censored weights: column with the probability that the run was stopped at this "
        "step.",
    ),
    _reading(
        "stop_bound",
        float,
        "For --censored weights: an upper bound on the product of 1 / (1 - stop probability) over "
        "a run.",
        "B",
    ),
    _reading(
        "intervened",
        str,
        "Column that is true in rows where somebody acted in place of the policy, or none. Such "
        "runs are left out, or treated as --censored says.",
        show_default="intervened, if there is one",
    ),
    _reading(
        "cutoff",
        str,
        "For --censored horizon: column with the number of steps after which a run is cut off.",
    ),
)


def reads_runs(command: Callable[..., None]) -> Callable[..., None]:
    """The command, extended by the options that say how to read recorded episodes.

    The command gets the values of these options in one argument ``columns``, in the form that
    `Episodes.read` takes. An option that the command itself defines under the same name stays the
    command's own, and is not part of ``columns``.
    """
    own = signature(command, eval_str=True).parameters
    reading = [one for one in _READING if one.name not in own]
    shown = [*(one for one in own.values() if one.name != "columns"), *reading]

    @wraps(command)
    def called(**values: Any) -> None:
        given = {one.name: values.pop(one.name) for one in reading}
        command(**values, columns=_frame_options(given))

    # typer asks for both: the signature, and the annotations of the function.
    called.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in shown}
    return called


def _frame_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as arguments of `Episodes.read`.

    The word "none" as the name of a column means that there is no such column.
    """
    found = {name: value for name, value in given.items() if value is not None}
    for name in ("features", "categorical", "drop", "times"):
        if name in found:
            found[name] = [part.strip() for part in found[name].split(",")]
    if "behavior" in found:
        found["behavior"] = _judged(found["behavior"])
    for name in ("step", "reward", "group", "truncated", "terminated", "intervened"):
        if name in found and found[name].lower() == "none":
            found[name] = None
    return found


def _judged(given: Sequence[str]) -> str | dict[str, str]:
    """The values of ``--behavior``: one behavior as text, or several in a dictionary by name."""
    pairs = [re.fullmatch(r"\s*(\w+)\s*=(.+)", one) for one in given]
    if len(given) == 1 and pairs[0] is None:
        return given[0]
    found: dict[str, str] = {}
    for text, pair in zip(given, pairs, strict=True):
        if pair is None or pair[1] in found:
            raise typer.BadParameter(
                f"--behavior needs NAME=BEHAVIOR with a different name each time, got {text!r}"
            )
        found[pair[1]] = pair[2].strip()
    return found


def target_of(text: str) -> Target | Goal:
    """The target that a text describes, or the goal if the text names behaviors."""
    from ontarget import Goal, Target

    return Goal.parse(text) if Goal.is_one(text) else Target.parse(text)


def target_for(monitor: GoalMonitor, text: str | None) -> Target | Goal:
    """The target that a text describes; without a text the one that the monitor was fitted with."""
    found = monitor.target if text is None else target_of(text)
    if found is None:
        raise typer.BadParameter(
            "pass --target, such as --target 60:, because MODEL was fitted without one; "
            "`ontarget fit --target` keeps a target in the model file"
        )
    return found


def remark_lines(episodes: Episodes) -> str:
    """Text: what was guessed about a file's columns, and how to correct it.

    It is empty if nothing was guessed.
    """
    if not episodes.remarks:
        return ""
    lines = "\n           ".join(episodes.remarks)
    return f"columns    {lines}\n{NOT_SO}"


def unseen_line(episodes: Episodes) -> str:
    """A line saying which values, and how many, had a category that the monitor does not know.

    It is empty if there were none.
    """
    from ontarget.episodes.schema import unknown_in_words

    if not episodes.unseen:
        return ""
    return (
        f"caution    {episodes.unseen:,} readings are of categories that no training episode had "
        f"and count as missing: {unknown_in_words(episodes.strangers)}"
    )
