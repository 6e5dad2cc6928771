"""A faster version of uvicorn's HTTP protocol: fewer writes, and a shortcut for steps."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from ontarget.service.web._direct import Direct, Found, response_of
from ontarget.service.web._steps import Outcome

__all__ = ["protocol"]

_MOST: Final = 65536  # bytes that are held back until the end of a turn of the event loop


class WholeWrites(asyncio.Transport):
    """A transport that joins all writes made in one turn of the event loop into one.

    uvicorn writes the head and the body of a response separately. Each write is a system call that
    wakes the client, and these calls took a third of the event loop's time.

    Parameters
    ----------
    inner
        The transport that does the writing.
    loop
        The event loop of that transport.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> None:
        """Keep these bytes, to be written at the end of this turn of the event loop."""
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST:
            self.flush()  # so that the inner transport can ask for a pause

    def flush(self) -> None:
        """Write the bytes that were kept back."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._inner.write(held[0] if len(held) == 1 else b"".join(held))

    def close(self) -> None:
        """Write the bytes that were kept back, then close the connection."""
        self.flush()
        self._inner.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._held = []
        self._inner.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._inner.is_closing()

    def pause_reading(self) -> None:
        """Stop reading from the connection for now."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Read from the connection again."""
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Information about the connection, as the inner transport gives it."""
        return self._inner.get_extra_info(name, default)


def protocol(direct: Direct) -> type[asyncio.Protocol] | Literal["auto"]:
    """The HTTP protocol class that uvicorn should use.

    It is uvicorn's faster protocol with two shortcuts if that protocol is installed; otherwise
    ``"auto"``, uvicorn's default.

    Parameters
    ----------
    direct
        Handles small requests with steps without uvicorn's parser and without a task per request.
        Parser and task would cost more time than the steps themselves.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:  # on Windows: the slower parser, which needs no compiler
        return "auto"

    class Protocol(HttpToolsProtocol):
        _reading = False  # uvicorn's parser is in the middle of a request
        _asked = False  # a request went the short way, and is not answered yet
        _last = False  # close the connection after that answer
        _later = b""  # what came meanwhile
        _part = b""  # the beginning of a request that may go the short way

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._line, self._whole = transport, WholeWrites(transport, self.loop)
            super().connection_made(self._whole)
            self._address = self.client[0] if self.client else ""

        def data_received(self, data: bytes) -> None:
            if self._asked:
                self._later += data
                if len(self._later) > _MOST:
                    self.flow.pause_reading()
                return
            data = self._part + data if self._part else data
            self._part = b""
            found = self._taken(data) if self._is_between() else Found.OTHER
            if found is Found.OTHER:
                super().data_received(data)
            elif found is Found.PART:
                self._part = data

        def _is_between(self) -> bool:
            """Whether every request so far on this connection was read and answered."""
            most = self.limit_concurrency
            if self._reading or (most is not None and len(self.connections) >= most):
                return False
            before: Any = self.cycle
            return before is None or (before.response_complete and not self.pipeline)

        def _taken(self, data: bytes) -> Found:
            self._unset_keepalive_if_required()
            self._asked = True
            found = direct.take(data, self._address, self._answer)
            if found is not Found.TAKEN:
                self._asked = False
            return found

        def _answer(self, outcome: Outcome) -> None:
            self._asked = False
            if self._line.is_closing():
                return
            common = self.server_state.default_headers
            self._whole.flush()  # of the response before this one
            self._line.write(response_of(outcome, common, last=self._last))
            if self._last:
                self._line.close()
                return
            self.on_response_complete()
            if self._later:
                later, self._later = self._later, b""
                self.data_received(later)

        def shutdown(self) -> None:
            if self._asked:
                self._last = True
            else:
                super().shutdown()

        def on_message_begin(self) -> None:
            self._reading = True
            super().on_message_begin()

        def on_message_complete(self) -> None:
            self._reading = False
            super().on_message_complete()

    return Protocol
