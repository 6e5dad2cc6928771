"""The model file of a monitor that judges runs by several numbers (behaviors)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._typing import AnyArray
from ontarget.episodes import Behavior
from ontarget.errors import ModelFileError, OntargetError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import Joint, goal_over
from ontarget.goal import Goal
from ontarget.modelfile._description import Description, target_from, target_json
from ontarget.modelfile.container import Container, write_container
from ontarget.modelfile.file import fitted_in, inspect_file, outcome_range, save, sections_of

_BEHAVIORS = "behaviors"


def save_any(joint: Joint, path: Path) -> None:
    """Write a monitor to a file, completely or not at all, with all its behaviors."""
    if joint.is_single:
        save(joint.first, path)
        return
    described = [
        {
            "name": name,
            "signal": joint.signals[name],
            "monitor": Description.header_of(fitted),
        }
        for name, fitted in joint.parts.items()
    ]
    sections = {
        _section(name, section): arrays
        for name, fitted in joint.parts.items()
        for section, arrays in sections_of(fitted).items()
    }
    goal = {"target": _goal_json(joint.target)} if isinstance(joint.target, Goal) else {}
    write_container(path, {_BEHAVIORS: described, **goal}, sections)


def load_any(
    path: Path,
    *,
    copy: bool | None = None,
    behavior: Behavior | Mapping[str, Behavior] | None = None,
) -> Joint:
    """The fitted monitor in a model file, whether it judges runs by one number or by several."""
    container = Container.open(path, copy=copy)
    if _BEHAVIORS not in container.header:
        return Joint.of(fitted_in(container, behavior))  # type: ignore[arg-type]
    given = behavior if isinstance(behavior, Mapping) else {}
    parts: dict[str, Fitted] = {}
    signals: dict[str, str | None] = {}
    try:
        for one in container.header[_BEHAVIORS]:
            name, signal = one["name"], one["signal"]
            good = isinstance(name, str) and isinstance(signal, str | None)
            if not good or not name or name in parts:  # a single behavior has an empty name
                raise ModelFileError("each behavior needs a different name, and a signal or null")
            part = _Part(container, name, one["monitor"])
            parts[name], signals[name] = fitted_in(part, given.get(name)), signal
        goal = container.header.get("target")
        if goal is None:
            return Joint(parts, signals)
        return Joint(parts, signals, goal_over(tuple(parts), _goal_from(goal)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, OntargetError) else repr(error)
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{container.name}: it does not contain a monitor of several behaviors ({said:.500})"
        ) from error


def inspect_any(path: Path) -> dict[str, Any]:
    """What `inspect_file` returns, for a file of one behavior or of several."""
    container = Container.open(path, copy=None)
    if _BEHAVIORS not in container.header:
        return inspect_file(path)
    container.verify()
    found = load_any(path)
    first, size = container.header[_BEHAVIORS][0]["monitor"], path.stat().st_size
    return {
        **first,
        _BEHAVIORS: {name: reading.spec for name, reading in found.readings.items()},
        "bytes": size,
        "bytes_per_step": size / found.first.horizon,
        "mapped_from": 0 if found.first.rehearsal is None else found.n_rehearsed,
        "outcomes": {
            name: outcome_range(np.concatenate([np.empty(0), *one.learned_outcomes]))
            for name, one in found.parts.items()
        },
        **({} if found.target is None else {"target": str(found.target)}),
    }


def _goal_json(goal: Goal) -> list[dict[str, Any]]:
    """A goal as plain values: its alternatives, each with a target for some behaviors by name."""
    return [{name: target_json(target) for name, target in box} for box in goal.boxes]


def _goal_from(boxes: list[dict[str, Any]]) -> Goal:
    """The goal that `_goal_json` wrote."""
    every = [Goal({name: target_from(one) for name, one in box.items()}) for box in boxes]
    return reduce(or_, every)


def _section(behavior: str, section: str) -> str:
    return f"{behavior}.{section}"


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of a model file for one of several behaviors (numbers that runs are judged by)."""

    container: Container
    behavior: str
    header: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The path of the file, and which of several behaviors this part is for."""
        return f"{self.container.name}, behavior {self.behavior}"

    def section(self, name: str) -> dict[str, AnyArray]:
        """The arrays of one section of the file, for one of several behaviors."""
        return self.container.section(_section(self.behavior, name))

    def release(self, name: str) -> None:
        """Give the memory of a section back to the system; the section can be read again."""
        self.container.release(_section(self.behavior, name))
