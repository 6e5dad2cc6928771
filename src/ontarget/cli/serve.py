"""``ontarget serve``: a service that many agents report to."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._package import require
from ontarget._progress import working
from ontarget.cli.options import (
    AlarmBelow,
    CalibrationOption,
    Confidence,
    FalseAlarmRate,
    ForSteps,
    ModelTargetOption,
    RuledOutRate,
    calibration_of,
    model_there,
)
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget.service.contracts import ContractSpec
    from ontarget.service.service import Service
    from ontarget.service.webhooks import Hook

_NEEDED = ("msgspec", "starlette", "uvicorn", "prometheus_client", "httpx")
_DAY = 86_400.0


def _days(value: float | None) -> float | None:
    if value is not None and not value > 0.0:
        raise typer.BadParameter(f"needs a number of days above 0, got {value:g}")
    return value


def serve(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file.",
            metavar="[MODEL]",
            show_default=False,
            callback=model_there,
            is_eager=True,
        ),
    ] = None,
    target: ModelTargetOption = None,
    contracts: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with several contracts and hooks, instead of MODEL; on SIGHUP it is "
            "read again.",
            metavar="FILE",
        ),
    ] = None,
    alarm_below: AlarmBelow = None,
    false_alarm_rate: FalseAlarmRate = None,
    ruled_out: RuledOutRate = None,
    confidence: Confidence = None,
    for_steps: ForSteps = 1,
    calibration: CalibrationOption = "target",
    unit: Annotated[
        str,
        typer.Option(
            help="The unit of the behavior, shown on the page: minutes; for several behaviors, "
            "return=points,energy=kJ.",
            metavar="TEXT",
        ),
    ] = "",
    database: Annotated[
        str,
        typer.Option(help="A file for SQLite, or postgresql://…", metavar="URL"),
    ] = "ontarget.db",
    models: Annotated[
        Path | None,
        typer.Option(
            help="Folder for copies of the model files; several workers need the same one.",
            show_default="beside the database",
            metavar="FOLDER",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; an address that other machines can reach needs a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.", metavar="N")] = 8400,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            help="Ask local clients for a token too; needed behind a reverse proxy, where all "
            "clients seem local.",
            metavar="",
        ),
    ] = False,
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="Move an older database to this version.", metavar=""),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Open everything, list the contracts, and exit.", metavar=""),
    ] = False,
    new_token: Annotated[
        str | None,
        typer.Option(
            help="Print a new token for these scopes (report,read,admin), and exit.",
            metavar="SCOPES",
        ),
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option(help="Copy the SQLite database while the service runs.", metavar="FILE"),
    ] = None,
    restore: Annotated[
        Path | None,
        typer.Option(
            help="Replace the database by such a copy; the service must be stopped.",
            metavar="FILE",
        ),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(
            help="Delete runs this many days after they end.", metavar="N", callback=_days
        ),
    ] = None,
    keep_runs: Annotated[
        int | None,
        typer.Option(min=0, help="Keep only the N runs that ended last.", metavar="N"),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Folder to which runs are written before they are deleted.", metavar="FOLDER"
        ),
    ] = None,
) -> None:
    """Answer agents over HTTP, store every run, and send alarms to webhooks.

    A step is on disk before its answer is sent. The same step may be sent again and gets the same
    answer. docs/service.md shows every call with curl.
    """
    for name in _NEEDED:
        require(name, extra="service")
    from ontarget.service.database import copy_file, restore_file
    from ontarget.service.service import Service
    from ontarget.service.web.server import serve_on

    if backup is not None:
        copy_file(Path(database), backup)
        typer.echo(f"copied {database} to {backup}")
        return
    if restore is not None:
        restore_file(restore, Path(database))
        typer.echo(f"restored {database} from {restore}")
        return
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    folder = models or Path("ontarget.models" if "://" in database else f"{database}.models")
    alone = None
    if model is not None:
        alone = {
            "name": model.stem,
            "model": str(model.resolve()),
            "target": target or "",
            "alarm_below": alarm_below,
            "false_alarm_rate": _rate(false_alarm_rate),
            "ruled_out": _rate(ruled_out),
            "confidence": _rate(confidence),
            "for_steps": for_steps,
            "calibration": calibration_of(calibration),
            "unit": _unit(unit),
        }
    elif target is not None:
        raise typer.BadParameter("--target needs MODEL")
    elif contracts is None and new_token is None and not check:
        raise typer.BadParameter("pass MODEL, or --contracts FILE")
    with working("opening the service"):
        specs, hooks = _asked(alone, contracts)
        service = Service(
            database,
            specs,
            hooks=hooks,
            models=folder,
            keep_seconds=None if keep_days is None else keep_days * _DAY,
            keep_runs=keep_runs,
            export=export,
            migrate=migrate,
        )
    with closing(service):
        if new_token is not None:
            typer.echo(service.tokens.create(new_token.split(","), at=service.clock()))
            return
        _say(service)
        if not check:
            serve_on(
                service,
                host=host,
                port=port,
                require_token=require_token,
                reread=None if contracts is None else lambda: _asked(alone, contracts)[0],
                started=lambda: typer.echo(f"listening on http://{host}:{port}"),
            )


def _asked(
    alone: dict[str, Any] | None, contracts: Path | None
) -> tuple[list[ContractSpec], list[Hook]]:
    from ontarget.service.contracts import ContractSpec, read_contracts
    from ontarget.service.webhooks import read_hooks

    specs = [] if alone is None else [ContractSpec(**alone)]
    if contracts is None:
        return specs, []
    return [*specs, *read_contracts(contracts)], read_hooks(contracts)


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
