"""Options that several commands share, and how they are read.

A command is a function or, with many options, a frozen dataclass whose fields are its options and
whose ``run`` does the work. Commands that read a log extend `ReadsRuns`, and commands that set an
alarm extend `SetsAlarm`.
"""

# Annotations are not postponed here: typer evaluates those of a subclass in the subclass's module.

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import typer

from ontarget._arguments import usable_path
from ontarget._progress import working
from ontarget.errors import EpisodesFileError, ModelFileError
from ontarget.live.setting import AlarmSetting

if TYPE_CHECKING:
    from ontarget import Episodes, Goal, GoalMonitor, Target

_Path = TypeVar("_Path", Path, Path | None)
_LOGS = frozenset((".csv", ".tsv", ".txt", ".parquet"))
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


def targets_read(given: Any) -> Any:
    """The text or texts, if each describes a target; otherwise raise an error."""
    for text in [given] if isinstance(given, str) else given or ():
        target_of(text)
    return given


def _begins_as_a_model(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"  # after the eight bytes of a length


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option of a command: what ``--help`` says of it, and the word for its value there.

    A flag has an empty word, because newer versions of typer show its type otherwise.
    """
    return typer.Option(*names, help=text, metavar=metavar, **more)


Model: TypeAlias = Annotated[
    Path, typer.Argument(help="A model file.", metavar="MODEL", callback=model_there, is_eager=True)
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
ModelOutput: TypeAlias = Annotated[
    Path, option("The model file to write.", "FILE", "--output", "-o")
]
MaxLearn: TypeAlias = Annotated[
    int, option("Learn from at most this many episodes; the others support promises.", "N", min=1)
]
TARGET_HELP: Final = (
    "The outcomes that count as success: LO:HI, LO: or :HI; join several by commas. For several "
    "behaviors, conditions: 'return>=200 & energy<=50'."
)
TARGET_OF_MODEL: Final = "the target that MODEL was fitted with"
# For commands that read a model, which may have been fitted with a target.
ModelTargetOption: TypeAlias = Annotated[
    str | None,
    option(TARGET_HELP, "LO:HI", "--target", show_default=TARGET_OF_MODEL, callback=targets_read),
]
AsJson: TypeAlias = Annotated[bool, option("Print JSON, for programs.", "", "--json")]
CalibrationOption: TypeAlias = Annotated[
    Literal["target", "common"],
    option(
        "How to calibrate p: for this one target (target), or in the same way for all "
        "targets, to compare several (common).",
        "NAME",
        "--calibration",
    ),
]
OrderOption: TypeAlias = Annotated[
    str | None,
    option(
        "Column of times, to find a change that began midway, and since when; by default the "
        "order of the runs plays no part.",
        "NAME",
        "--order",
    ),
]


def _alarm(text: str, metavar: str, **more: Any) -> Any:
    """One of the options that set an alarm."""
    return option(text, metavar, rich_help_panel="The alarm", **more)


@dataclass(frozen=True, kw_only=True)
class SetsAlarm(AlarmSetting):
    """The options that set an alarm: those of `AlarmSetting`, with words for ``--help``.

    `evaluate` and `watch` share them, so `evaluate` checks the same alarm that `watch` raises.
    """

    alarm_below: Annotated[
        float | None,
        _alarm("Alarm when the probability falls below this value; nothing is promised.", "P"),
    ] = None
    false_alarm_rate: Annotated[
        str | None,
        _alarm(
            "Alarm with a promised false-alarm rate: at most this share of the runs that meet the "
            "target raise it, on average over recordings. Without any alarm option it is 0.05.",
            "RATE",
        ),
    ] = None
    ruled_out: Annotated[
        str | None,
        _alarm(
            "Alarm when the target is ruled out; at most this share of all runs is ruled out "
            "wrongly, on average over recordings.",
            "RATE",
        ),
    ] = None
    confidence: Annotated[
        str | None,
        _alarm(
            "With 0.95, the alarm's rate holds for at least 95 in 100 of the recordings that you "
            "might have made; by default it holds on average over them.",
            "LEVEL",
        ),
    ] = None
    for_steps: Annotated[
        int, _alarm("Alarm only after its condition has held for N steps in a row.", "N", min=1)
    ] = 1
    clear_above: Annotated[
        float | None, _alarm("An alarm ends when the probability reaches this value.", "P")
    ] = None
    calibration: CalibrationOption = "target"


def _reads(text: str, metavar: str = "NAME", *names: str, **more: Any) -> Any:
    """One of the options that say how to read a log."""
    return option(text, metavar, *names, rich_help_panel="How to read RUNS", **more)


@dataclass(frozen=True, kw_only=True)
class ReadsRuns:
    """The options that say how to read recorded episodes: those of `Episodes.read`, as text."""

    own: ClassVar[frozenset[str]] = frozenset()  # fields that a command uses for something else

    episode: Annotated[
        str | None, _reads("Column of episode ids, or several joined by commas.")
    ] = None
    step: Annotated[
        str | None,
        _reads(
            "Column of step numbers or of times. Several, joined by commas, sort the rows; 'none' "
            "takes the rows in their order."
        ),
    ] = None
    first_step: Annotated[
        int | None, _reads("Number of the first step.", "N", show_default="the smallest")
    ] = None
    reward: Annotated[str | None, _reads("Column of rewards, or none.")] = None
    reward_since_last: Annotated[
        bool | None,
        _reads(
            "The reward column holds what was earned since the row before: use the next row's.",
            "",
            "--reward-since-last",
        ),
    ] = None
    features: Annotated[
        str | None,
        _reads(
            "Feature columns, separated by commas; by default all columns without another role.",
            "NAMES",
        ),
    ] = None
    times: Annotated[
        str | None,
        _reads(
            "Columns of dates or times to make features of: hours since the start, hour, weekday.",
            "NAMES",
        ),
    ] = None
    every: Annotated[
        str | None,
        _reads("Make one step of each 30s, 15m, 1h or 1d, by the times of the rows.", "TIME"),
    ] = None
    outcome: Annotated[str | None, _reads("Column with a run's result, known only at its end.")] = (
        None
    )
    drop: Annotated[str | None, _reads("Columns to leave out, separated by commas.", "NAMES")] = (
        None
    )
    categorical: Annotated[
        str | None,
        _reads(
            "Features whose numbers stand for categories, such as a type; separated by commas.",
            "NAMES",
        ),
    ] = None
    behavior: Annotated[
        list[str] | None,
        _reads(
            "What a run is judged by: sum, discounted:0.99, last, max, min or mean of the rewards "
            "or, as min:distance, of a column; a column with the value itself; or total:COLUMN. "
            "For several behaviors, repeat it: --behavior return=sum --behavior energy=sum:energy.",
            "BEHAVIOR",
        ),
    ] = None
    group: Annotated[
        str | None, _reads("Column of groups, each calibrated by itself, or none.")
    ] = None
    truncated: Annotated[
        str | None,
        _reads("Column that is true in the last row of an episode that was cut off, or none."),
    ] = None
    terminated: Annotated[
        str | None,
        _reads("Column that is true in the last row of an episode that ended by itself, or none."),
    ] = None
    horizon: Annotated[
        int | None, _reads("The most steps that an episode can have.", "N", min=1)
    ] = None
    censored: Annotated[
        str | None,
        _reads(
            "What to do with episodes that were cut off: refuse (an error), drop, worst-case "
            "(promises allow for any outcome), weights (needs --stop-probability) or horizon "
            "(needs --cutoff).",
            "HOW",
            show_default="refuse",
        ),
    ] = None
    stop_probability: Annotated[
        str | None,
        _reads(
            "For --censored weights: column with the probability that the run was stopped at this "
            "step."
        ),
    ] = None
    stop_bound: Annotated[
        float | None,
        _reads(
            "For --censored weights: an upper bound on the product of 1 / (1 - stop probability) "
            "over a run.",
            "B",
        ),
    ] = None
    intervened: Annotated[
        str | None,
        _reads(
            "Column that is true in rows where somebody acted in place of the policy, or none. "
            "Such runs are left out, or treated as --censored says.",
            show_default="intervened, if there is one",
        ),
    ] = None
    cutoff: Annotated[
        str | None,
        _reads(
            "For --censored horizon: column with the number of steps after which a run is cut off."
        ),
    ] = None

    @property
    def columns(self) -> dict[str, Any]:
        """The options that were given, in the form that `Episodes.read` takes.

        The word "none" as the name of a column means that there is no such column.
        """
        names = [one.name for one in fields(ReadsRuns) if one.name not in self.own]
        found = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for name in ("features", "categorical", "drop", "times"):
            if name in found:
                found[name] = [part.strip() for part in found[name].split(",")]
        if "behavior" in found:
            found["behavior"] = _judged(found["behavior"])
        for name in ("step", "reward", "group", "truncated", "terminated", "intervened"):
            if name in found and found[name].lower() == "none":
                found[name] = None
        return found

    def read(self, runs: Path, like: "GoalMonitor | None" = None) -> "Episodes":
        """The episodes in a file, read alike those that a monitor was fitted on."""
        from ontarget import Episodes

        alike: dict[str, Any] = {} if like is None else {"like": like}
        with working(f"reading {runs.name}"):
            return Episodes.read(runs, **self.columns, **alike)


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


def target_of(text: str) -> "Target | Goal":
    """The target that a text describes, or the goal if the text names behaviors."""
    from ontarget import Goal, Target

    return Goal.parse(text) if Goal.is_one(text) else Target.parse(text)


def target_for(monitor: "GoalMonitor", text: str | None) -> "Target | Goal":
    """The target that a text describes; without a text the one that the monitor was fitted with."""
    found = monitor.target if text is None else target_of(text)
    if found is None:
        raise typer.BadParameter(
            "pass --target, such as --target 60:, because MODEL was fitted without one; "
            "`ontarget fit --target` keeps a target in the model file"
        )
    return found


def remark_lines(episodes: "Episodes") -> str:
    """Text: what was guessed about a file's columns, and how to correct it; else empty."""
    if not episodes.remarks:
        return ""
    lines = "\n           ".join(episodes.remarks)
    return f"columns    {lines}\n{NOT_SO}"


def described(episodes: "Episodes") -> str:
    """A description of episodes, and how to correct what was guessed about their columns."""
    return episodes.describe() + f"\n{NOT_SO}" * bool(episodes.remarks)


def unseen_line(episodes: "Episodes") -> str:
    """A line saying which values had a category that the monitor does not know; else empty."""
    from ontarget.episodes.schema import unknown_in_words

    if not episodes.unseen:
        return ""
    return (
        f"caution    {episodes.unseen:,} readings are of categories that no training episode had "
        f"and count as missing: {unknown_in_words(episodes.strangers)}"
    )
