"""The description of a monitor at the start of its file; every field is checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME, scale_of
from ontarget._typing import BoolArray, FloatArray
from ontarget.episodes import Schema
from ontarget.episodes.history import History, history_from, state_width
from ontarget.episodes.store import Roles
from ontarget.errors import ModelFileError
from ontarget.fitted.blocks import Block
from ontarget.fitted.choices import Choices
from ontarget.fitted.fitted import Fitted
from ontarget.models.registry import check_kind, kind_of
from ontarget.target import CLOSED_NAME, Target

_PARTS, _PAPER_PARTS = ("learn", "assure"), ("train", "calibrate", "assure")
_MOST_IMPOSSIBLE = 16
_GROUP_TYPES = (str, int, float, bool)


@dataclass(frozen=True, eq=False)
class Description:
    """What the header of a model file says about its monitor, as checked values."""

    schema: Schema
    history: History
    behavior: str
    horizon: int
    horizon_declared: bool
    grid: float
    unrounded: bool
    pace: float
    impossible: FloatArray
    reward_bounds: tuple[float, float]
    blocks: tuple[Block, ...]
    kinds: tuple[str | None, ...]
    groups: tuple[Any, ...] | None
    min_calibration: int
    may_miss: BoolArray
    parameters: dict[str, Any]
    seed: int
    sizes: dict[str, int]
    roles: Roles
    chosen: Choices
    censoring: str
    target: Target | None

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> Self:
        """The description of a monitor in a file's header; an error says which field is wrong."""
        schema = Schema.from_json(_list(header, "features"))
        history = _history(header["history"], schema)
        horizon = _whole("horizon", header["horizon"], least=1)
        blocks = tuple(_block(i, one, horizon) for i, one in enumerate(_list(header, "blocks")))
        kinds = tuple(_text("kinds", one, optional=True) for one in _list(header, "kinds"))
        for kind in {kind for kind in kinds if kind is not None}:
            check_kind(kind)
        if len(kinds) != len(blocks) or not blocks:
            raise ModelFileError(
                "the header needs at least one entry in 'blocks', and as many in 'kinds'"
            )
        grid = _number("grid", header["grid"])
        scale_of(grid)
        if grid > LARGEST_OUTCOME:
            raise ModelFileError(
                f"'grid' in the header needs a number above 0, up to 1e300, got {grid}"
            )
        parameters = _object(header, "parameters")
        _text("policy", parameters["policy"])
        return cls(
            schema=schema,
            history=history,
            behavior=str(_text("behavior", header["behavior"])),
            horizon=horizon,
            horizon_declared=_flag("horizon_declared", header["horizon_declared"]),
            grid=grid,
            unrounded=_flag("unrounded", header.get("unrounded", False)),  # absent in 0.2
            pace=_number("pace", header["pace"]),
            impossible=_impossible(_list(header, "impossible")),
            reward_bounds=_bounds(_list(header, "reward_bounds")),
            blocks=blocks,
            kinds=kinds,
            groups=None if header["groups"] is None else _groups(_list(header, "groups")),
            min_calibration=_whole("min_calibration", header["min_calibration"], least=1),
            may_miss=_may_miss(_list(header, "may_miss"), state_width(schema, history)),
            parameters=parameters,
            seed=_whole("seed", header["seed"], least=-(2**63), most=None),
            sizes=_sizes(_object(header, "sizes")),
            roles=_roles(_object(header, "columns")),
            chosen=Choices.from_json(_object(header, "chosen")),
            censoring=str(_text("censoring", header["censoring"])),
            target=target_from(header["target"]) if "target" in header else None,
        )

    @staticmethod
    def header_of(fitted: Fitted) -> dict[str, Any]:
        """The header of the file for a fitted monitor, as plain values; `of` reads it."""
        models = [fitted.models[block.index] for block in fitted.blocks]
        trained = fitted.trained
        return {
            "features": fitted.schema.to_json(),
            "history": fitted.history.to_json(),
            "behavior": fitted.behavior.spec,
            "horizon": fitted.horizon,
            "horizon_declared": fitted.horizon_declared,
            "grid": fitted.grid,
            "unrounded": fitted.unrounded,
            "pace": fitted.pace,
            "impossible": fitted.impossible.tolist(),
            "reward_bounds": [one if math.isfinite(one) else None for one in fitted.reward_bounds],
            "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in fitted.blocks],
            "kinds": [None if model is None else kind_of(model) for model in models],
            "groups": None if fitted.groups is None else list(fitted.groups),
            "min_calibration": fitted.min_calibration,
            "may_miss": fitted.may_miss.tolist(),
            "parameters": dict(trained.parameters),
            "seed": trained.seed,
            "sizes": dict(trained.sizes),
            "columns": asdict(trained.roles),
            "chosen": trained.chosen.to_json(),
            "censoring": trained.censoring,
            **({} if trained.target is None else {"target": target_json(trained.target)}),
        }

    @property
    def n_groups(self) -> int:
        """How many groups of runs are calibrated separately; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)


def target_json(target: Target) -> list[Any]:
    """A target as plain values: the bounds of each interval, and which of them belong to it."""
    return [
        [*(one if math.isfinite(one) else None for one in (c.lower, c.upper)), *c[2:]]
        for c in target
    ]


def target_from(intervals: list[list[Any]]) -> Target:
    """The target that `target_json` wrote."""
    found = Target.empty()
    for low, high, low_closed, high_closed in intervals:
        ends = _bounds([low, high], "target")
        closed = _flag("target", low_closed), _flag("target", high_closed)
        found = found | Target(*ends, closed=CLOSED_NAME[closed])
    return found


def _whole(name: str, value: Any, *, least: int = 0, most: int | None = 2**31 - 1) -> int:
    if type(value) is not int or value < least or (most is not None and value > most):
        upto = "up" if most is None else f"to {most}"
        raise ModelFileError(
            f"'{name}' in the header needs a whole number from {least} {upto}, got {value!r:.80}"
        )
    return value


def _history(stored: Any, schema: Schema) -> History:
    try:
        return history_from(stored, schema)
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"'history' in the header does not fit the features ({error}), got {stored!r:.80}"
        ) from error


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise ModelFileError(f"'{name}' in the header needs a number, got {value!r:.80}")
    return float(value)


def _impossible(values: list[Any]) -> FloatArray:
    """The outcomes that the header lists as impossible, checked: a few numbers, ascending."""
    found = read_only(np.array([_number("impossible", one) for one in values], dtype=np.float64))
    rising = found.size <= _MOST_IMPOSSIBLE and bool((np.diff(found) > 0.0).all())
    if not (rising and (np.abs(found) <= LARGEST_OUTCOME).all()):
        raise ModelFileError(
            f"'impossible' in the header needs up to {_MOST_IMPOSSIBLE} outcomes, ascending"
        )
    return found


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ModelFileError(f"'{name}' in the header needs true or false, got {value!r:.80}")
    return value


def _text(name: str, value: Any, *, optional: bool = False) -> str | None:
    if not isinstance(value, str) and not (optional and value is None):
        raise ModelFileError(f"'{name}' in the header needs a text, got {value!r:.80}")
    return value


def _list(header: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(header[name], list):
        raise ModelFileError(f"'{name}' in the header needs a list, got {header[name]!r:.80}")
    found: list[Any] = header[name]
    return found


def _object(header: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(header[name], dict):
        raise ModelFileError(f"'{name}' in the header needs an object, got {header[name]!r:.80}")
    return dict(header[name])


def _block(index: int, ends: Any, horizon: int) -> Block:
    start, stop, train_start, train_stop = (
        _whole("blocks", end, most=horizon) for end in (ends if isinstance(ends, list) else [ends])
    )
    if start >= stop or train_start >= train_stop:
        raise ModelFileError(
            f"block {index} in the header needs to start before it ends, got {ends!r:.80}"
        )
    return Block(index, start, stop, train_start, train_stop)


def _bounds(ends: list[Any], name: str = "reward_bounds") -> tuple[float, float]:
    low, high = ends
    least = -math.inf if low is None else _number(name, low)
    most = math.inf if high is None else _number(name, high)
    if least > most:
        raise ModelFileError(
            f"'{name}' in the header needs the lower number first, got {ends!r:.80}"
        )
    return least, most


def _groups(names: list[Any]) -> tuple[Any, ...]:
    """The names of the groups of runs, checked."""
    # All names must have the same type, so that one array can contain them.
    kinds = {type(name) for name in names}
    if len(kinds) != 1 or not kinds <= set(_GROUP_TYPES) or len(set(names)) != len(names):
        raise ModelFileError(f"'groups' in the header needs different names, got {names!r:.80}")
    if kinds == {int} and not all(-(2**63) <= name < 2**63 for name in names):
        raise ModelFileError("'groups' in the header needs numbers of at most 64 bits")
    return tuple(names)


def _may_miss(flags: list[Any], width: int) -> BoolArray:
    if len(flags) != width:
        raise ModelFileError(
            f"'may_miss' in the header needs one flag for each of {width} features, got "
            f"{len(flags)}"
        )
    return read_only(np.array([_flag("may_miss", one) for one in flags], dtype=np.bool_))


def _sizes(sizes: dict[str, Any]) -> dict[str, int]:
    """How many episodes were used for what, by name: learn (models) and assure (promises)."""
    names = _PARTS if "learn" in sizes else _PAPER_PARTS
    return {name: _whole("sizes", sizes[name]) for name in names}


def _roles(columns: dict[str, Any]) -> Roles:
    roles = Roles(**columns)
    for one in fields(Roles):
        if one.name == "first_step":
            _whole("first_step", roles.first_step, least=-(2**63), most=2**63 - 1)
        else:
            optional = one.name not in ("episode", "step")
            _text(one.name, getattr(roles, one.name), optional=optional)
    return roles
