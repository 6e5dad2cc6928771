"""Imports of optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType

from ontarget.errors import MissingExtraError


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
