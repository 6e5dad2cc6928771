"""Contracts: a monitor, a target and an alarm rule, under a name and a version."""

from __future__ import annotations

import math
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ontarget.errors import InputError, OntargetError
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule, RuledOut, rule_of
from ontarget.modelfile.container import Container
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service.messages import Name
from ontarget.target import Target

_MOST_CHARACTERS = 200  # of a target in a contract

TargetText: TypeAlias = Annotated[
    str, Meta(max_length=_MOST_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Unit: TypeAlias = Annotated[str, Meta(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*$")]

_MOST_MODEL_BYTES = 1 << 30


class ContractSpec(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True
):
    """A contract as a person writes it, in a TOML file or in a request.

    Attributes
    ----------
    name
        The name that agents send.
    model
        The model file: a path. It must be a regular file of at most 1 GiB.
    target
        The outcomes that count as success: LO:HI, LO: or :HI, or a goal over several behaviors such
        as ``return >= 200 & energy <= 50``. Without it, the service fills in the target that the
        model was fitted with. A run may have its own target instead.
    false_alarm_rate, alarm_below, ruled_out
        The alarm, as in ``ontarget watch``; give one of the three. The default is a promised
        false-alarm rate of 0.05.
    confidence, for_steps, clear_above, calibration
        The same as these options of ``ontarget watch``.
    silent_after
        Raise an alarm if an agent reports nothing for this many seconds during a run.
    unit
        The unit of the behavior, such as ``minutes``, for the web page. For a goal over several
        behaviors, a mapping from each behavior's name to its unit.
    model_sha256, recalibrated_from
        The checksum of the model file, and that of the file it was recalibrated from. The service
        fills these in.
    """

    name: Name
    model: str
    target: TargetText = ""
    false_alarm_rate: float | None = None
    alarm_below: float | None = None
    ruled_out: float | None = None
    confidence: float | None = None
    for_steps: int = 1
    clear_above: float | None = None
    calibration: Literal["target", "common"] = "target"
    silent_after: float | None = None
    unit: Unit | dict[Name, Unit] = ""
    model_sha256: str = ""
    recalibrated_from: str = ""

    @property
    def rule(self) -> AlarmRule:
        """The alarm rule that this contract describes."""
        given = (self.alarm_below, self.false_alarm_rate, self.ruled_out)
        if sum(one is not None for one in given) > 1:
            raise InputError(
                f"contract {self.name!r} needs one of alarm_below, false_alarm_rate and ruled_out"
            )
        if self.ruled_out is not None:
            return RuledOut(str(self.ruled_out), self.for_steps, self.confidence)
        promised = None if self.alarm_below is not None else str(self.false_alarm_rate or "0.05")
        return rule_of(
            alarm_below=self.alarm_below,
            false_alarm_rate=promised,
            confidence=self.confidence,
            for_steps=self.for_steps,
            clear_above=self.clear_above,
        )


def check_model(path: Path) -> None:
    """Raise an error unless this may be a model file, before all of it is read."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"model {str(path)!r} needs a regular file")
    if found.st_size > _MOST_MODEL_BYTES:
        raise InputError(
            f"model {str(path)!r} needs at most {_MOST_MODEL_BYTES:,} bytes, got {found.st_size:,}"
        )
    Container.open(path)  # whose header must fit the file's size


def target_of(name: str, monitor: GoalMonitor) -> str:
    """The target that the monitor was fitted with, as a contract writes it."""
    target = monitor.target
    if target is None:
        raise InputError(
            f"contract {name!r} needs `target`, because its model was fitted without one; give the "
            "contract a target, or fit the model with one"
        )
    texts = [_written(target)] if isinstance(target, Target) else [str(target), _conditions(target)]
    for text in texts:
        with suppress(OntargetError):
            if type(target).parse(text) == target and len(text) <= _MOST_CHARACTERS:
                return text
    raise InputError(
        f"contract {name!r} needs `target`, because no text LO:HI stands for that of its model, "
        f"{target}, exactly; give the contract a target with closed bounds"
    )


def _conditions(goal: Goal) -> str:
    return " | ".join(
        " & ".join(f"{name} in {_written(target)}" for name, target in box) for box in goal.boxes
    )


def _written(target: Target) -> str:
    """The intervals of a target as LO:HI, LO: or :HI, joined by commas; all bounds are closed."""
    return ",".join(f"{_digits(one.lower)}:{_digits(one.upper)}" for one in target.components)


def _digits(bound: float) -> str:
    """A bound with all its digits; empty if it is infinite."""
    short = f"{bound:g}"
    return "" if math.isinf(bound) else short if float(short) == bound else repr(bound)


def says_the_same(asked: ContractSpec, newest: ContractSpec) -> bool:
    """Whether a new spec describes the same contract as the newest version does."""
    own = newest.recalibrated_from or newest.model_sha256
    same = msgspec.structs.replace(
        newest, model=asked.model, model_sha256=own, recalibrated_from="", unit=asked.unit
    )
    return asked == same


def check_unit(name: str, unit: Unit | dict[Name, Unit], monitor: GoalMonitor) -> None:
    """Raise an error if ``unit`` does not fit the behaviors of the monitor."""
    known = ", ".join(monitor.readings)
    if isinstance(unit, str):
        if unit and known:
            raise InputError(
                f"unit of contract {name!r} needs a mapping from each behavior ({known}) to its "
                f"unit, got {unit!r}"
            )
        return
    if not known:
        raise InputError(f"unit of contract {name!r} needs a text such as 'minutes', got {unit!r}")
    for one in unit:
        if one not in monitor.readings:
            raise InputError(f"unit of contract {name!r} needs one of {known}, got {one!r}")


def read_contracts(path: Path) -> list[ContractSpec]:
    """The contracts in a TOML file, one table ``[[contract]]`` each."""
    try:
        found: Mapping[str, Any] = tomllib.loads(path.read_text())
        specs = msgspec.convert(found.get("contract", []), list[ContractSpec])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{path} is not a valid file of contracts: {error}") from error
    if not specs:
        raise InputError(f"{path} needs at least one table [[contract]]")
    try:
        for spec in filter(lambda one: one.target, specs):
            (Goal if Goal.is_one(spec.target) else Target).parse(spec.target)
    except OntargetError as error:
        raise InputError(f"{path}: {error}") from error
    return [msgspec.structs.replace(one, model=str(path.parent / one.model)) for one in specs]
