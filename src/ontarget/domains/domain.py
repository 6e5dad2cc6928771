"""The interface of every simulated domain, functions for its states, and its random numbers.

Each episode has a 64-bit key, a hash of (seed, episode number). The key and a step give a stream of
random numbers, and a counter selects a number of the stream. So a random number does not depend on
the order or thread in which the episode is simulated, or on which episodes are simulated together.
The generator is SplitMix64 (Steele, Lea and Flood, 2014), which can be read at any position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from ontarget._kernel import kernel
from ontarget._keyed import GAMMA, keyed_hash, keys_of, mix_word
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


_STEP = np.uint64(0xD1342543DE82EF95)
_UNIT = 2.0**-53


def episode_keys(seed: int, start: int, stop: int, *purpose: int | str) -> KeyArray:
    """The keys of episodes ``start`` to ``stop - 1``, as hashes of seed and episode number."""
    return keyed_hash(keys_of(np.arange(start, stop, dtype=np.uint64)), seed, *purpose)


@kernel
def stream(key: np.uint64, t: int) -> np.uint64:
    """The stream of random numbers that belongs to an episode's key at step t."""
    return mix_word(np.uint64(key) ^ mix_word(np.uint64(t + 2) * _STEP))


@kernel
def streams(keys: KeyArray, t: int) -> KeyArray:
    """The stream of random numbers of each key at step t."""
    of_step = np.empty_like(keys)
    for row in range(keys.size):
        of_step[row] = stream(keys[row], t)
    return of_step


@kernel
def uniform(of_stream: np.uint64, counter: int) -> float:
    """The random number in [0, 1) at position ``counter`` of a stream of random numbers."""
    # Numba adds signed and unsigned integers as floats, so every word is made unsigned first.
    word = np.uint64(of_stream) + np.uint64(counter) * GAMMA
    return np.float64(mix_word(word) >> np.uint64(11)) * _UNIT


@kernel
def below(of_stream: np.uint64, counter: int, n: int) -> int:
    """A random whole number from 0 to n - 1, for n up to a few thousand."""
    return int(uniform(of_stream, counter) * n)


def uniforms(keys: KeyArray, t: int, n: int) -> FloatArray:
    """Random numbers in [0, 1): n for each episode's key at step t; step -1 is before the first."""
    out = np.empty((keys.size, n))
    _fill(streams(keys, t), out)
    return out


@kernel
def _fill(of_streams: KeyArray, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = uniform(of_streams[i], j)
