"""Reads the steps in the bodies of requests, has them written together, and makes the responses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response

from ontarget.service._writer import Replies, Writer
from ontarget.service.engine import Reply
from ontarget.service.messages import Problem, StepMessage
from ontarget.service.service import Service
from ontarget.service.web._http import Buckets, Refusal, problem_response
from ontarget.service.web._metrics import Metrics

_one: Final = msgspec.json.Decoder(StepMessage)
_many: Final = msgspec.json.Decoder(list[StepMessage])
_raw: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Body(NamedTuple):
    """The messages in the body of a request; a `Problem` stands for each that cannot be read."""

    messages: Sequence[StepMessage | Problem]  # in order; a problem for what cannot be read
    good: Sequence[StepMessage]  # those that can; ``messages`` itself if all of them
    single: bool = False  # one alone, not an array of one
    lines: bool = False


def read_steps(content_type: str, body: bytes, most: int) -> Body:
    """Read the messages in a request's body; more than ``most`` messages are refused."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-ndjson", "application/jsonl"):
        return _each([line for line in body.splitlines() if line.strip()], most, lines=True)
    if kind != "application/json":
        raise Refusal(
            415, "not JSON", "send content-type: application/json or application/x-ndjson"
        )
    try:
        if body.lstrip()[:1] != b"[":
            one = [_one.decode(body)]
            return Body(one, one, single=True)
        try:
            found = _many.decode(body)
        except msgspec.ValidationError:  # item by item, to say which are wrong
            return _each(_raw.decode(body), most)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, "wrong body", str(error)) from None
    _check(len(found), most)
    return Body(found, found)


def _each(parts: Sequence[bytes | msgspec.Raw], most: int, *, lines: bool = False) -> Body:
    _check(len(parts), most)
    found: list[StepMessage | Problem] = []
    for part in parts:
        try:
            found.append(_one.decode(part))
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            kind = "urn:ontarget:wrong-body"
            found.append(Problem(status=400, title="wrong body", detail=str(error), type=kind))
    return Body(found, [one for one in found if isinstance(one, StepMessage)], lines=lines)


def _check(n: int, most: int) -> None:
    if n > most:
        raise Refusal(413, "too large", f"a request has at most {most:,} steps")


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


class Steps:
    """Takes the steps in a request's body, and makes the response."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._limits = service.limits
        self._buckets = Buckets(service.limits.steps_per_second)
        self._gathering = Gathering(service.writer)
        self._metrics = metrics

    async def answer(self, kind: str, body: bytes, client: str) -> Response:
        """Take the steps in a request's body; return the response once the steps are on disk."""
        began = time.perf_counter()
        read = read_steps(kind, body, self._limits.batch)
        self.hold_back(client, len(read.messages))
        replies = await self.take(read.good) if read.good else []
        if read.good is not read.messages:
            replies = _in_order(read, replies)
        self.count(replies, time.perf_counter() - began)
        return _response(read, replies)

    async def take(self, messages: Sequence[StepMessage]) -> list[Reply]:
        """Write these messages; return the replies once the messages are on disk."""
        return await self._gathering.take(messages)

    def hold_back(self, client: str, n: int) -> None:
        """Raise a `Refusal` if n more steps are more than this client may send now."""
        wait = self._buckets.take(client, n)
        if wait > 0.0:
            detail = f"more than {self._limits.steps_per_second:g} steps per second"
            raise Refusal(429, "too fast", detail, retry_after=str(int(wait) + 1))

    def count(self, replies: Sequence[Reply], seconds: float) -> None:
        """Count accepted and refused steps in the metrics."""
        refusals = sum([type(one) is Problem for one in replies])
        self._metrics.add(len(replies) - refusals, refusals, seconds)


def _in_order(read: Body, replies: Sequence[Reply]) -> list[Reply]:
    """The replies to all messages of a request's body, in their order."""
    left = iter(replies)
    return [one if isinstance(one, Problem) else next(left) for one in read.messages]


def _response(read: Body, replies: Sequence[Reply]) -> Response:
    if read.single:
        return response_of(replies[0])
    encoded = [msgspec.json.encode(one) if isinstance(one, Problem) else one for one in replies]
    if read.lines:
        return Response(b"\n".join([*encoded, b""]), media_type="application/x-ndjson")
    return Response(b"[" + b",".join(encoded) + b"]", media_type="application/json")


def response_of(reply: Reply) -> Response:
    """The response to one message."""
    if isinstance(reply, bytes):
        return Response(reply, media_type="application/json")
    return problem_response(reply)
