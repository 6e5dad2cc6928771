"""The one thread that writes to the database; all steps that are waiting are written together."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from ontarget.errors import ServiceError, StoreError
from ontarget.service.engine import Engine, Reply
from ontarget.service.messages import StepMessage

_TOGETHER: Final = 4_000  # steps of one transaction, about: more would keep the first one waiting


Replies: TypeAlias = list[Reply] | Exception  # to one request, or why there are none


class _Steps(NamedTuple):
    requests: Sequence[Sequence[StepMessage]]
    done: Callable[[list[Replies]], None]


class _Job(NamedTuple):
    work: Callable[[], Any]
    found: Future[Any]


class BusyError(ServiceError):
    """A request is refused because too many steps are already waiting to be written."""


class Writer:
    """Runs the engine, and every other function that writes to the database, in one thread."""

    def __init__(self, engine: Engine, *, most_waiting: int, committed: Callable[[], None]) -> None:
        self._engine = engine
        self._most = most_waiting
        self._committed = committed
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Steps | _Job | None] = queue.SimpleQueue()
        self._held: deque[_Job | None] = deque()  # came while steps were gathered
        self._thread = threading.Thread(target=self._work, name="ontarget writer", daemon=True)
        self._closed = False
        self._thread.start()

    def take(self, messages: Sequence[StepMessage]) -> Future[list[Reply]]:
        """A future with the replies to these messages; it is done once the messages are on disk."""
        self.admit(len(messages))
        found: Future[list[Reply]] = Future()
        self.submit([messages], lambda replies: _settle(found, replies[0]))
        return found

    def admit(self, n: int) -> None:
        """Count n more steps as waiting to be written; raise `BusyError` if there are too many."""
        with self._lock:
            if self._closed:
                raise BusyError("the service is shutting down")
            if self._waiting and self._waiting + n > self._most:
                raise BusyError(
                    f"{self._waiting:,} steps are waiting to be written; send this again later"
                )
            self._waiting += n

    def submit(
        self, requests: Sequence[Sequence[StepMessage]], done: Callable[[list[Replies]], None]
    ) -> None:
        """Write the steps of several requests, which `admit` has let in."""
        with self._lock:
            if not self._closed:
                self._jobs.put(_Steps(requests, done))
                return
        done([BusyError("the service is shutting down")] * len(requests))

    def run(self, work: Callable[[], Any]) -> Future[Any]:
        """Run a function that writes to the database, in the writer's thread."""
        with self._lock:
            if self._closed:
                raise BusyError("the service is shutting down")
            found: Future[Any] = Future()
            self._jobs.put(_Job(work, found))
        return found

    def close(self) -> None:
        """Finish the work that is waiting, then stop the thread."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, _Job):
                try:
                    result = job.work()
                except Exception as error:  # as below
                    result = error
                _settle(job.found, result)
                self._committed()
            else:
                self._take(job)

    def _next(self) -> _Job | list[_Steps] | None:
        """The next piece of work: a function to run, or all steps that wait; None when closed."""
        first = self._held.popleft() if self._held else self._jobs.get()
        if not isinstance(first, _Steps):
            return first
        together, size = [first], _size(first.requests)
        with suppress(queue.Empty):
            while size < _TOGETHER:
                more = self._jobs.get_nowait()
                if not isinstance(more, _Steps):
                    self._held.append(more)
                    break
                together.append(more)
                size += _size(more.requests)
        return together

    def _take(self, together: list[_Steps]) -> None:
        requests = [one for group in together for one in group.requests]
        replies = iter(self._replies(requests))
        with self._lock:
            self._waiting -= _size(requests)
        for group in together:
            group.done([next(replies) for _ in group.requests])
        self._committed()

    def _replies(self, requests: Sequence[Sequence[StepMessage]]) -> list[Replies]:
        try:
            replies = iter(self._engine.take([one for some in requests for one in some]))
        except Exception as error:  # the thread must outlive whatever went wrong
            if len(requests) > 1 and not isinstance(error, StoreError):
                # One by one, so that one request cannot spoil the others.
                return [reply for one in requests for reply in self._replies([one])]
            return [error] * len(requests)
        return [[next(replies) for _ in some] for some in requests]


def _size(requests: Sequence[Sequence[StepMessage]]) -> int:
    return sum(len(one) for one in requests)


def _settle(found: Future[Any], result: Any) -> None:
    """Set the result or the error of a future, unless the future was cancelled."""
    if not found.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        found.set_exception(result)
    else:
        found.set_result(result)
