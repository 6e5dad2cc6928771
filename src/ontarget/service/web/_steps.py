"""Takes the steps in the bodies of requests, and makes the responses to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from starlette.responses import Response

from ontarget.service._writer import Replies
from ontarget.service.engine import Reply
from ontarget.service.messages import Problem, StepMessage
from ontarget.service.service import Service
from ontarget.service.web._bodies import Body, read_steps
from ontarget.service.web._gathering import Gathering
from ontarget.service.web._http import Buckets, Refusal, problem_response, refused
from ontarget.service.web._metrics import Metrics

__all__ = ["Outcome", "Steps"]

Outcome: TypeAlias = bytes | Response  # the JSON of a request that was taken, or anything else


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

    def begin(self, kind: str, body: bytes, client: str, done: Callable[[Outcome], None]) -> None:
        """Take the steps in a request's body. A JSON array gets one answer per item.

        Parameters
        ----------
        kind
            The content type of the body.
        body
            The steps.
        client
            The client that sends them.
        done
            A function that is called on the event loop with the response: once the steps are on
            disk, or at once if they are refused.
        """
        began = time.perf_counter()

        def answered(replies: Replies) -> None:
            if isinstance(replies, Exception):
                done(refused(replies))
                return
            all_replies = replies if read.good is read.messages else _in_order(read, replies)
            self.count(all_replies, time.perf_counter() - began)
            done(_outcome(read, all_replies))

        try:
            read = read_steps(kind, body, self._limits.batch)
            self.hold_back(client, len(read.messages))
            if read.good:
                self._gathering.add(read.good, answered)
        except Exception as error:
            done(refused(error))
        else:
            if not read.good:
                answered([])

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


def _outcome(read: Body, replies: Sequence[Reply]) -> Outcome:
    if read.single:
        reply = replies[0]
        return problem_response(reply) if isinstance(reply, Problem) else reply
    encoded = [msgspec.json.encode(one) if isinstance(one, Problem) else one for one in replies]
    if read.lines:
        return Response(b"\n".join([*encoded, b""]), media_type="application/x-ndjson")
    return b"[" + b",".join(encoded) + b"]"
