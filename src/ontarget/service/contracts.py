"""Contracts: a monitor, a target and an alarm rule, under a name and a version."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import stat
import threading
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ontarget._arguments import usable_path
from ontarget.errors import InputError, ModelFileError, OntargetError, StoreError
from ontarget.fitted.fitted import Fitted
from ontarget.goal import Goal
from ontarget.live.fleet import FleetWatch
from ontarget.live.rules import AlarmRule, RuledOut, rule_of
from ontarget.modelfile.container import Container
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service._export import Outline
from ontarget.service._strangers import Strangers
from ontarget.service.messages import Name
from ontarget.service.store import Store, reserve
from ontarget.target import Target

_MOST_CHARACTERS = 200  # of a target in a contract

TargetText: TypeAlias = Annotated[
    str, Meta(max_length=_MOST_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Unit: TypeAlias = Annotated[str, Meta(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*$")]

_MOST_MODEL_BYTES = 1 << 30
_MOST_TARGETS = 1_000  # of the runs' own, per contract: each is set up once and kept


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


class ClosedError(InputError):
    """A contract takes no steps, because this version of ontarget cannot load its model."""


@dataclass(slots=True)
class Held:
    """A contract in use: the loaded monitor, and one fleet for each target.

    If this version of ontarget cannot load the model, the contract is closed: ``loaded`` is None,
    and ``closed`` says why.
    """

    id: int
    version: int
    spec: ContractSpec
    loaded: GoalMonitor | None
    created_at: float
    outline: Outline
    closed: str = ""
    fleets: dict[str, FleetWatch] = field(default_factory=dict)
    strangers: Strangers = field(default_factory=Strangers)

    @property
    def monitor(self) -> GoalMonitor:
        """The loaded monitor; a `ClosedError` if the contract is closed."""
        if self.loaded is None:
            raise self.refusal
        return self.loaded

    @property
    def refusal(self) -> ClosedError:
        """The error for steps of this contract, if it is closed."""
        return ClosedError(f"contract {self.label} is closed: {self.closed}")

    @property
    def label(self) -> str:
        """The contract's name and version as text, such as ``deliveries@2``."""
        return f"{self.spec.name}@{self.version}"

    def fleet(self, target: str) -> FleetWatch:
        """What follows all runs with this target; it is made at the first call and kept."""
        found = self.fleets.get(target)
        if found is None:
            if len(self.fleets) >= _MOST_TARGETS:
                raise InputError(
                    f"contract {self.spec.name!r} has {_MOST_TARGETS:,} targets already, the most "
                    f"that a service allows; use one of those"
                )
            found = self.fleets[target] = self._made(target)
        return found

    @property
    def one_sided(self) -> str:
        """Why p of the contract's target has nothing to learn from; empty if it has something.

        It is empty too if the contract is closed.
        """
        if self.closed:
            return ""
        found = self.monitor.contracts.one_sided(self._asked(self.spec.target))
        return "; ".join(dict.fromkeys(filter(None, found)))

    @property
    def fitted(self) -> Fitted:
        """The monitor's fitted models; if it has several behaviors, those of the first one."""
        return self.monitor.contracts.fitted

    def _made(self, target: str) -> FleetWatch:
        """A new, compiled fleet for this target, without runs."""
        return self.monitor.fleet(
            self._asked(target), alarm=self.spec.rule, calibration=self.spec.calibration
        )

    def _asked(self, target: str) -> Any:
        """The target, or for several behaviors the goal, that this text describes."""
        return Goal.parse(target) if self.monitor.readings else Target.parse(target)

    def drop(self, target: str, key: str) -> None:
        """Drop the run ``key`` with this target from memory; it stays in the database."""
        fleet = self.fleets.get(target)
        if fleet is not None and key in fleet:
            fleet.leave([key])


class HeldContracts:
    """All contracts of a service.

    New runs get the newest version of a contract; runs that are under way keep the version that
    they began with.

    Parameters
    ----------
    store
        The store that keeps the contracts.
    folder
        The folder for copies of the model files, so that old runs keep the model they began with.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._held: dict[int, Held] = {}
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self.reload()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all contracts; the default contract comes first."""
        return tuple(self._newest)

    def reload(self) -> None:
        """Read the contracts that another process has added to the database."""
        with self._store.database.read() as at:
            rows = at.rows("SELECT name, id FROM contracts ORDER BY id")
        for name, number in rows:
            self._newest[name] = number

    def all(self) -> list[Held]:
        """The newest version of each contract."""
        return [self.held(number) for number in self._newest.values()]

    def named(self, name: str | None) -> Held:
        """The newest version of the contract with this name; without a name, the only contract."""
        if name is None:
            if len(self._newest) != 1:
                raise InputError(f"`contract` needs a name; the contracts are: {self._listed()}")
            name = next(iter(self._newest))
        if name not in self._newest:
            self.reload()
        if name not in self._newest:
            raise InputError(f"`contract` needs one of {self._listed()}, got {name!r}")
        return self.held(self._newest[name])

    def version(self, name: str, version: int) -> Held:
        """The given version of the contract with this name."""
        with self._store.database.read() as at:
            sql = "SELECT id FROM contracts WHERE name = ? AND version = ?"
            rows = at.rows(sql, (name, version))
        if not rows:
            raise InputError(f"contract {name!r} has no version {version}")
        return self.held(int(rows[0][0]))

    def held(self, number: int) -> Held:
        """The contract with this number in the database; its model is loaded at the first call."""
        with self._lock:  # two of one contract would each know half of its runs
            return self._opened(number)

    def _opened(self, number: int) -> Held:
        found = self._held.get(number)
        if found is None:
            with self._store.database.read() as at:
                sql = "SELECT version, spec, created_at FROM contracts WHERE id = ?"
                rows = at.rows(sql, (number,))
            if not rows:
                raise StoreError(f"there is no contract {number}")
            version, text, created_at = rows[0]
            spec = msgspec.json.decode(text, type=ContractSpec)
            path, monitor, closed = self._copy(spec.model_sha256), None, ""
            try:
                monitor = GoalMonitor.load(path)
                outline = Outline.of(monitor)
            except ModelFileError as error:
                listed = Outline.listed(path)
                if listed is None:  # the file is missing or damaged
                    raise
                outline, closed = listed, str(error)
            found = Held(number, int(version), spec, monitor, created_at, outline, closed)
            self._held[number] = found
        return found

    def add(self, spec: ContractSpec, *, at: float) -> Held:
        """Add a contract as a new version, and return it.

        If the newest version under this name is the same, nothing is added, and that version is
        returned. A different unit alone makes no new version, because units are only shown.
        """
        try:  # what is stored must be readable: a struct that Python made was not checked
            msgspec.convert(msgspec.to_builtins(spec), ContractSpec)
        except msgspec.ValidationError as error:
            raise InputError(f"contract {spec.name!r} is wrong: {error}") from error
        path = usable_path(spec.model)
        try:
            _check_model(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            wrong = getattr(error, "strerror", None) or error
            raise InputError(f"model {str(path)!r} cannot be read: {wrong}") from error
        monitor = None if spec.target else GoalMonitor.load(path)
        target = spec.target if monitor is None else _target_of(spec.name, monitor)
        spec = msgspec.structs.replace(
            spec, target=target, model_sha256=digest, recalibrated_from=""
        )
        newest = self._newest.get(spec.name)
        if newest is not None and _says_the_same(spec, self.held(newest).spec):
            return self._labelled(self.held(newest), spec.unit)
        monitor = monitor or GoalMonitor.load(path)
        _check_unit(spec.name, spec.unit, monitor)
        _check_promise(spec, monitor)
        self._keep(path, digest)
        return self._put_in_force(spec, at)

    def recalibrated(self, held: Held, monitor: GoalMonitor, *, at: float) -> Held:
        """Add a new version of the contract ``held``, with this recalibrated monitor; return it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f"recalibrated.{os.getpid()}"
        monitor.save(partial)
        with partial.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        partial.replace(self._copy(digest))
        spec = msgspec.structs.replace(
            held.spec,
            model_sha256=digest,
            recalibrated_from=held.spec.recalibrated_from or held.spec.model_sha256,
        )
        _check_promise(spec, monitor)
        return self._put_in_force(spec, at)

    def _labelled(self, held: Held, unit: Unit | dict[Name, Unit]) -> Held:
        """The same contract, after changing the unit that the web page shows."""
        if unit != held.spec.unit and not held.closed:
            _check_unit(held.spec.name, unit, held.monitor)
            held.spec = msgspec.structs.replace(held.spec, unit=unit)
            with self._store.database.write() as writing:
                text = msgspec.json.encode(held.spec).decode()
                writing.run("UPDATE contracts SET spec = ? WHERE id = ?", (text, held.id))
        return held

    def _put_in_force(self, spec: ContractSpec, at: float) -> Held:
        number = self._insert(spec, at)
        self._newest[spec.name] = number
        return self.held(number)

    def _insert(self, spec: ContractSpec, at: float) -> int:
        text = msgspec.json.encode(spec).decode()
        with self._store.database.write() as writing:
            number = reserve(writing, 1)
            sql = "SELECT COALESCE(MAX(version), 0) FROM contracts WHERE name = ?"
            version = int(writing.rows(sql, (spec.name,))[0][0]) + 1
            writing.run(
                "INSERT INTO contracts VALUES (?, ?, ?, ?, ?)",
                (number, spec.name, version, text, at),
            )
        return number

    def _copy(self, digest: str) -> Path:
        return self._folder / f"{digest}.ontarget"

    def _keep(self, path: Path, digest: str) -> None:
        kept = self._copy(digest)
        if kept.exists():
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(path, partial)
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.replace(kept)
        except OSError as error:
            raise StoreError(f"{kept} cannot be written: {error.strerror}") from error

    def _listed(self) -> str:
        return ", ".join(self._newest) or "(there is no contract yet)"


def _check_model(path: Path) -> None:
    """Raise an error unless this may be a model file, before all of it is read.

    A device would never end, a pipe would wait for a writer, and a file is read, copied and hashed
    where the steps are written.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"model {str(path)!r} needs a regular file")
    if found.st_size > _MOST_MODEL_BYTES:
        raise InputError(
            f"model {str(path)!r} needs at most {_MOST_MODEL_BYTES:,} bytes, got {found.st_size:,}"
        )
    Container.open(path)  # whose header must fit the file's size


def _check_promise(spec: ContractSpec, monitor: GoalMonitor) -> None:
    """Raise an error if the alarm cannot be promised, before anything is stored."""
    Held(0, 0, spec, monitor, 0.0, Outline.of(monitor)).fleet(spec.target)


def _target_of(name: str, monitor: GoalMonitor) -> str:
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


def _says_the_same(asked: ContractSpec, newest: ContractSpec) -> bool:
    """Whether a new spec describes the same contract as the newest version does.

    A recalibration of the newest version is ignored, and so is the unit.
    """
    own = newest.recalibrated_from or newest.model_sha256
    same = msgspec.structs.replace(
        newest, model=asked.model, model_sha256=own, recalibrated_from="", unit=asked.unit
    )
    return asked == same


def _check_unit(name: str, unit: Unit | dict[Name, Unit], monitor: GoalMonitor) -> None:
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
    """The contracts in a TOML file, one table ``[[contract]]`` each.

    Paths in the file are relative to the file's folder.
    """
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
