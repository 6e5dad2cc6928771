"""The Tamarisk domain: simulates many rivers at once, under a fixed policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ontarget._typing import FloatArray, KeyArray
from ontarget.domains.draws import streams
from ontarget.domains.tamarisk._kernel import (
    EMPTY,
    ERADICATE,
    ERADICATE_AND_RESTORE,
    ILLEGAL,
    NOTHING,
    RESTORE,
    TAMARISK,
    Tables,
    advance,
    decide,
    scatter,
)
from ontarget.domains.tamarisk._parameters import (
    AMOUNTS,
    PRESETS,
    TamariskParameters,
    dispersal_kernel,
    downstream_line,
    treatment_chances,
)
from ontarget.errors import InputError

_GUIDES: Final = 256


@dataclass(frozen=True)
class Rivers:
    """The state of many rivers: an (episodes, edges) array of edge codes."""

    edges: NDArray[np.int8]


class Tamarisk:
    """The Tamarisk domain: simulates many rivers at once, under a fixed policy.

    The policy is our choice; the paper says only that its own is based on cited work. Our policy
    goes from the leaves to the root, for seven edges in the order 3, 4, 5, 6, 1, 2, 0. First it
    eradicates and restores every tamarisk edge that the budget allows, then it restores empty
    edges. It never exceeds the budget.

    The features are the states of the edges, which are the simulator's full state. They are
    categories (``native`` 0, ``empty`` 1, ``tamarisk`` 2) whose codes go from good to bad.

    Parameters
    ----------
    parameters
        The name of a preset, or a `TamariskParameters`.

    Examples
    --------
    >>> from ontarget.domains.draws import episode_keys
    >>> domain, keys = Tamarisk("paper"), episode_keys(0, 0, 2)
    >>> rivers = domain.start(keys)
    >>> domain.observe(rivers).shape
    (2, 7)
    >>> rewards = domain.step(rivers, 0, keys)
    >>> bool((rewards <= 0.0).all())
    True
    """

    name: Final = "tamarisk"

    def __init__(self, parameters: str | TamariskParameters = "paper") -> None:
        if isinstance(parameters, str):
            if parameters not in PRESETS:
                raise InputError(
                    f"a preset of Tamarisk needs one of {', '.join(PRESETS)}, got {parameters!r}"
                )
            parameters = PRESETS[parameters]
        self.parameters = parameters

    @property
    def horizon(self) -> int:
        """The number of steps of every episode."""
        return self.parameters.horizon

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features: one per edge of the river."""
        return tuple(f"edge_{e}" for e in range(self.parameters.edges))

    @property
    def categorical(self) -> tuple[str, ...]:
        """The names of the categorical features: all, because an edge's state is a category."""
        return self.features

    @cached_property
    def tables(self) -> Tables:
        """The parameters as arrays, for the compiled code."""
        return _tables(self.parameters)

    def start(self, keys: KeyArray) -> Rivers:
        """The rivers at t = 0; an edge's three states are equally likely."""
        edges = np.empty((keys.size, self.parameters.edges), dtype=np.int8)
        scatter(edges, keys)
        return Rivers(edges)

    def observe(self, state: Rivers) -> FloatArray:
        """The edge codes as features, one row per river."""
        return state.edges.astype(np.float64)

    def act(self, state: Rivers) -> NDArray[np.int8]:
        """The fixed policy's actions: one row per river, and one column per edge."""
        actions = np.empty_like(state.edges)
        decide(state.edges, actions, self.tables)
        return actions

    def step(self, state: Rivers, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of one step under the fixed policy; the rivers are advanced in place."""
        return self.apply(state, self.act(state), t, keys)

    def apply(self, state: Rivers, actions: NDArray[np.int8], t: int, keys: KeyArray) -> FloatArray:
        """The rewards of the given actions at step t; the rivers are advanced in place.

        ``actions`` has one row per river and one column per edge, as `act` returns them.
        """
        rewards = np.empty(keys.size)
        advance(state.edges, actions, streams(keys, t), self.tables, rewards)
        return rewards

    def __repr__(self) -> str:
        named = next((name for name, p in PRESETS.items() if p == self.parameters), None)
        return f"Tamarisk({named!r})" if named else f"Tamarisk({self.parameters!r})"


def _tables(p: TamariskParameters) -> Tables:
    units = math.lcm(*(_exact(getattr(p, name)).denominator for name in AMOUNTS))
    spread = dispersal_kernel(p)
    rates, pair = np.unique(spread, return_inverse=True)
    most = max(p.native_seeds, p.tamarisk_seeds)
    seeds_below = np.stack(
        [
            np.stack([_binomial_cdf(n, rate, most) for rate in rates])
            for n in (p.native_seeds, p.tamarisk_seeds)
        ]
    )
    arrivals_below = _binomial_cdf(p.arrivals, p.arrival_rate) if p.arrivals else np.empty(0)
    depth = np.array([len(downstream_line(e)) for e in range(p.edges)])
    tables = Tables(
        state_cost=np.array(
            [0, _whole(units, p.empty_cost), _whole(units, p.invaded_cost, p.tree_cost)]
        ),
        action_cost=_action_costs(p, units),
        budget=_whole(units, p.budget),
        units=float(units),
        penalty=float(p.penalty),
        outcome_below=np.cumsum(treatment_chances(p), axis=2)[:, :, :2].copy(),
        order=np.argsort(-depth, kind="stable").astype(np.int64),
        pair=pair.reshape(spread.shape).astype(np.int64),
        seeds_below=seeds_below,
        guide=np.stack([np.stack([_guide(cdf) for cdf in table]) for table in seeds_below]),
        arrivals_below=arrivals_below,
        arrivals_guide=_guide(arrivals_below) if p.arrivals else np.empty(0, np.int64),
        competition=float(p.competition),
    )
    for array in tables:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return tables


def _action_costs(p: TamariskParameters, units: int) -> NDArray[np.int64]:
    costs = np.full((3, 4), ILLEGAL, dtype=np.int64)
    costs[:, NOTHING] = 0
    costs[TAMARISK, ERADICATE] = _whole(units, p.eradicate_cost, p.eradicate_tree_cost)
    costs[EMPTY, RESTORE] = _whole(units, p.restore_cost, p.restore_slot_cost)
    costs[TAMARISK, ERADICATE_AND_RESTORE] = _whole(units, p.restore_cost, p.replace_tree_cost)
    return costs


def _exact(amount: float) -> Fraction:
    """A decimal number, just as the user typed it, as an exact fraction."""
    return Fraction(str(amount))


def _whole(units: int, *amounts: float) -> int:
    return int(sum(_exact(amount) for amount in amounts) * units)


def _binomial_cdf(n: int, rate: float, most: int | None = None) -> FloatArray:
    """The distribution function (CDF) of Binomial(n, rate) at 0, 1, …, most.

    It is exactly 1 from n on, so that searches end.
    """
    values = np.arange((n if most is None else most) + 1)
    cdf: FloatArray = bdtr(np.minimum(values, n).astype(np.float64), n, rate)
    cdf[n:] = 1.0
    return cdf


def _guide(cdf: FloatArray) -> NDArray[np.int64]:
    """A table that speeds up searches of the CDF.

    It divides (0, 1) into many equal parts. For a number in a part, a search may start at the
    part's entry.
    """
    bins = np.arange(_GUIDES) / _GUIDES
    return np.searchsorted(cdf, bins, side="right").astype(np.int64)
