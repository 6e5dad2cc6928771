"""The interface of every simulated domain, and functions for its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray
from ontarget.errors import Argument, InputError

# A simulator's full state: a dataclass of arrays whose first axis counts the episodes.
S = TypeVar("S")
# Name -> the module and the class; nothing is imported before it is asked for.
DOMAINS: Final = {
    "skirmish": ("ontarget.domains.skirmish", "Skirmish"),
    "smax": ("ontarget.domains.smax", "Smax"),
    "tamarisk": ("ontarget.domains.tamarisk", "Tamarisk"),
}


@runtime_checkable
class Domain(Protocol[S]):
    """A simulator of many independent episodes at once, under the domain's fixed policy.

    A state ``S`` is a dataclass of arrays with one row per episode. It has everything that the
    episode's future depends on. Every random number is computed from the episode's key and the step
    (see `draws`), so an episode does not depend on which others are simulated with it.
    """

    @property
    def name(self) -> str:
        """The domain's name in messages and on the command line."""
        ...

    @property
    def horizon(self) -> int:
        """The number of steps of every episode."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns that `observe` returns."""
        ...

    @property
    def categorical(self) -> tuple[str, ...]:
        """The names of the features that are codes of categories rather than amounts."""
        ...

    def start(self, keys: KeyArray, /) -> S:
        """The state at t = 0 of one episode for each key."""
        ...

    def observe(self, state: S, /) -> FloatArray:
        """The features of each episode that are known before acting: one row per episode."""
        ...

    def step(self, state: S, t: int, keys: KeyArray, /) -> FloatArray:
        """The rewards of acting at step t; the state is advanced to step t + 1 in place."""
        ...


def count(state: Any) -> int:
    """The number of episodes (rows) in a state."""
    return int(next(iter(_arrays(state).values())).shape[0])


def take(state: S, index: IndexArray) -> S:
    """A copy of the state with the chosen episodes only; an index may repeat."""
    return type(state)(**{name: array[index] for name, array in _arrays(state).items()})


def join(states: Sequence[S]) -> S:
    """One state with the episodes of all these states, in their order."""
    if not states:
        raise InputError("join needs at least one state, got none")
    parts = [_arrays(state) for state in states]
    return type(states[0])(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )


def _arrays(state: Any) -> dict[str, AnyArray]:
    if not is_dataclass(state) or isinstance(state, type):
        raise InputError(f"a domain's state needs to be a dataclass of arrays, got {state!r:.80}")
    return {field.name: getattr(state, field.name) for field in fields(state)}


@overload
def domain_of(domain: Domain[S]) -> Domain[S]: ...
@overload
def domain_of(domain: str, *, preset: str | None = None) -> Domain[Any]: ...
def domain_of(domain: Domain[S] | str, *, preset: str | None = None) -> Domain[S]:
    """The simulated task (domain) with this name; ``preset`` chooses its parameters, if any."""
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
