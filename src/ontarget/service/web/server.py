"""Runs the service on a port with uvicorn. On shutdown, requests under way are finished first."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final

import uvicorn

from ontarget.errors import InputError, OntargetError
from ontarget.service.contracts import ContractSpec
from ontarget.service.service import Service
from ontarget.service.web._http import is_loopback
from ontarget.service.web.api import create_app

_log: Final = logging.getLogger("ontarget.service")


def serve_on(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8400,
    require_token: bool = False,
    reread: Callable[[], Sequence[ContractSpec]] | None = None,
    started: Callable[[], None] | None = None,
) -> None:
    """Run the web server until the process is told to stop."""
    local = is_loopback(host)
    if not service.tokens.any():
        if not local:
            raise InputError(
                f"host {host!r} can be reached from other machines, and there is no token yet; "
                "make one with --new-token admin, or stay on 127.0.0.1"
            )
        if require_token:
            raise InputError("there is no token yet; make one with --new-token admin")
    app = create_app(service, open_to_all=local and not require_token)
    tune()
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        backlog=2048,
        limit_concurrency=4096,  # the default has no limit
        timeout_keep_alive=30,
        timeout_graceful_shutdown=20,
        h11_max_incomplete_event_size=65536,
    )
    _Server(config, app.state.api.streams.close, started, _reloader(service, reread)).run()


def tune() -> None:
    """Adjust Python's garbage collector and thread switching for a server."""
    # A batch makes tens of thousands of objects, none in a cycle; looking for cycles after every
    # 700 of them, through all runs in memory, took a quarter of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    # The writer and the event loop take turns in fractions of a millisecond, not every five.
    sys.setswitchinterval(5e-4)


class _Server(uvicorn.Server):
    """A uvicorn server that ends event streams when it is told to stop.

    A shutdown waits for every response, and an event stream would never end by itself.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        end_streams: Callable[[], None],
        started: Callable[[], None] | None,
        reload: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._end_streams = end_streams
        self._tell = started
        self._reload = reload

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self._reload is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        if self.started and self._tell is not None:
            self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._end_streams()
        super().handle_exit(sig, frame)


def _reloader(
    service: Service, reread: Callable[[], Sequence[ContractSpec]] | None
) -> Callable[[], None] | None:
    if reread is None:
        return None

    def add() -> None:
        try:
            for spec in reread():
                service.contracts.add(spec, at=service.clock())
        except OntargetError as error:  # the contracts in use stay as they are
            _log.error("the contracts were not reloaded: %s", error)

    return lambda: _ignore(service.writer.run(add))


def _ignore(_: object) -> None:
    """Ignore the result of a future."""
