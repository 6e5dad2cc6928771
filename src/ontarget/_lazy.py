"""Helpers for packages: import public names on first use, and mark internal methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeVar

_MARK = "__ontarget_internal__"
_Method = TypeVar("_Method")


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__`` for names that live in other modules.

    Parameters
    ----------
    package
        The package's ``__name__``.
    homes
        Public name -> the module that holds it.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # it becomes the package's own
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(homes)

    return __getattr__, __dir__


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
