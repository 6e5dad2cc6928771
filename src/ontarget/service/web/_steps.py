"""Takes the steps in the bodies of requests, and makes the responses to them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from ontarget.service.engine import Reply
from ontarget.service.messages import Problem, StepMessage
from ontarget.service.service import Service
from ontarget.service.web._bodies import Body, read_steps
from ontarget.service.web._gathering import Gathering
from ontarget.service.web._http import Buckets, Refusal, problem_response
from ontarget.service.web._metrics import Metrics


class Steps:
    """Takes the steps in a request's body, and makes the response.

    Parameters
    ----------
    service
        The service that takes the steps.
    metrics
        Where the steps are counted.
    """

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._limits = service.limits
        self._buckets = Buckets(service.limits.steps_per_second)
        self._gathering = Gathering(service.writer)
        self._metrics = metrics

    async def answer(self, kind: str, body: bytes, client: str) -> Response:
        """Take the steps in a request's body; return the response once the steps are on disk.

        A JSON array gets one answer per item.

        Parameters
        ----------
        kind
            The content type of the body.
        body
            The steps.
        client
            The client that sends them.
        """
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
    """The replies to all messages of a request's body, in their order.

    Messages that could not be read have an error as their reply.
    """
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
