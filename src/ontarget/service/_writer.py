"""The one thread that writes: steps that wait together are committed together."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from ontarget.errors import ServiceError, StoreError
from ontarget.service.engine import Engine, Reply
from ontarget.service.messages import StepMessage

__all__ = ["BusyError", "Writer"]

_TOGETHER: Final = 4_000  # steps of one transaction, about: more would keep the first one waiting

_Steps: TypeAlias = tuple[Sequence[StepMessage], "Future[list[Reply]]"]
_Job: TypeAlias = tuple[Callable[[], Any], "Future[Any]"]


class BusyError(ServiceError):
    """More steps are waiting than the service takes on."""


class Writer:
    """Runs the engine, and whatever else writes, in one thread.

    Parameters
    ----------
    engine
        What takes the steps.
    most_waiting
        How many steps may wait to be written.
    committed
        Called from the writer's thread after every commit.
    """

    def __init__(self, engine: Engine, *, most_waiting: int, committed: Callable[[], None]) -> None:
        self._engine = engine
        self._most = most_waiting
        self._committed = committed
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Steps | _Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ontarget writer", daemon=True)
        self._closed = False
        self._thread.start()

    def take(self, messages: Sequence[StepMessage]) -> Future[list[Reply]]:
        """The replies to these messages, once they are on disk."""
        with self._lock:
            if self._closed:
                raise BusyError("the service is shutting down")
            if self._waiting and self._waiting + len(messages) > self._most:
                raise BusyError(f"{self._waiting:,} steps are waiting to be written; send again")
            self._waiting += len(messages)
        found: Future[list[Reply]] = Future()
        self._jobs.put((messages, found))
        return found

    def run(self, work: Callable[[], Any]) -> Future[Any]:
        """What a function gives that writes to the store."""
        with self._lock:
            if self._closed:
                raise BusyError("the service is shutting down")
        found: Future[Any] = Future()
        self._jobs.put((work, found))
        return found

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        with self._lock:
            self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        held: _Steps | _Job | None = None
        while True:
            job = self._jobs.get() if held is None else held
            held = None
            if job is None:
                return
            if callable(job[0]):
                _settle([job[1]], lambda work=job[0]: [work()])
                self._committed()
                continue
            together: list[_Steps] = [job]  # type: ignore[list-item]  # not callable: steps
            size = len(job[0])
            while size < _TOGETHER:
                try:
                    more = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if more is None or callable(more[0]):
                    held = more
                    if more is None:
                        self._jobs.put(None)
                    break
                together.append(more)  # type: ignore[arg-type]  # as above
                size += len(more[0])
            self._take(together)

    def _take(self, together: list[_Steps]) -> None:
        futures = [found for _, found in together]
        try:
            _settle(futures, lambda: self._replies(together))
        finally:
            with self._lock:
                self._waiting -= sum(len(messages) for messages, _ in together)
        self._committed()

    def _replies(self, together: list[_Steps]) -> list[list[Reply]]:
        replies = self._engine.take([one for messages, _ in together for one in messages])
        ends, found = 0, []
        for messages, _ in together:
            found.append(replies[ends : ends + len(messages)])
            ends += len(messages)
        return found


def _settle(futures: Sequence[Future[Any]], work: Callable[[], Sequence[Any]]) -> None:
    """Give each future its part of what the work gives, or all of them what it raises."""
    live = [one.set_running_or_notify_cancel() for one in futures]
    try:
        results = work()
    except BaseException as error:  # the thread must outlive whatever went wrong
        wrong = error if isinstance(error, Exception) else StoreError(str(error))
        for alive, one in zip(live, futures, strict=True):
            if alive:
                one.set_exception(wrong)
        return
    for alive, one, result in zip(live, futures, results, strict=True):
        if alive:
            one.set_result(result)
