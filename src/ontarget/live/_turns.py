"""One thread at a time: a second one is refused, for kernels let go of the interpreter."""

from __future__ import annotations

from threading import Lock

from ontarget.errors import InputError

__all__ = ["OneThread"]


class OneThread:
    """A context that a second thread cannot enter; written out, for it stands in every step."""

    __slots__ = ("_lock", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(
                f"this {self._what} is at work in another thread; give each thread one of its own, "
                "or take turns with a lock"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()
