"""One thread at a time: a second one is refused, for kernels let go of the interpreter."""

from __future__ import annotations

from collections.abc import Callable

from ontarget.errors import InputError

__all__ = ["Turn"]


class Turn:
    """A turn that one thread can hold, as a context; a second thread gets an `InputError`.

    Entering and leaving a context are two calls too many in every step of a watch. There ``take``,
    which raises an IndexError if the turn is taken, and ``give`` do it: a list's own ``pop`` and
    ``append``, which no thread can interrupt, in a tenth of a microsecond.
    """

    __slots__ = ("_what", "give", "take")

    def __init__(self, what: str) -> None:
        free = [None]
        self.take: Callable[[], None] = free.pop
        self.give: Callable[[None], None] = free.append
        self._what = what

    def __enter__(self) -> None:
        try:
            self.take()
        except IndexError:
            raise self.refusal() from None

    def __exit__(self, *_: object) -> None:
        self.give(None)

    def refusal(self) -> InputError:
        """The error of a second thread."""
        return InputError(
            f"this {self._what} is at work in another thread; give each thread one of its own, "
            "or take turns with a lock"
        )
