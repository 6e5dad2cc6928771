"""Compiled code of the Tamarisk simulator: one step of one river, or of many.

Every random number of a step has a fixed position in the episode's stream of random numbers. So
only numbers that matter are drawn (such as seeds on empty edges), and the others stay the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, KeyArray
from ontarget.domains.draws import below, stream, uniform

# Ordered from good to bad, so that a model that takes the code for a number does not go far wrong.
NATIVE: Final = 0
EMPTY: Final = 1
TAMARISK: Final = 2

NOTHING: Final = 0
ERADICATE: Final = 1
RESTORE: Final = 2
ERADICATE_AND_RESTORE: Final = 3
ILLEGAL: Final = -1


class Tables(NamedTuple):
    """A river's parameters as arrays, for the compiled code.

    Costs are counted in whole units of ``1 / units``, so that they add up exactly.
    """

    state_cost: NDArray[np.int64]  # (3,) by edge code
    action_cost: NDArray[np.int64]  # (3, 4) by edge code and action; ILLEGAL where not allowed
    budget: int
    units: float
    penalty: float
    outcome_below: FloatArray  # (3, 4, 2): cumulative chances of ending native, of native or empty
    order: NDArray[np.int64]  # (edges,) leaves to root: the policy's order
    pair: NDArray[np.int64]  # (edges, edges): the row of `seeds_below` for seeds from i to j
    seeds_below: FloatArray  # (2, rows, g + 1): binomial CDFs, native first
    guide: NDArray[np.int64]  # (2, rows, GUIDES): where the search of a CDF starts
    arrivals_below: FloatArray  # (n + 1,): the CDF of exogenous seeds; (0,) when off
    arrivals_guide: NDArray[np.int64]  # (GUIDES,)
    competition: float


@kernel
def binomial(u: float, cdf: FloatArray, guide: NDArray[np.int64]) -> int:
    """A draw from a distribution on 0, 1, 2, …: the smallest number whose CDF exceeds u."""
    value = int(guide[int(u * guide.size)])
    while u >= cdf[value]:
        value += 1
    return value


@kernel
def scatter(edges: NDArray[np.int8], keys: KeyArray) -> None:
    """Draw each edge's code at the start, the three codes being equally likely."""
    for row in range(edges.shape[0]):
        of_start = stream(keys[row], -1)
        for e in range(edges.shape[1]):
            edges[row, e] = below(of_start, e, 3)


@kernel
def decide(edges: NDArray[np.int8], actions: NDArray[np.int8], tables: Tables) -> None:
    """Write the fixed policy's actions: invaded edges first, leaves to root, within the budget."""
    for row in range(edges.shape[0]):
        left = tables.budget
        actions[row] = NOTHING
        for wanted, action in ((TAMARISK, ERADICATE_AND_RESTORE), (EMPTY, RESTORE)):
            cost = tables.action_cost[wanted, action]
            for e in tables.order:
                if edges[row, e] == wanted and cost <= left:
                    actions[row, e] = action
                    left -= cost


@kernel
def transition(
    edges: NDArray[np.int8], actions: NDArray[np.int8], of_step: np.uint64, tables: Tables
) -> float:
    """The reward of the actions in one river, whose edges are updated in place."""
    n_edges = edges.size
    total, spent = 0, 0
    for e in range(n_edges):
        cost = tables.action_cost[edges[e], actions[e]]
        if cost == ILLEGAL:
            return tables.penalty
        spent += cost
        total += tables.state_cost[edges[e]]
    if spent > tables.budget:
        return tables.penalty

    # Treatment or death: one draw per edge.
    for e in range(n_edges):
        u = uniform(of_step, e)
        chances = tables.outcome_below[edges[e], actions[e]]
        if u < chances[0]:
            edges[e] = NATIVE
        elif u < chances[1]:
            edges[e] = EMPTY
        else:
            edges[e] = TAMARISK

    # Seeds settle on edges that are empty now, all at once: what settles makes no seeds this step.
    settled = edges.copy()
    for e in range(n_edges):
        if edges[e] == EMPTY:
            settled[e] = _settle(edges, e, of_step, tables)
    edges[:] = settled
    # An exact whole number over an exact whole number: the float nearest to the decimal.
    return -((total + spent) / tables.units) + 0.0


@inner_kernel
def _settle(edges: NDArray[np.int8], e: int, of_step: np.uint64, tables: Tables) -> int:
    """The code of an edge that was empty, after the seeds that reach it have competed."""
    n_edges = edges.size
    native, tamarisk = 0, 0
    place = (e + 2) * n_edges
    for source in range(n_edges):
        code = edges[source]
        if code != EMPTY:
            species = 1 if code == TAMARISK else 0
            row = tables.pair[source, e]
            u = uniform(of_step, place + source)
            seeds = binomial(u, tables.seeds_below[species, row], tables.guide[species, row])
            if species == 1:
                tamarisk += seeds
            else:
                native += seeds
    if tables.arrivals_below.size > 0:
        place = (n_edges + 2) * n_edges + 2 * e
        cdf, guide = tables.arrivals_below, tables.arrivals_guide
        native += binomial(uniform(of_step, place), cdf, guide)
        tamarisk += binomial(uniform(of_step, place + 1), cdf, guide)
    if native + tamarisk == 0:
        return EMPTY
    weighted = tables.competition * tamarisk
    return TAMARISK if uniform(of_step, n_edges + e) * (weighted + native) < weighted else NATIVE


@kernel
def advance(
    edges: NDArray[np.int8],
    actions: NDArray[np.int8],
    of_step: KeyArray,
    tables: Tables,
    rewards: FloatArray,
) -> None:
    """Advance every river by one step, and write the rewards."""
    for row in range(edges.shape[0]):
        rewards[row] = transition(edges[row], actions[row], of_step[row], tables)
