"""The contracts in use: each with its loaded monitor and the fleets that follow its runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from ontarget._arguments import usable_path
from ontarget.episodes.schema import UnknownCategories
from ontarget.errors import InputError, ModelFileError, StoreError
from ontarget.fitted.fitted import Fitted
from ontarget.goal import Goal
from ontarget.live.fleet import FleetWatch
from ontarget.modelfile.container import Container
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service.contracts import (
    ContractSpec,
    Unit,
    check_model,
    check_unit,
    says_the_same,
    target_of,
)
from ontarget.service.messages import Name
from ontarget.service.store import Store, reserve
from ontarget.target import Target

_MOST_TARGETS: Final = 1_000  # of the runs' own, per contract: each is set up once and kept
_MOST_CATEGORIES: Final = 64  # of a feature that are counted by name


class Outline(msgspec.Struct, frozen=True):
    """What a contract's model says of its runs, known even if its model cannot be loaded.

    ``judged`` are the columns (signals) that several behaviors are computed from, and ``sizes`` how
    many runs the model was made from.
    """

    horizon: int
    features: tuple[str, ...]
    judged: tuple[str, ...]
    sizes: dict[str, int]

    @classmethod
    def of(cls, monitor: GoalMonitor) -> Outline:
        """The outline of a loaded monitor."""
        fitted = monitor.contracts.fitted
        judged = [one.column for one in monitor.readings.values() if one.column is not None]
        return cls(
            fitted.horizon, tuple(fitted.schema.names), tuple(judged), dict(fitted.trained.sizes)
        )

    @classmethod
    def listed(cls, path: Path) -> Outline | None:
        """The outline in the header of a model file; None if there is no such header."""
        try:
            header: Any = dict(Container.open(path).header)
            several = header.get("behaviors", [])
            first = several[0]["monitor"] if several else header
            return msgspec.convert(
                {
                    "horizon": first["horizon"],
                    "features": [one["name"] for one in first["features"]],
                    "judged": [one["signal"] for one in several if one["signal"] is not None],
                    "sizes": first["sizes"],
                },
                cls,
            )
        except (ModelFileError, msgspec.ValidationError, LookupError, TypeError):
            return None


class Strangers:
    """The readings of categories that no recorded run had, since the service began."""

    def __init__(self) -> None:
        self._readings: dict[str, int] = {}
        self._values: dict[str, dict[str, int]] = {}

    def add(self, unseen: Mapping[str, str]) -> None:
        """Count the unknown categories of one state, by feature."""
        for feature, value in unseen.items():
            self._readings[feature] = self._readings.get(feature, 0) + 1
            own = self._values.setdefault(feature, {})
            if value not in own and len(own) >= _MOST_CATEGORIES:
                del own[min(own, key=own.__getitem__)]
            own[value] = own.get(value, 0) + 1

    @property
    def found(self) -> list[UnknownCategories]:
        """The readings by feature, with the most frequent categories."""
        return [
            UnknownCategories.of(feature, dict(self._values[feature]).items())._replace(readings=n)
            for feature, n in list(self._readings.items())
        ]


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
        """Why p of the contract's target has nothing to learn from; empty if it has something."""
        if self.closed:
            return ""
        found = self.monitor.contracts.one_sided(self.asked(self.spec.target))
        return "; ".join(dict.fromkeys(filter(None, found)))

    @property
    def fitted(self) -> Fitted:
        """The monitor's fitted models; if it has several behaviors, those of the first one."""
        return self.monitor.contracts.fitted

    def _made(self, target: str) -> FleetWatch:
        """A new, compiled fleet for this target, without runs."""
        return self.monitor.fleet(
            self.asked(target), alarm=self.spec.rule, calibration=self.spec.calibration
        )

    def asked(self, target: str) -> Any:
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
        """Add a contract as a new version, and return it."""
        # If the newest version under this name is the same, nothing is added, and that version is
        # returned. A different unit alone makes no new version, because units are only shown.
        try:  # what is stored must be readable: a struct that Python made was not checked
            msgspec.convert(msgspec.to_builtins(spec), ContractSpec)
        except msgspec.ValidationError as error:
            raise InputError(f"contract {spec.name!r} is wrong: {error}") from error
        path = usable_path(spec.model)
        try:
            check_model(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            wrong = getattr(error, "strerror", None) or error
            raise InputError(f"model {str(path)!r} cannot be read: {wrong}") from error
        monitor = None if spec.target else GoalMonitor.load(path)
        target = spec.target if monitor is None else target_of(spec.name, monitor)
        spec = msgspec.structs.replace(
            spec, target=target, model_sha256=digest, recalibrated_from=""
        )
        newest = self._newest.get(spec.name)
        if newest is not None and says_the_same(spec, self.held(newest).spec):
            return self._labelled(self.held(newest), spec.unit)
        monitor = monitor or GoalMonitor.load(path)
        check_unit(spec.name, spec.unit, monitor)
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
            check_unit(held.spec.name, unit, held.monitor)
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


def _check_promise(spec: ContractSpec, monitor: GoalMonitor) -> None:
    """Raise an error if the alarm cannot be promised, before anything is stored."""
    Held(0, 0, spec, monitor, 0.0, Outline.of(monitor)).fleet(spec.target)
