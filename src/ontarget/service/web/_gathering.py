"""Steps of many connections, handed to the writer together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ontarget.service._writer import Replies, Writer
from ontarget.service.engine import Reply
from ontarget.service.messages import StepMessage

__all__ = ["Gathering"]


class Gathering:
    """What arrives in one turn of the event loop goes to the writer at once, and comes back so.

    A thousand agents that each send one step then cost a few changes of thread, not two thousand.

    Parameters
    ----------
    writer
        What takes the steps.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: list[tuple[Sequence[StepMessage], asyncio.Future[list[Reply]]]] = []

    async def take(self, messages: Sequence[StepMessage]) -> list[Reply]:
        """The replies to the messages of one request, once they are on disk."""
        self._writer.admit(len(messages))
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Reply]] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._hand_over, loop)
        self._waiting.append((messages, found))
        return await found

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        futures = [found for _, found in waiting]

        def done(replies: list[Replies]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_settle, futures, replies)

        self._writer.submit([messages for messages, _ in waiting], done)


def _settle(futures: list[asyncio.Future[list[Reply]]], replies: list[Replies]) -> None:
    for found, reply in zip(futures, replies, strict=True):
        if found.done():
            continue  # the client has left
        if isinstance(reply, Exception):
            found.set_exception(reply)
        else:
            found.set_result(reply)
