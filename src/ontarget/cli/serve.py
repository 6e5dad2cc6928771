"""``ontarget serve``: a service that many agents report to."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._package import require
from ontarget._progress import working
from ontarget.cli.options import ModelTargetOption, SetsAlarm, model_there, option
from ontarget.errors import InputError
from ontarget.live.setting import AlarmSetting

if TYPE_CHECKING:
    from ontarget.service.contracts import ContractSpec
    from ontarget.service.service import Service

_NEEDED = ("msgspec", "starlette", "uvicorn", "prometheus_client", "httpx")
_DAY = 86_400.0
_RATES = ("false_alarm_rate", "ruled_out", "confidence")


def _days(value: float | None) -> float | None:
    if value is not None and not value > 0.0:
        raise typer.BadParameter(f"needs a number of days above 0, got {value:g}")
    return value


@dataclass(frozen=True, kw_only=True)
class ServeCommand(SetsAlarm):
    """Answer agents over HTTP, store every run, and send alarms to webhooks.

    A step is on disk before its answer is sent. The same step may be sent again and gets the same
    answer. docs/service.md shows every call with curl.
    """

    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file.",
            metavar="[MODEL]",
            show_default=False,
            callback=model_there,
            is_eager=True,
        ),
    ] = None
    target: ModelTargetOption = None
    contracts: Annotated[
        Path | None,
        option(
            "A TOML file with several contracts and hooks, instead of MODEL; on SIGHUP it is "
            "read again.",
            "FILE",
        ),
    ] = None
    unit: Annotated[
        str,
        option(
            "The unit of the behavior, shown on the page: minutes; for several behaviors, "
            "return=points,energy=kJ.",
            "TEXT",
        ),
    ] = ""
    database: Annotated[str, option("A file for SQLite, or postgresql://…", "URL")] = "ontarget.db"
    models: Annotated[
        Path | None,
        option(
            "Folder for copies of the model files; several workers need the same one.",
            "FOLDER",
            show_default="beside the database",
        ),
    ] = None
    host: Annotated[
        str, option("Address to listen on; an address that other machines can reach needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, option("The port.", "N", min=1, max=65535)] = 8400
    require_token: Annotated[
        bool,
        option(
            "Ask local clients for a token too; needed behind a reverse proxy, where all "
            "clients seem local.",
            "",
            "--require-token",
        ),
    ] = False
    migrate: Annotated[bool, option("Move an older database to this version.", "", "--migrate")] = (
        False
    )
    check: Annotated[
        bool, option("Open everything, list the contracts, and exit.", "", "--check")
    ] = False
    new_token: Annotated[
        str | None,
        option("Print a new token for these scopes (report,read,admin), and exit.", "SCOPES"),
    ] = None
    backup: Annotated[
        Path | None, option("Copy the SQLite database while the service runs.", "FILE")
    ] = None
    restore: Annotated[
        Path | None,
        option("Replace the database by such a copy; the service must be stopped.", "FILE"),
    ] = None
    keep_days: Annotated[
        float | None, option("Delete runs this many days after they end.", "N", callback=_days)
    ] = None
    keep_runs: Annotated[
        int | None, option("Keep only the N runs that ended last.", "N", min=0)
    ] = None
    export: Annotated[
        Path | None, option("Folder to which runs are written before they are deleted.", "FOLDER")
    ] = None

    def run(self) -> None:
        """Copy or restore the database, or open the service and answer until stopped."""
        for name in _NEEDED:
            require(name, extra="service")
        from ontarget.service.database import copy_file, restore_file

        if self.backup is not None:
            copy_file(Path(self.database), self.backup)
            typer.echo(f"copied {self.database} to {self.backup}")
            return
        if self.restore is not None:
            restore_file(self.restore, Path(self.database))
            typer.echo(f"restored {self.database} from {self.restore}")
            return
        logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
        if self.model is None and self.target is not None:
            raise typer.BadParameter("--target needs MODEL")
        asked = (self.model, self.contracts, self.new_token)
        if all(one is None for one in asked) and not self.check:
            raise typer.BadParameter("pass MODEL, or --contracts FILE")
        with working("opening the service"):
            service = self._opened()
        with closing(service):
            if self.new_token is not None:
                scopes = self.new_token.split(",")
                typer.echo(service.tokens.create(scopes, at=service.clock()))
                return
            _say(service)
            if not self.check:
                self._serve(service)

    def _opened(self) -> Service:
        """The service, with the contracts that were asked for."""
        from ontarget.service.service import Service
        from ontarget.service.webhooks import read_hooks

        folder = f"{self.database}.models"
        if "://" in self.database:
            folder = "ontarget.models"
        return Service(
            self.database,
            self._specs(),
            hooks=[] if self.contracts is None else read_hooks(self.contracts),
            models=self.models or Path(folder),
            keep_seconds=None if self.keep_days is None else self.keep_days * _DAY,
            keep_runs=self.keep_runs,
            export=self.export,
            migrate=self.migrate,
        )

    def _serve(self, service: Service) -> None:
        from ontarget.service.web.server import serve_on

        serve_on(
            service,
            host=self.host,
            port=self.port,
            require_token=self.require_token,
            reread=None if self.contracts is None else self._specs,
            started=lambda: typer.echo(f"listening on http://{self.host}:{self.port}"),
        )

    def _specs(self) -> list[ContractSpec]:
        """The contract of MODEL, and those in the file of contracts."""
        from ontarget.service.contracts import ContractSpec, read_contracts

        found = [] if self.contracts is None else read_contracts(self.contracts)
        if self.model is None:
            return found
        alarm: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(AlarmSetting)}
        alarm |= {name: _rate(alarm[name]) for name in _RATES}
        alone = ContractSpec(
            name=self.model.stem,
            model=str(self.model.resolve()),
            target=self.target or "",
            unit=_unit(self.unit),
            **alarm,
        )
        return [alone, *found]


def _say(service: Service) -> None:
    for held in service.contracts.all():
        if held.closed:
            typer.echo(f"contract   {held.label}: takes no steps: {held.closed}")
            continue
        trigger = held.fleet(held.spec.target).triggers[0]
        unit = held.spec.unit
        if not isinstance(unit, str):
            unit = "in " + ", ".join(f"{one} ({name})" for name, one in unit.items())
        typer.echo(
            f"contract   {held.label}: {held.spec.target}{unit and f' {unit}'}, "
            f"alarm below {trigger.threshold:.3g}, {held.fitted.horizon} steps"
        )


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--false-alarm-rate, --ruled-out and --confidence need a number, got {text!r}"
        ) from None


def _unit(text: str) -> str | dict[str, str]:
    """The value of ``--unit``: one unit as text, or a dictionary of units by behavior."""
    if "=" not in text:
        return text
    named = [one.partition("=") for one in text.split(",")]
    return {name.strip(): unit.strip() for name, _, unit in named}
