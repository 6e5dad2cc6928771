"""The package itself: its version, its optional packages, and the mark of its own methods."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from types import ModuleType
from typing import TypeVar

from ontarget.errors import MissingExtraError

__version__ = version("ontarget")

_MARK = "__ontarget_internal__"
_Method = TypeVar("_Method")


def internal(method: _Method) -> _Method:
    """Mark a method that other modules of ontarget call, and that users should not."""
    setattr(method, _MARK, True)
    return method


def is_internal(method: object) -> bool:
    """Whether `internal` has marked this function, or the function behind this property."""
    return bool(getattr(getattr(method, "fget", method), _MARK, False))


def require(module: str, *, extra: str) -> ModuleType:
    """The imported module. If it is not installed, a `MissingExtraError` says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is not installed; run: pip install 'ontarget[{extra}]'"
        ) from error
