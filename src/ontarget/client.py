"""A client of the ontarget service: it sends steps and returns the answers, in order."""

from __future__ import annotations

import json
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, Final, TypeAlias

from ontarget._package import require
from ontarget.errors import Argument, InputError, ServiceError

Message: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

_TRIES: Final = 6
_BATCH: Final = 1_000
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # worth sending again


class Client:
    """A client of the ontarget service that waits for each answer.

    If a request fails, the client sends it again; the service accepts a repeated step without harm.
    With ``offline``, the client keeps steps while the service cannot be reached, and sends them
    first, in order, as soon as it can be reached again. Threads may share a client; on an event
    loop, call its methods with ``asyncio.to_thread``.

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
        if not url.startswith(("http://", "https://")):
            raise InputError(Argument("url"), f" needs http:// or https://, got {url!r}")
        self._base, self._most, self._offline = url.rstrip("/"), buffer, offline
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._httpx = require("httpx", extra="service")
        self._http = self._httpx.Client(
            base_url=self._base, headers=headers, timeout=timeout, transport=transport
        )
        self._tries = 1 if offline else _TRIES
        self._waiting: deque[Message] = deque()  # not answered yet, oldest first
        self._turn = Lock()  # two threads must not send the same steps out of order

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many steps the service has not answered yet."""
        return len(self._waiting)

    def step(
        self, agent: str, run: str, step: int, state: Any, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Send one step of a run; return the service's answer, a dictionary.

        With ``offline=True``, the result is None while the service cannot be reached. ``more`` are
        further fields of the message, such as ``behavior``, ``group`` or ``signals``. If the
        service refuses the step, a `ServiceError` is raised.
        """
        with self._turn:
            answers = self._report([_message(agent, run, step, state, reward, more)])
            return _unless_refused(answers[-1] if answers and not self._waiting else None)

    def end(
        self, agent: str, run: str, step: int, reward: float | None = 0.0, **more: Any
    ) -> Answer | None:
        """Tell the service that the run has ended; return the last answer about the run."""
        return self.step(agent, run, step, None, reward, **more, end=True)

    def report(self, messages: Sequence[Message]) -> list[Answer]:
        """Send many messages; return the service's answers to them, in order.

        Steps that the service has not answered yet are sent first, and their answers come first.
        The answer to a refused message has an HTTP status number as its ``status``.
        """
        with self._turn:
            return self._report(messages)

    def flush(self) -> list[Answer]:
        """Send all steps that the service has not answered yet; return their answers, in order."""
        return self.report([])

    def close(self) -> None:
        """Close the connection; steps that the service has not answered are lost."""
        self._http.close()

    def _report(self, messages: Sequence[Message]) -> list[Answer]:
        for one in messages:
            if len(self._waiting) >= self._most:
                raise ServiceError(
                    f"{self._most:,} steps wait to be sent, as many as buffer= allows, and the "
                    "service does not answer; bring the service back, or pass a larger buffer="
                )
            self._waiting.append(dict(one))
        answers: list[Answer] = []
        while self._waiting:
            batch = list(islice(self._waiting, _BATCH))
            found = self._sent(json.dumps(batch).encode())
            if found is None:
                if self._offline:
                    return answers
                raise ServiceError(
                    f"{self._base} does not answer; {self.waiting:,} steps wait to be sent"
                )
            status, content = found
            for _ in batch:  # what was refused would be refused again
                self._waiting.popleft()
            if status != 200:
                raise ServiceError(f"the service refused the request: {_said(content)}")
            answers += json.loads(content)
        return answers

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
