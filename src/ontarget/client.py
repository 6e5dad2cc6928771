"""Clients of the ontarget service: they send steps and return the answers, in order."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, TypeAlias

from ontarget._package import require
from ontarget.errors import Argument, InputError, ServiceError

Message: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

_TRIES: Final = 6
_BATCH: Final = 1_000
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # worth sending again


class _Buffer:
    """The messages that the service has not answered yet, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.waiting: deque[Message] = deque()

    def add(self, message: Message) -> None:
        if len(self.waiting) >= self._most:
            raise ServiceError(
                f"{self._most:,} steps wait to be sent, as many as buffer= allows, and the service "
                f"does not answer; bring the service back, or pass a larger buffer="
            )
        self.waiting.append(message)

    def batch(self) -> list[Message]:
        return [one for _, one in zip(range(_BATCH), self.waiting, strict=False)]

    def done(self, n: int) -> None:
        for _ in range(n):
            self.waiting.popleft()


class _Talk:
    """What `Client` and `AsyncClient` share: what to send, and what to make of a response."""

    def __init__(self, url: str, token: str | None, *, buffer: int, offline: bool) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(Argument("url"), f" needs http:// or https://, got {url!r}")
        self.base = url.rstrip("/")
        self.headers = {"content-type": "application/json"}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self._buffer = _Buffer(buffer)
        self._offline = offline

    @property
    def waiting(self) -> int:
        return len(self._buffer.waiting)

    def report(self, message: Message) -> Generator[bytes, Any, Any]:
        """Send all unanswered messages, then this one; return its answer, None if it has none."""
        answers = yield from self.report_all([message])
        return answers[-1] if answers and not self._buffer.waiting else None

    def report_all(self, messages: Sequence[Message]) -> Generator[bytes, Any, Any]:
        """Send all unanswered messages, then these; return the answers to all of them, in order."""
        for one in messages:
            self._buffer.add(dict(one))
        answers = yield from self.flush()
        return answers

    def flush(self) -> Generator[bytes, Any, Any]:
        """Send all messages that the service has not answered; return their answers, in order."""
        answers: list[Answer] = []
        while self._buffer.waiting:
            batch = self._buffer.batch()
            found = yield json.dumps(batch).encode()
            if found is None:
                if self._offline:
                    return answers
                raise ServiceError(
                    f"{self.base} does not answer; {self.waiting:,} steps wait to be sent"
                )
            status, content = found
            self._buffer.done(len(batch))  # what was refused would be refused again
            if status != 200:
                raise ServiceError(f"the service refused the request: {_said(content)}")
            answers += json.loads(content)
        return answers


class Client:
    """A client of the ontarget service that waits for each answer.

    A program that runs on an event loop uses `AsyncClient`. If a request fails, the client sends it
    again; the service accepts a repeated step without harm. With ``offline``, the client keeps
    steps while the service cannot be reached, and sends them first, in order, as soon as it can be
    reached again.

    Parameters
    ----------
    url
        The address of the service, such as ``http://127.0.0.1:8400``.
    token
        An access token (``ot_…``), if the service asks for one.
    timeout
        Seconds to wait for a response.
    offline
        Whether to keep steps and return None while the service cannot be reached, instead of
        raising an error.
    buffer
        How many unanswered steps to keep at most.
    transport
        An ``httpx`` transport, for tests and proxies.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8400")
    >>> client.waiting
    0
    >>> client.close()
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        offline: bool = False,
        buffer: int = 100_000,
        transport: Any = None,
    ) -> None:
        self._talk = _Talk(url, token, buffer=buffer, offline=offline)
        self._httpx: ModuleType = require("httpx", extra="service")
        self._http = self._httpx.Client(
            base_url=self._talk.base,
            headers=self._talk.headers,
            timeout=timeout,
            transport=transport,
        )
        self._tries = 1 if offline else _TRIES

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many steps the service has not answered yet."""
        return self._talk.waiting

    def step(
        self, agent: str, run: str, step: int, state: Any, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Send one step of a run; return the service's answer, a dictionary.

        With ``offline=True``, the result is None while the service cannot be reached. ``more`` are
        further fields of the message, such as ``behavior``, ``group`` or ``signals``. If the
        service refuses the step, a `ServiceError` is raised.
        """
        return _unless_refused(
            self._run(self._talk.report(_message(agent, run, step, state, reward, more)))
        )

    def end(
        self, agent: str, run: str, step: int, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Tell the service that the run has ended; return the last answer about the run."""
        more["end"] = True
        return _unless_refused(
            self._run(self._talk.report(_message(agent, run, step, None, reward, more)))
        )

    def report(self, messages: Sequence[Message]) -> list[Answer]:
        """Send many messages; return the service's answers to them, in order.

        Steps that the service has not answered yet are sent first, and their answers come first.
        The answer to a refused message has an HTTP status number as its ``status``.
        """
        found: list[Answer] = self._run(self._talk.report_all(messages))
        return found

    def flush(self) -> list[Answer]:
        """Send all steps that the service has not answered yet; return their answers, in order."""
        found: list[Answer] = self._run(self._talk.flush())
        return found

    def close(self) -> None:
        """Close the connection; steps that the service has not answered are lost."""
        self._http.close()

    def _run(self, talk: Generator[bytes, Any, Any]) -> Any:
        return _driven(talk, self._sent)

    def _sent(self, body: bytes) -> tuple[int, bytes] | None:
        for attempt in range(self._tries):
            if attempt:
                time.sleep(_pause(attempt))
            try:
                response = self._http.post("/v1/steps", content=body)
            except self._httpx.TransportError:
                continue
            if response.status_code not in _PASSING:
                return response.status_code, response.content
        return None


class AsyncClient:
    """The same as `Client`, for programs that run on an event loop."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        offline: bool = False,
        buffer: int = 100_000,
        transport: Any = None,
    ) -> None:
        self._talk = _Talk(url, token, buffer=buffer, offline=offline)
        self._httpx: ModuleType = require("httpx", extra="service")
        self._http = self._httpx.AsyncClient(
            base_url=self._talk.base,
            headers=self._talk.headers,
            timeout=timeout,
            transport=transport,
        )
        self._tries = 1 if offline else _TRIES
        self._turn = asyncio.Lock()  # two tasks must not send the same steps out of order

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def waiting(self) -> int:
        """How many steps the service has not answered yet."""
        return self._talk.waiting

    async def step(
        self, agent: str, run: str, step: int, state: Any, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Send one step of a run; return the service's answer, a dictionary."""
        message = _message(agent, run, step, state, reward, more)
        return _unless_refused(await self._run(self._talk.report, message))

    async def end(
        self, agent: str, run: str, step: int, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Tell the service that the run has ended; return the last answer about the run."""
        more["end"] = True
        message = _message(agent, run, step, None, reward, more)
        return _unless_refused(await self._run(self._talk.report, message))

    async def report(self, messages: Sequence[Message]) -> list[Answer]:
        """Send many messages; return the service's answers to them, in order."""
        found: list[Answer] = await self._run(self._talk.report_all, messages)
        return found

    async def flush(self) -> list[Answer]:
        """Send all steps that the service has not answered yet; return their answers, in order."""
        found: list[Answer] = await self._run(self._talk.flush)
        return found

    async def close(self) -> None:
        """Close the connection; steps that the service has not answered are lost."""
        await self._http.aclose()

    async def _run(self, talk: Callable[..., Generator[bytes, Any, Any]], *given: Any) -> Any:
        async with self._turn:
            return await _driven_async(talk(*given), self._sent)

    async def _sent(self, body: bytes) -> tuple[int, bytes] | None:
        for attempt in range(self._tries):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            try:
                response = await self._http.post("/v1/steps", content=body)
            except self._httpx.TransportError:
                continue
            if response.status_code not in _PASSING:
                return response.status_code, response.content
        return None


def _driven(talk: Generator[bytes, Any, Any], send: Callable[[bytes], Any]) -> Any:
    try:
        body = next(talk)
        while True:
            body = talk.send(send(body))
    except StopIteration as end:
        return end.value


async def _driven_async(
    talk: Generator[bytes, Any, Any], send: Callable[[bytes], Awaitable[Any]]
) -> Any:
    try:
        body = next(talk)
        while True:
            body = talk.send(await send(body))
    except StopIteration as end:
        return end.value


def _message(
    agent: str, run: str, step: int, state: Any, reward: float | None, more: Mapping[str, Any]
) -> Message:
    found = {"agent": agent, "run": run, "step": step, "reward": _known(reward), **more}
    if state is None:
        return found
    if isinstance(state, Mapping):
        return {**found, "state": {str(name): _known(one) for name, one in state.items()}}
    values = state.tolist() if hasattr(state, "tolist") else list(state)
    return {**found, "state": [_known(one) for one in values]}


def _known(value: Any) -> Any:
    """The value as JSON can hold it: None for NaN, and a Python number for a NumPy number."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and plain != plain else plain


def _unless_refused(answer: Answer | None) -> Answer | None:
    if answer is not None and isinstance(answer.get("status"), int):
        why = answer.get("detail") or answer.get("title")
        raise ServiceError(f"the service refused the step: {why}")
    return answer


def _said(content: bytes) -> str:
    try:
        found = json.loads(content)
        return str(found.get("detail") or found.get("title"))
    except (ValueError, AttributeError):
        return repr(content[:200])


def _pause(attempt: int) -> float:
    return min(0.1 * 2.0**attempt, 5.0) * random.uniform(0.5, 1.0)
