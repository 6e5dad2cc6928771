"""The readings of a run that its watch keeps, so that it can be asked why p has moved."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Generic, Protocol, TypeVar

from ontarget._arguments import whole_number
from ontarget.errors import InputError

__all__ = ["KEPT", "Seen"]

KEPT: Final = 64  # besides the first; a watch over a run of a million steps must stay small
_LISTED = 8


class _AtStep(Protocol):
    @property
    def t(self) -> int: ...


R = TypeVar("R", bound=_AtStep)


class Seen(Generic[R]):
    """The first reading of a run that had an outlook, and the latest ones."""

    __slots__ = ("_first", "_latest")

    def __init__(self) -> None:
        self._first: R | None = None
        self._latest: deque[R] = deque(maxlen=KEPT)

    def add(self, reading: R) -> None:
        """Keep one more."""
        if self._first is None:
            self._first = reading
        self._latest.append(reading)

    def pair(self, since: Any = None) -> tuple[R, R | None]:
        """The last reading, and that of an earlier step: of the one before, unless one is named."""
        if not self._latest:
            raise InputError("explain needs a step that had an outlook; call step first")
        *earlier, now = self._latest
        if since is None:
            return now, earlier[-1] if earlier else None
        since = whole_number("since", since, least=0)
        assert self._first is not None
        kept = {one.t: one for one in (self._first, *earlier) if one is not now}
        if since not in kept:
            raise InputError(
                f"since needs an earlier step that had an outlook and that the watch still keeps "
                f"({_in_words(list(kept))}), got {since}"
            )
        return now, kept[since]


def _in_words(steps: list[int]) -> str:
    if not steps:
        return "there is none yet"
    if len(steps) <= _LISTED:
        return ", ".join(map(str, steps))
    return f"{steps[0]}, and some of {steps[1]} to {steps[-1]}"
