"""Sends every answer to clients as a stream of server-sent events.

A client that lost its connection can continue where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from ontarget.errors import StoreError
from ontarget.service.store import Store
from ontarget.service.web._http import Refusal

_PAGE: Final = 1_000
_BEAT: Final = 15.0  # seconds after which a proxy may think that a silent connection is dead
_LOOK: Final = 1.0  # seconds after which to look for what other workers have committed


class Streams:
    """The clients that follow all answers as a stream of events."""

    def __init__(self, store: Store, *, most: int) -> None:
        self._store = store
        self._most = most
        self._clients: set[asyncio.Event] = set()
        self._closed = False

    def wake(self) -> None:
        """Tell every client's stream that new steps were stored."""
        for one in self._clients:
            one.set()

    def close(self) -> None:
        """End every stream, so that a shutdown need not wait for them."""
        self._closed = True
        self.wake()

    def response(self, request: Request) -> StreamingResponse:
        """The stream for one client."""
        if len(self._clients) >= self._most or self._closed:
            detail = f"{self._most:,} clients are following events already"
            raise Refusal(429, "too many streams", detail, retry_after="10")
        last = request.headers.get("last-event-id", "")
        if last and not (last.isascii() and last.isdigit() and len(last) < 19):
            raise Refusal(400, "wrong header", "Last-Event-ID needs the id of an event")
        stream = self._events(int(last) if last else None)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _events(self, after: int | None) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        self._clients.add(woken)
        try:
            if after is None:
                after = await run_in_threadpool(self._store.newest_event)
            # With the id, a client that loses the connection before the first event misses none.
            yield b"id: %d\nretry: 1000\n\n" % after
            quiet = 0.0
            while not self._closed:
                woken.clear()
                try:
                    found = await run_in_threadpool(self._store.events, after, _PAGE)
                except StoreError:
                    return  # the client comes back with the last id that it has seen
                if found:
                    after, quiet = found[-1].id, 0.0
                    yield b"".join(
                        b"id: %d\nevent: answer\ndata: %s\n\n" % (one.id, bytes(one.answer))
                        for one in found
                    )
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), _LOOK)
                quiet += _LOOK
                if quiet >= _BEAT:
                    quiet = 0.0
                    yield b": still here\n\n"
        finally:
            self._clients.discard(woken)
