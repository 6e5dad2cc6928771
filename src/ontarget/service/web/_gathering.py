"""Collects steps from many connections and passes them together to the thread that writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from ontarget.service._writer import Replies, Writer
from ontarget.service.engine import Reply
from ontarget.service.messages import StepMessage

_log: Final = logging.getLogger("ontarget.service")
_ENOUGH: Final = 256  # steps that gain nothing by waiting for more
_SHARE: Final = 0.5  # of the time of the last write, to wait for more
_LONGEST: Final = 0.005  # seconds to wait for more

_Waiting: TypeAlias = list[tuple[Sequence[StepMessage], Callable[[Replies], None]]]


class Gathering:
    """Passes requests that come at about the same time to the writer (the writing thread) together.

    A commit costs the same for one step as for fifty. So while the writer is busy, small requests
    are collected into a group. When the writer is done, the clients that it has just answered will
    soon send their next step. So the group stays open for them a little longer: for half as long as
    the last write took, and at most 5 milliseconds. An agent that reports alone never waits.

    Parameters
    ----------
    writer
        The thread that writes steps to the database.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: _Waiting = []
        self._steps = 0  # that wait
        self._expected = 0  # requests that may come before the writer is asked
        self._patience = 0.0  # seconds to wait for them
        self._busy = 0  # groups that the writer has
        self._looking = False  # at the end of this turn of the event loop
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, messages: Sequence[StepMessage]) -> list[Reply]:
        """Write the messages of one request; return the replies once the messages are on disk."""
        found: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

        def done(replies: Replies) -> None:
            if found.done():
                return  # the client has left
            if isinstance(replies, Exception):
                found.set_exception(replies)
            else:
                found.set_result(replies)

        self.add(messages, done)
        return await found

    def add(self, messages: Sequence[StepMessage], done: Callable[[Replies], None]) -> None:
        """Add the messages of one request to the group that is written next.

        After the messages are on disk, ``done`` is called on the event loop with the replies, or
        with the error.
        """
        self._writer.admit(len(messages))
        self._waiting.append((messages, done))
        self._steps += len(messages)
        if len(self._waiting) == 1:
            self._looking = True  # what comes in this turn comes along
            loop = asyncio.get_running_loop()
            loop.call_soon(self._look, loop)
        elif not self._looking and self._is_due():
            self._hand_over(asyncio.get_running_loop())

    def _is_due(self) -> bool:
        """Whether the collected requests should go to the writer now, without waiting for more."""
        if self._steps >= _ENOUGH:
            return True
        return not self._busy and len(self._waiting) >= self._expected

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass the collected requests to the writer now, or set a timer to wait for more."""
        self._looking = False
        if not self._waiting or self._timer is not None:
            return
        if self._is_due():
            self._hand_over(loop)
        elif not self._busy:  # otherwise the writer says when it is done
            self._timer = loop.call_later(self._patience, self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._steps = self._waiting, [], 0
        self._busy += 1
        began = loop.time()

        def done(replies: list[Replies]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._settle, loop, waiting, replies, began)

        self._writer.submit([messages for messages, _ in waiting], done)

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        answered: _Waiting,
        replies: list[Replies],
        began: float,
    ) -> None:
        """Pass on the replies to the requests that were just written; go on with the next group."""
        self._busy -= 1
        self._expected = len(self._waiting) + len(answered)
        self._patience = min(_SHARE * (loop.time() - began), _LONGEST)
        for (_, give), reply in zip(answered, replies, strict=True):
            try:
                give(reply)
            except Exception:  # the others are answered all the same
                _log.exception("an answer could not be returned")
        self._look(loop)
