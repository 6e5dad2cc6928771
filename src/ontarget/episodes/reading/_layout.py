"""How to read a table: the options of a user, filled in from a file or from earlier episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, TypedDict

from ontarget.episodes._building import Censored
from ontarget.episodes._store import Roles
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.schema import Schema
from ontarget.errors import Argument, EpisodesError, Placeholder

__all__ = [
    "Alike",
    "FrameOptions",
    "Layout",
    "feature_names",
    "layout_of",
    "named_alike",
    "roles_of",
]

_NAME = Placeholder("NAME")


class Alike(Protocol):
    """What new episodes can be read like: earlier ones, or a monitor that was fitted on some."""

    @property
    def schema(self) -> Schema:
        """The features of a state, with their dictionaries."""
        ...

    @property
    def behavior(self) -> Behavior:
        """What an episode is judged by."""
        ...

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is complete."""
        ...

    @property
    def horizon_declared(self) -> bool:
        """Whether that was declared, not taken from the longest run seen."""
        ...

    @property
    def grid(self) -> float:
        """The spacing to which outcomes are rounded."""
        ...

    @property
    def roles(self) -> Roles:
        """Which column plays which part."""
        ...


class FrameOptions(TypedDict, total=False):
    """The options of `Episodes.from_frame` and `Episodes.read`."""

    episode: str
    step: str | None
    reward: str | None
    features: Sequence[str] | None
    behavior: str | Behavior
    truncated: str | None
    terminated: str | None
    group: str | None
    horizon: int | None
    categorical: Sequence[str]
    censored: Censored
    first_step: int | None
    like: Alike | None


@dataclass(frozen=True)
class Layout:
    """What `FrameOptions` leave open, filled in."""

    episode: str = "episode"
    step: str | None = "step"
    reward: str | None = "reward"
    features: Sequence[str] | None = None
    behavior: str | Behavior = "sum"
    truncated: str | None = "truncated"
    terminated: str | None = "terminated"
    group: str | None = "group"
    horizon: int | None = None
    categorical: Sequence[str] = ()
    censored: Censored = "refuse"
    first_step: int | None = None
    like: Alike | None = None
    # Features known beforehand, with their dictionaries: from the file, or from `like`.
    schema: Schema | None = None
    # Whether the horizon, if there is one, was declared rather than inferred by someone before.
    declared: bool = True


def layout_of(options: FrameOptions, known: Layout | None = None) -> Layout:
    """The layout that the options describe, on top of what a file says of itself."""
    allowed = {item.name for item in fields(Layout)} - {"schema", "declared"}
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise EpisodesError(
            f"no option {unknown[0]!r}; the options are {', '.join(sorted(allowed))}"
        )
    layout = replace(known or Layout(), **options)
    like = layout.like
    if like is not None:
        if not all(hasattr(like, part) for part in ("schema", "behavior", "grid", "roles")):
            raise EpisodesError(
                f"like needs episodes or a fitted monitor, got {type(like).__name__}"
            )
        layout = replace(
            layout,
            schema=like.schema,
            features=like.schema.names,
            behavior=options.get("behavior", like.behavior),
            horizon=options.get("horizon", like.horizon),
            declared=like.horizon_declared,
        )
    elif "features" in options or "categorical" in options:
        layout = replace(layout, schema=None)
    return replace(layout, declared=layout.declared or "horizon" in options)


def roles_of(layout: Layout, columns: tuple[str, ...], behavior: Behavior) -> Roles:
    """Which column plays which part; the flags and the group only where they are there."""
    usual = Layout()
    found: dict[str, str | None] = {}
    for part in ("episode", "step", "reward", "truncated", "terminated", "group"):
        name = getattr(layout, part)
        optional = name == getattr(usual, part) and (
            part in ("truncated", "terminated", "group") or (part == "reward" and behavior.told)
        )
        if name is None or name in columns:
            found[part] = name
        elif optional:
            found[part] = None
        else:
            message = f"no {part} column {name!r} among {', '.join(columns)}; pass "
            rows = (" (or ", Argument("step", None), " if the rows stand in order)")
            raise EpisodesError(message, Argument(part, _NAME), *(rows if part == "step" else ()))
    if found["reward"] is None and not behavior.told:
        raise EpisodesError(
            f"behavior {behavior.spec!r} needs a reward column; pass ", Argument("reward", _NAME)
        )
    if behavior.column is not None and behavior.column not in columns:
        raise EpisodesError(
            f"no behavior column {behavior.column!r} among {', '.join(columns)}; pass ",
            Argument("behavior", _NAME),
        )
    return Roles(
        episode=layout.episode,
        step=layout.step or "step",
        reward=found["reward"],
        truncated=found["truncated"],
        terminated=found["terminated"],
        group=found["group"],
    )


def named_alike(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """Where no column has the usual name of a part, that of the episodes these are read like."""
    if layout.like is None:
        return layout
    usual, theirs = Layout(), layout.like.roles
    parts = ("episode", "step", "reward", "truncated", "terminated", "group")
    named = {
        part: getattr(theirs, part)
        for part in parts
        if getattr(layout, part) == getattr(usual, part)
        and getattr(layout, part) not in columns
        and getattr(theirs, part) in columns
    }
    return replace(layout, **named)


def feature_names(
    layout: Layout, columns: tuple[str, ...], roles: Roles, behavior: Behavior
) -> tuple[str, ...]:
    parts = {
        roles.episode,
        layout.step,
        roles.reward,
        roles.truncated,
        roles.terminated,
        roles.group,
        behavior.column,
    }
    names = (
        tuple(name for name in columns if name not in parts)
        if layout.features is None
        else tuple(layout.features)
    )
    for name in (*names, *layout.categorical):
        if name not in columns:
            raise EpisodesError(f"no feature column {name!r} among {', '.join(columns)}")
    stray = [name for name in layout.categorical if name not in names]
    if stray:
        raise EpisodesError(
            f"categorical needs names of features ({', '.join(names)}), got {stray[0]!r}"
        )
    spent = {roles.reward, roles.truncated, roles.terminated, behavior.column}
    late = [name for name in names if name in spent]
    if late:
        raise EpisodesError(
            f"feature {late[0]!r} is known only after acting, so no state may hold it; "
            "leave it out of features"
        )
    return names
