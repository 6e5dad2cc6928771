"""Which column of a user's file plays which part: a guess by common names, and what it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ontarget.errors import EpisodesError

if TYPE_CHECKING:
    import polars as pl

    from ontarget.episodes import Episodes
    from ontarget.episodes.reading._layout import FrameOptions

__all__ = ["Guess", "guess", "read_runs"]

# Names by which columns go, the likeliest first, in lower case without signs.
NAMES: Final[Mapping[str, Sequence[str]]] = {
    "episode": (
        *("episode", "episodeid", "episodes", "ep", "run", "runid", "trial", "trialid", "rollout"),
        *("rolloutid", "trajectory", "trajectoryid", "traj", "trajid", "game", "gameid", "session"),
        *("sessionid", "batch", "batchid", "id"),
    ),
    "step": (
        *("step", "steps", "stepid", "t", "timestep", "time", "tick", "frame", "cycle", "turn"),
        *("k", "stepnumber", "stepindex", "index"),
    ),
    "reward": ("reward", "rewards", "r", "rew", "gain", "profit", "score", "cost", "return"),
    "truncated": ("truncated", "truncation", "timeout", "timeouts", "cutoff"),
    "terminated": ("terminated", "termination", "terminal", "terminals", "done", "dones"),
}
_NEEDED = ("episode", "reward")


@dataclass(frozen=True)
class Guess:
    """What was guessed: options for `Episodes.read`, and remarks a user should see."""

    options: FrameOptions
    remarks: tuple[str, ...] = field(default=())


def guess(columns: Sequence[str], given: FrameOptions) -> Guess:
    """The parts that the user did not give, by the names of the columns.

    Examples
    --------
    >>> guess(["run", "tick", "speed", "gain"], {}).options
    {'episode': 'run', 'step': 'tick', 'reward': 'gain'}
    """
    taken = {value for value in given.values() if isinstance(value, str)}
    taken |= set(given.get("features") or ())
    found: dict[str, str | None] = {}
    remarks: list[str] = []
    judged_by_column = str(given.get("behavior", "")).removeprefix("total:") in columns
    for part, names in NAMES.items():
        if part in given:
            continue
        matches = _matches(columns, names, taken)
        if matches:
            found[part] = matches[0]
            taken.add(matches[0])
            others = [name for name in matches[1:] if part in _NEEDED]
            if others:
                remarks.append(
                    f"{', '.join(map(repr, others))} could be the {part} too; it is a feature now"
                )
        elif part == "step":
            found[part] = None
            remarks.append("no column of steps: rows count as they stand; else pass --step NAME")
        elif part == "episode" or (part == "reward" and not judged_by_column):
            raise EpisodesError(_cannot_tell(part, columns))
    merged: FrameOptions = {**found, **given}  # type: ignore[typeddict-item]  # parts are its keys
    return Guess(merged, tuple(remarks))


def read_runs(path: Path, given: FrameOptions) -> tuple[Episodes, tuple[str, ...]]:
    """The episodes in a file and what was remarkable in guessing its columns."""
    import polars as pl

    from ontarget.episodes import Episodes

    if path.suffix not in (".parquet", ".csv") or not path.is_file():
        return Episodes.read(path, **given), ()  # it says what is wrong, or reads a Minari folder
    table = _table(path)
    if table is None:
        return Episodes.read(path, **given), ()
    columns = table.collect_schema().names()
    found = guess(columns, _named_alike(given, columns))
    # A spoilt value or a damaged file: reading it tells where.
    with suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
        found = _numbered(table, found, given)
    return Episodes.read(path, **found.options), found.remarks


def _named_alike(given: FrameOptions, columns: Sequence[str]) -> FrameOptions:
    """The options, with the columns of what is read ``like`` where this file has them too."""
    like = given.get("like")
    if like is None:
        return given
    named = {part: getattr(like.roles, part) for part in (*NAMES, "group")}
    named = {part: name for part, name in named.items() if name in columns}
    return {**named, **given}  # type: ignore[typeddict-item]  # parts are its keys


def _table(path: Path) -> pl.LazyFrame | None:
    """The table in a file, or None where the file itself says which column is which."""
    import polars as pl

    try:
        if path.suffix == ".parquet":
            if "ontarget" in pl.read_parquet_metadata(path):
                return None
            table = pl.scan_parquet(path, glob=False)
        else:
            table = pl.scan_csv(path, glob=False)
        table.collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None  # reading it tells why
    return table


def _numbered(table: pl.LazyFrame, found: Guess, given: FrameOptions) -> Guess:
    """From which number steps count; times that are no whole numbers only order the rows."""
    import polars as pl

    options, remarks = found.options, found.remarks
    step, episode = options.get("step"), options.get("episode")
    columns = table.collect_schema()
    if step is None or step not in columns or episode not in columns or "first_step" in given:
        return found
    if columns[step].is_integer():
        first = table.select(pl.col(step).min()).collect().item()
        return Guess({**options, "first_step": int(first)}, remarks) if first else found
    if "step" in given or not columns[step].is_numeric():
        return found
    rises = (pl.col(step).diff().over(episode) > 0).fill_null(value=True).all()
    if not table.select(rises).collect().item():
        raise EpisodesError(
            f"column {step!r} holds no whole numbers, and does not rise within each episode; sort "
            "the rows by episode and time, or pass --step NAME with a column of whole numbers"
        )
    remark = f"{step!r} is no whole number: rows count as they stand, and it is a feature"
    return Guess({**options, "step": None}, (*remarks, remark))


def _matches(columns: Sequence[str], names: Sequence[str], taken: set[str]) -> list[str]:
    plain = {name: "".join(sign for sign in name.lower() if sign.isalnum()) for name in columns}
    return [
        name for known in names for name in columns if plain[name] == known and name not in taken
    ]


def _cannot_tell(part: str, columns: Sequence[str]) -> str:
    other = " or --behavior NAME with the column that a run is judged by" * (part == "reward")
    return (
        f"cannot tell which column holds the {part} among {', '.join(columns)}; "
        f"pass --{part} NAME{other}"
    )
