"""Public names that are imported on first use, so that importing a package is fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazy_names"]


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
