"""Finds out which column of a table is the episode, the step, the reward and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ontarget.episodes.judged import Judged
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, EpisodesError, Placeholder
from ontarget.reading.layout import FROM_NEXT, ON_CLOCK, Layout

# Common names of columns, in lower case without punctuation; the first is the usual one.
_NAMES: Final[Mapping[str, Sequence[str]]] = {
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
    "group": ("group",),
}
# Names that can mean other things too: they are used only if no column has one of the names above.
_LESS_COMMON: Final[Mapping[str, Sequence[str]]] = {
    "episode": (
        *("unit", "unitid", "unitnumber", "unitnr", "case", "caseid", "caseconceptname", "match"),
        *("matchid", "ticket", "ticketid", "trip", "tripid", "flight", "flightid", "job", "jobid"),
        *("engine", "engineid", "machine", "machineid", "patient", "patientid", "order", "orderid"),
    ),
    "step": ("timestamp", "datetime", "timetimestamp", "seq", "sequence", "eventnumber"),
    "reward": ("payoff", "points", "utility", "income"),
}
# Counters of steps: they are used only if no column has any of the names above. A "position" or an
# "order" is often a feature, and an "action index" or a "sequence index" is not a step in time.
_COUNTERS: Final = (
    *(
        f"{what}{number}"
        for what in ("step", "timestep", "event", "turn", "tick", "frame", "cycle")
        for number in ("no", "nr", "num", "number", "idx", "index")
    ),
    *(
        f"{what}{number}"
        for what in ("seq", "sequence")
        for number in ("no", "nr", "num", "number")
    ),
)
_HOLDS: Final = {"truncated": "flags a cut-off", "terminated": "flags an end"}
_NAME: Final = Placeholder("NAME")
_SEVERAL: Final = ("episode", "step")  # roles that several columns can play together


@dataclass(frozen=True, eq=False)
class Table:
    """A table to read: its columns, the user's options, and what runs are judged by."""

    columns: tuple[str, ...]
    read: Callable[[str], pl.Series]  # a column by its name
    layout: Layout
    judged: Judged

    def needs(self, part: str) -> bool:
        """Whether some column must be the ``part``, such as the episode or the reward."""
        return part == "episode" or (part == "reward" and self.judged.reads_reward)

    def free(self, parts: Parts) -> list[str]:
        """The columns that can be features: they are not the step, the reward or the like."""
        layout = self.layout
        taken = {*parts.episode_columns, parts.reward, parts.truncated, parts.terminated}
        taken |= {parts.group, *self.judged.columns}
        taken |= {layout.stop_probability, layout.cutoff, layout.target}
        return [name for name in self.columns if name not in taken]


@dataclass(frozen=True)
class Parts:
    """Which column of a table is the episode, the step, the reward and so on; None if none is.

    Several columns may name an episode together, and several may sort its rows; their names are
    then joined by commas. ``guessed`` says which columns were guessed, because they do not have the
    usual names. ``notes`` are further remarks for the user.
    """

    episode: str
    step: str | None
    reward: str | None
    truncated: str | None
    terminated: str | None
    group: str | None
    episode_columns: tuple[str, ...]
    step_columns: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sorts(self) -> bool:
        """Whether the columns of the step only sort the rows."""
        return self.step is not None and self.step_columns != (self.step,)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for the user: which columns were guessed, and further notes."""
        shown = ", ".join(f"{part} = {getattr(self, part)}" for part in self.guessed)
        return (f"guessed by name: {shown}", *self.notes) if shown else self.notes

    def noting(self, note: str) -> Parts:
        """The same columns, with one more remark for the user."""
        return replace(self, notes=(*self.notes, note))

    def roles(self, first_step: int) -> Roles:
        """Which column is the step, the reward and so on, in the form that episodes store."""
        return Roles(
            episode=self.episode,
            step=self.step or "step",
            reward=self.reward,
            truncated=self.truncated,
            terminated=self.terminated,
            group=self.group,
            first_step=first_step,
        )


def find_parts(table: Table) -> Parts:
    """Which column of a table is the episode, the step, the reward and so on."""
    columns, layout, judged = table.columns, table.layout, table.judged
    for name in judged.columns:
        if name not in columns:
            raise EpisodesError(*no_column("behavior", name, columns))
    found = {**_named_alike(table), **_passed(table)}
    several = {part: _several(found.get(part), columns) for part in _SEVERAL}
    spent = {*found.values(), *several["episode"], *several["step"], *judged.columns}
    guessed: list[str] = []
    notes: list[str] = []
    for part in _NAMES:
        if part in found:
            continue
        free = [name for name in columns if name not in spent]
        needed = table.needs(part)
        candidates = _candidates(part, free, table)
        chosen = _chosen(part, candidates, needed=needed)
        if chosen is None and needed:
            raise EpisodesError(*_cannot_tell(part, columns))
        found[part] = chosen
        spent.add(chosen)
        if chosen is None and part == "step":
            notes.append("no column for steps: each row is one step, in the order of the table")
        elif chosen is not None and chosen != part:
            guessed.append(part)
        # A second column of times may be a feature. A second column for another role is suspicious.
        others = [name for name in candidates if name != chosen and part != "step"]
        if others and layout.features is None:
            shown = ", ".join(map(repr, others))
            notes.append(f"{shown} could also be the column that {_holds(part)}; read as a feature")
    several = {f"{part}_columns": _several(found[part], columns) for part in _SEVERAL}
    return Parts(**found, **several, guessed=tuple(guessed), notes=tuple(notes))  # type: ignore[arg-type]


def episode_columns(table: Table) -> tuple[str, ...]:
    """The columns that name a row's episode; what the other columns are does not matter here."""
    passed = table.layout.episode
    name = None if passed is ... else _joined("episode", passed)
    if name is None:
        name = _chosen("episode", _candidates("episode", table.columns, table), needed=True)
    if name is None:
        raise EpisodesError(*_cannot_tell("episode", table.columns))
    found = _several(name, table.columns)
    if not found:
        raise EpisodesError(*no_column("episode", name, table.columns))
    return found


def _passed(table: Table) -> dict[str, str | None]:
    """The columns that the user or the file names: for the episode, the step and so on."""
    columns, passed = table.columns, {part: getattr(table.layout, part) for part in _NAMES}
    found = {part: _joined(part, name) for part, name in passed.items() if name is not ...}
    for part, name in found.items():
        if part in _SEVERAL and name is not None and _several(name, columns):
            continue
        if name is None and part == "reward" and table.needs(part):
            message = f"behavior {table.judged.spec!r} needs a reward column; pass "
            raise EpisodesError(message, Argument("reward", _NAME))
        if name not in columns and (name is not None or part == "episode"):
            rows = (" (or ", Argument("step", None), " if the rows are in order)")
            told = no_column(part, name, columns)
            raise EpisodesError(*told, *(rows if part == "step" else ()))
    return found


def _named_alike(table: Table) -> dict[str, str | None]:
    """The columns that ``like`` used as episode, step and so on, if this table has them."""
    columns, layout = table.columns, table.layout
    if layout.like is None:
        return {}
    theirs = {part: getattr(layout.like.roles, part) for part in _NAMES}
    if layout.every is not None and theirs["step"] not in columns:
        theirs["step"] = theirs["step"].removesuffix(f"{ON_CLOCK}{layout.every}")
    if theirs["reward"] is not None and theirs["reward"] not in columns:
        theirs["reward"] = theirs["reward"].removeprefix(FROM_NEXT)
    found = {
        part: name
        for part, name in theirs.items()
        if name in columns or (part in _SEVERAL and _several(name, columns))
    }
    if theirs["reward"] is None and not table.needs("reward"):
        found["reward"] = None
    return found


def _joined(part: str, name: str | Sequence[str] | None) -> str | None:
    """The names of several columns, joined by commas into one name."""
    if name is None or isinstance(name, str):
        return name
    names = list(name)
    if part not in _SEVERAL or not names or not all(isinstance(one, str) for one in names):
        some = " or several" * (part in _SEVERAL)
        raise EpisodesError(Argument(part), f" needs the name of a column{some}, got {name!r}")
    return ",".join(names) + "," * (len(names) == 1 and part == "step")


def _several(name: str | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns in a name: one, or several joined by commas; empty if the table lacks any."""
    if name is None or name in columns:
        return () if name is None else (name,)
    parts = tuple(part.strip() for part in name.removesuffix(",").split(","))
    return parts if "," in name and all(part in columns for part in parts) else ()


def _candidates(part: str, columns: Sequence[str], table: Table) -> list[str]:
    """The columns whose names suggest that they are the ``part``, the most likely first."""
    listed = set(table.layout.features or ())
    if part == "step" and table.layout.like is not None:
        listed = set()  # times that only order the rows were a feature at the fit as well
    is_flag = part in _HOLDS

    def fits(name: str) -> bool:
        return name not in listed and (not is_flag or _holds_flags(table.read(name)))

    less_common = _LESS_COMMON[part] if table.needs(part) or part == "step" else ()
    counters = _COUNTERS if part == "step" else ()
    for names in (_NAMES[part], less_common, counters):
        alike = [name for known in names for name in columns if _plain(name) == known]
        found = [name for name in alike if name == part or fits(name)]
        if found:
            return found
    return []


def _chosen(part: str, candidates: Sequence[str], *, needed: bool) -> str | None:
    """The column with the usual name for the ``part`` (such as the step), or the only candidate."""
    best = [name for name in candidates if name == part]
    best = best or [name for name in candidates if _plain(name) == part] or list(candidates)
    if len(best) > 1:
        either = f"{', '.join(map(repr, best[:-1]))} or {best[-1]!r}"
        remedy = () if needed else (" or ", Argument(part, None))
        message = f"cannot tell which column {_holds(part)}, {either}; pass "
        raise EpisodesError(message, Argument(part, _NAME), *remedy)
    return best[0] if best else None


def no_column(part: str, name: str | None, columns: Sequence[str]) -> tuple[str | Argument, ...]:
    """The words of the error message for a column that the user named but that does not exist."""
    message = f"no {part} column {name!r} among {', '.join(columns)}; pass "
    return message, Argument(part, _NAME)


def _cannot_tell(part: str, columns: Sequence[str]) -> tuple[str | Argument, ...]:
    message = f"cannot tell which column {_holds(part)} among {', '.join(columns)}; pass "
    if part == "episode":
        return message, Argument(part, _NAME)
    judged = (" or ", Argument("behavior", _NAME), " with the column that a run is judged by")
    known = (", or ", Argument("outcome", _NAME), " with a column of its result")
    return message, Argument(part, _NAME), *judged, *known


def _holds(part: str) -> str:
    return _HOLDS.get(part, f"holds the {part}")


def _holds_flags(column: pl.Series) -> bool:
    """Whether all values are true or false; an airport's "terminal", for example, is not a flag."""
    numeric = column.dtype.is_integer() or column.dtype.is_float()
    return column.dtype == pl.Boolean or (numeric and column.is_in([0, 1]).all())


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())
