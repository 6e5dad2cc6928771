"""The mark of methods that are for ontarget's own modules."""

from __future__ import annotations

from typing import TypeVar

_MARK = "__ontarget_internal__"
_Method = TypeVar("_Method")


def internal(method: _Method) -> _Method:
    """Mark a method that other modules of ontarget call, and that users should not.

    The API reference leaves a marked method out, and later versions may change it without notice.
    The decorator returns the function itself, so marking does not slow down calls.
    """
    setattr(method, _MARK, True)
    return method


def is_internal(method: object) -> bool:
    """Whether `internal` has marked this function, or the function behind this property."""
    return bool(getattr(getattr(method, "fget", method), _MARK, False))
