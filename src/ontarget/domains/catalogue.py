"""The simulated tasks (domains) that come with the library, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, TypeVar, overload

from ontarget.domains.domain import Domain
from ontarget.errors import Argument, InputError

S = TypeVar("S")

# Name -> the module and the class; nothing is imported before it is asked for.
DOMAINS: Final = {
    "skirmish": ("ontarget.domains.skirmish", "Skirmish"),
    "smax": ("ontarget.domains.smax", "Smax"),
    "tamarisk": ("ontarget.domains.tamarisk", "Tamarisk"),
}


@overload
def domain_of(domain: Domain[S]) -> Domain[S]: ...
@overload
def domain_of(domain: str, *, preset: str | None = None) -> Domain[Any]: ...
def domain_of(domain: Domain[S] | str, *, preset: str | None = None) -> Domain[S]:
    """The simulated task (domain) with this name; ``preset`` chooses its parameters, if any.

    Examples
    --------
    >>> domain_of("tamarisk", preset="competition")
    Tamarisk('competition')
    """
    if not isinstance(domain, str):
        if isinstance(domain, type) or not isinstance(domain, Domain):
            raise InputError(
                Argument("domain"),
                f" needs one of {', '.join(DOMAINS)}, or an object that follows Domain, "
                f"got {domain!r:.80}",
            )
        return domain
    if domain not in DOMAINS:
        raise InputError(Argument("domain"), f" needs one of {', '.join(DOMAINS)}, got {domain!r}")
    if preset is not None and domain != "tamarisk":
        raise InputError(
            Argument("preset"), f" is only for the domain tamarisk, got {domain!r}; leave it out"
        )
    module, kind = DOMAINS[domain]
    build: Any = getattr(import_module(module), kind)
    found: Domain[S] = build() if preset is None else build(preset)
    return found
