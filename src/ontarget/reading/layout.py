"""How to read a table: the user's options, completed from a file or from other episodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import EllipsisType
from typing import Final, Protocol, TypeAlias, TypedDict

from ontarget.episodes.behavior import Behavior
from ontarget.episodes.censoring import Censored
from ontarget.episodes.judged import JudgedBy, Reading
from ontarget.episodes.schema import Schema
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, EpisodesError

# How a role records that steps are intervals of time (time@1h), that rewards were made from an
# outcome column (outcome:result), or that rewards were taken from the next row (next:hours).
ON_CLOCK: Final = "@"
AN_OUTCOME: Final = "outcome:"
FROM_NEXT: Final = "next:"

# The name of a column, None for no column, or ... if it is to be found by its name.
_Part: TypeAlias = str | EllipsisType | None
_Parts: TypeAlias = _Part | Sequence[str]


class Alike(Protocol):
    """What can be passed as ``like=``: episodes or a monitor, to read new episodes alike."""

    @property
    def schema(self) -> Schema:
        """The features of a state."""

    @property
    def behavior(self) -> Behavior:
        """The number that an episode is judged by."""

    @property
    def readings(self) -> Mapping[str, Reading]:
        """Each named behavior and its column; empty if there is only one."""

    @property
    def horizon(self) -> int:
        """The number of steps of a complete episode."""

    @property
    def horizon_declared(self) -> bool:
        """Whether the user declared the horizon."""

    @property
    def grid(self) -> float:
        """Outcomes are rounded to multiples of this number."""

    @property
    def roles(self) -> Roles:
        """Which column was the step, which the reward, and so on."""

    def only(self, name: str) -> Alike:
        """The same, judged by only one of several behaviors."""


class FrameOptions(TypedDict, total=False):
    """The options of `Episodes.from_frame` and `Episodes.read`."""

    episode: str | Sequence[str]
    step: str | Sequence[str] | None
    reward: str | None
    reward_since_last: bool
    features: Sequence[str] | None
    drop: Sequence[str]
    times: Sequence[str]
    every: str | None
    outcome: str | None
    behavior: JudgedBy
    truncated: str | None
    terminated: str | None
    group: str | None
    horizon: int | None
    categorical: Sequence[str]
    censored: Censored
    first_step: int | None
    like: Alike | None
    stop_probability: str | None
    stop_bound: float | None
    cutoff: str | None
    intervened: str | None
    target: str | None


@dataclass(frozen=True)
class Layout:
    """How to read a table: the options of `FrameOptions`, with defaults for those not given."""

    episode: _Parts = ...
    step: _Parts = ...
    reward: _Part = ...
    reward_since_last: bool = False
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    times: Sequence[str] = ()
    every: str | None = None
    outcome: str | None = None
    behavior: JudgedBy = "sum"
    truncated: _Part = ...
    terminated: _Part = ...
    group: _Part = ...
    horizon: int | None = None
    categorical: Sequence[str] = ()
    censored: Censored = "refuse"
    first_step: int | None = None
    like: Alike | None = None
    stop_probability: str | None = None
    stop_bound: float | None = None
    cutoff: str | None = None
    intervened: _Part = ...
    target: str | None = None
    # Features that are known before reading, with their categories: from the file or from `like`.
    schema: Schema | None = None
    # Whether the horizon was declared, rather than taken from the longest episode.
    declared: bool = True


def layout_of(options: FrameOptions, known: Layout | None = None) -> Layout:
    """How to read a table, by these options."""
    allowed = {item.name for item in fields(Layout)} - {"schema", "declared"}
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise EpisodesError(
            f"there is no option {unknown[0]!r}; the options are {', '.join(sorted(allowed))}"
        )
    layout = replace(known or Layout(), **options)
    like = layout.like
    if like is not None:
        if not all(hasattr(like, part) for part in ("schema", "readings", "roles")):
            raise EpisodesError(
                Argument("like"), f" needs episodes or a fitted monitor, got {type(like).__name__}"
            )
        _refuse_unlike(options, like.schema)
        layout = replace(
            layout,
            every=_every_alike(options, like.roles),
            outcome=_outcome_alike(options, like.roles),
            reward_since_last=options.get("reward_since_last", _is_from_next(like.roles)),
            schema=like.schema,
            features=like.schema.names,
            behavior=options.get("behavior", like.readings or like.behavior),
            horizon=options.get("horizon", like.horizon),
            declared=like.horizon_declared,
        )
    elif "features" in options or "categorical" in options:
        layout = replace(layout, schema=None)
    elif layout.drop and layout.schema is not None:
        kept = tuple(one for one in layout.schema.features if one.name not in layout.drop)
        layout = replace(layout, schema=Schema(kept), features=tuple(one.name for one in kept))
    return replace(layout, declared=layout.declared or "horizon" in options)


def _refuse_unlike(options: FrameOptions, schema: Schema) -> None:
    """Refuse features other than those of the episodes or monitor passed as ``like``."""
    asked = options.get("features")
    if asked is not None and set(asked) != set(schema.names):
        raise EpisodesError(
            Argument("features"),
            f" must be the same as in the episodes of the fit ({', '.join(schema.names)}), "
            f"got {', '.join(asked)}; leave the argument out",
        )
    names = [schema.names[i] for i in schema.categorical]
    stray = [name for name in options.get("categorical", ()) if name not in names]
    if stray:
        raise EpisodesError(
            Argument("categorical"),
            " must be the same as in the episodes of the fit "
            f"({', '.join(names) or 'none'}), got {stray[0]!r}; leave the argument out",
        )


def _every_alike(options: FrameOptions, roles: Roles) -> str | None:
    """The interval of time (``every``) of the episodes passed as ``like``."""
    step, sign, every = roles.step.rpartition(ON_CLOCK)
    theirs = every if sign and step else None
    passed = options.get("every", theirs)
    if passed != theirs:
        told = f"{theirs!r}" if theirs else "not given"
        raise EpisodesError(
            Argument("every"),
            f" must be the same as for the episodes of the fit ({told}); leave it out",
        )
    return theirs


def _outcome_alike(options: FrameOptions, roles: Roles) -> str | None:
    """The outcome column of the episodes passed as ``like``, unless the user chooses otherwise."""
    if "outcome" in options or "reward" in options or "behavior" in options:
        return options.get("outcome")
    named = roles.reward is not None and roles.reward.startswith(AN_OUTCOME)
    return str(roles.reward).removeprefix(AN_OUTCOME) if named else None


def _is_from_next(roles: Roles) -> bool:
    """Whether each row's reward was taken from the next row (option ``reward_since_last``)."""
    return roles.reward is not None and roles.reward.startswith(FROM_NEXT)


def kept_columns(layout: Layout, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to read: all except those of the option ``drop``."""
    if isinstance(layout.drop, str):
        raise EpisodesError(
            Argument("drop"), f" needs a list of columns, got the text {layout.drop!r}"
        )
    unknown = [name for name in layout.drop if name not in columns]
    if unknown:
        raise EpisodesError(
            Argument("drop"),
            f" names the column {unknown[0]!r}, but the columns are {', '.join(columns)}",
        )
    return tuple(name for name in columns if name not in set(layout.drop))


def feature_names(
    layout: Layout,
    columns: Sequence[str],
    early: Collection[str | None],
    late: Collection[str | None],
) -> tuple[str, ...]:
    """The columns that are features: those that the user names, or else all remaining columns."""
    names = (
        tuple(name for name in columns if name not in early and name not in late)
        if layout.features is None
        else tuple(layout.features)
    )
    known = set(columns)
    for name in (*names, *layout.categorical):
        if name not in known:
            raise EpisodesError(f"no feature column {name!r} among {', '.join(columns)}")
    stray = [name for name in layout.categorical if name not in names]
    if stray:
        raise EpisodesError(
            Argument("categorical"),
            f" needs names of features ({', '.join(names)}), got {stray[0]!r}",
        )
    unfit = [name for name in names if name in late]
    if unfit:
        raise EpisodesError(
            f"feature {unfit[0]!r} is known only after acting, so it cannot be part of a state; "
            f"leave it out of features"
        )
    return names
