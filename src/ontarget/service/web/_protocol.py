"""HTTP as uvicorn speaks it, with a response's head and body in one write."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

__all__ = ["protocol"]

_MOST: Final = 65536  # bytes that are held back until the end of a turn of the event loop


class WholeWrites(asyncio.Transport):
    """A transport that writes at once what comes in one turn of the event loop.

    uvicorn writes the head of a response and its body one after the other. Each is a call of the
    system that wakes the client, and those calls were a third of what the event loop did.

    Parameters
    ----------
    inner
        The transport that writes.
    loop
        Its event loop.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> None:
        """Write this soon."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST:
            self._flush()  # so that the inner transport can ask for a pause

    def _flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held:
            self._inner.write(held[0] if len(held) == 1 else b"".join(held))

    def close(self) -> None:
        """Write what is held back, then close."""
        self._flush()
        self._inner.close()

    def abort(self) -> None:
        """Close at once."""
        self._held = []
        self._inner.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._inner.is_closing()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the inner transport knows."""
        return self._inner.get_extra_info(name, default)


def protocol() -> type[asyncio.Protocol] | Literal["auto"]:
    """What uvicorn should speak: its faster protocol with whole writes, or what it has."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:  # on Windows: the slower parser, which needs no compiler
        return "auto"

    class Protocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(WholeWrites(transport, self.loop))

    return Protocol
