"""The domains by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from ontarget.domains.domain import Domain
from ontarget.errors import InputError

__all__ = ["DOMAINS", "named"]

# Name -> the module and the class; nothing is imported before it is asked for.
DOMAINS: Final = {
    "skirmish": ("ontarget.domains.skirmish", "Skirmish"),
    "tamarisk": ("ontarget.domains.tamarisk", "Tamarisk"),
}


def named(name: str, *, preset: str | None = None) -> Domain[Any]:
    """The domain of that name, with a preset's parameters where it has presets.

    Examples
    --------
    >>> named("tamarisk", preset="competition")
    Tamarisk('competition')
    """
    if name not in DOMAINS:
        raise InputError(f"domain needs one of {', '.join(DOMAINS)}, got {name!r}")
    module, kind = DOMAINS[name]
    build = getattr(import_module(module), kind)
    if preset is None:
        domain: Domain[Any] = build()
        return domain
    if name != "tamarisk":
        raise InputError(f"preset needs a domain that has presets, tamarisk, got {name!r}")
    chosen: Domain[Any] = build(preset)
    return chosen
