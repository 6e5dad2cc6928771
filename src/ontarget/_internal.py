"""A mark for methods that are public to ontarget's own modules only."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["internal", "is_internal"]

_MARK = "__ontarget_internal__"
_Method = TypeVar("_Method")


def internal(method: _Method) -> _Method:
    """Mark a method that other modules of ontarget call, and that users should not.

    The reference leaves it out, and later versions may change it without notice. The function
    itself is returned, so the mark costs nothing in a call.
    """
    setattr(method, _MARK, True)
    return method


def is_internal(method: object) -> bool:
    """Whether a function, or the function behind a property, has the mark."""
    return bool(getattr(getattr(method, "fget", method), _MARK, False))
