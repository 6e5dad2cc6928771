"""Tamarisk's exact transition probabilities, and the exact distribution of its return.

A river of seven edges has 3⁷ = 2,187 states, few enough to enumerate. Given the plants that are
left after treatment and death, what grows on one empty edge is independent of the other edges. So a
row of the transition matrix is a sum of products of small vectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from ontarget._grid import grid_of
from ontarget._typing import ArrayLike, FloatArray, IndexArray
from ontarget.domains._tamarisk_kernels import EMPTY, NATIVE, TAMARISK
from ontarget.domains.tamarisk import (
    Rivers,
    Tamarisk,
    TamariskParameters,
    dispersal_kernel,
    treatment_chances,
)
from ontarget.errors import Argument, InputError
from ontarget.target import Target

_MOST_EDGES: Final = 7
_ROWS_AT_ONCE: Final = 256


def rivers(edges: int) -> Rivers:
    """Every state of a river with this many edges, in the order of `river_index`.

    Examples
    --------
    >>> rivers(1).edges.tolist()
    [[0], [1], [2]]
    """
    if not 1 <= edges <= _MOST_EDGES:
        raise InputError(
            Argument("edges"),
            f" needs at most {_MOST_EDGES} to enumerate 3**edges states, got {edges}; "
            "use rollouts (true_probability) for a larger river",
        )
    grid = np.indices((3,) * edges, dtype=np.int8)
    return Rivers(grid.reshape(edges, -1).T.copy())


def river_index(state: Rivers) -> IndexArray:
    """The position of each river in the array that `rivers` returns."""
    powers = 3 ** np.arange(state.edges.shape[1])[::-1]
    index: IndexArray = (state.edges.astype(np.intp) * powers).sum(axis=1)
    return index


def settling_chances(parameters: TamariskParameters, standing: Rivers) -> FloatArray:
    """The probability of each edge state after seeds have settled, as (rivers, edges, 3)."""
    p, n_edges = parameters, parameters.edges
    spread = dispersal_kernel(p)
    degree = n_edges * max(p.native_seeds, p.tamarisk_seeds) + 2 * p.arrivals
    roots, weights = roots_legendre(max(64, degree // 2 + 1))
    nodes, weights = (roots + 1.0) / 2.0, weights / 2.0
    # For β ≠ 1 one count is stretched by a power of u; stretch so that the power is at least 1.
    beta = p.competition
    u_native, u_tamarisk = (nodes, nodes**beta) if beta >= 1.0 else (nodes ** (1 / beta), nodes)
    inner = beta * nodes ** (beta - 1.0) if beta >= 1.0 else np.ones_like(nodes)

    chances = np.zeros((standing.edges.shape[0], n_edges, 3))
    for code in (NATIVE, TAMARISK):
        chances[:, :, code] = standing.edges == code
    for edge in range(n_edges):
        rows = np.flatnonzero(standing.edges[:, edge] == EMPTY)
        plants = standing.edges[rows]
        native = _Seeds(p.native_seeds, spread[:, edge], p).at(plants == NATIVE)
        tamarisk = _Seeds(p.tamarisk_seeds, spread[:, edge], p).at(plants == TAMARISK)
        won = (tamarisk.slope(u_tamarisk) * native.value(u_native)) @ (weights * inner)
        none = (tamarisk.value(np.zeros(1)) * native.value(np.zeros(1)))[:, 0]
        chances[rows, edge, EMPTY] = none
        chances[rows, edge, TAMARISK] = won
        chances[rows, edge, NATIVE] = np.maximum(1.0 - none - won, 0.0)
    return chances


class _Seeds:
    """The generating function G of the number of seeds of one species that reach an edge."""

    def __init__(self, seeds: int, rates: FloatArray, p: TamariskParameters) -> None:
        # Exogenous seeds come from one more source, which always stands.
        self._counts = np.append(np.full(rates.size, seeds), p.arrivals).astype(np.float64)
        self._rates = np.append(rates, p.arrival_rate)
        self._sources = np.empty((0, rates.size + 1))

    def at(self, standing: NDArray[np.bool_]) -> _Seeds:
        """The same generating function for rivers that have plants where ``standing`` is true."""
        always = np.ones((standing.shape[0], 1))
        self._sources = np.hstack([standing.astype(np.float64), always]) * self._counts
        return self

    def value(self, u: FloatArray) -> FloatArray:
        """The generating function G at each u: one row per river and one column per u."""
        base = 1.0 - self._rates[:, None] * (1.0 - u)
        # A source of rate 1 has base u = 0 at 0: its logarithm is -inf, and 0 · -inf must be 0.
        logs = np.log(np.maximum(base, np.finfo(np.float64).tiny))
        values: FloatArray = np.exp(self._sources @ logs)
        return values

    def slope(self, u: FloatArray) -> FloatArray:
        """The derivative of G at each u: one row per river and one column per u."""
        base = 1.0 - self._rates[:, None] * (1.0 - u)
        slopes: FloatArray = self.value(u) * (self._sources @ (self._rates[:, None] / base))
        return slopes


def transition_matrix(
    parameters: TamariskParameters, actions: NDArray[np.int8] | None = None
) -> FloatArray:
    """The probability of each next state from each state, both in the order of `rivers`.

    Examples
    --------
    >>> matrix = transition_matrix(TamariskParameters(edges=1))
    >>> print(matrix.round(4))
    [[0.8    0.2    0.    ]
     [0.65   0.35   0.    ]
     [0.5525 0.2975 0.15  ]]
    """
    domain, every = Tamarisk(parameters), rivers(parameters.edges)
    chosen = domain.act(every) if actions is None else np.asarray(actions)
    if chosen.shape != every.edges.shape:
        raise InputError(
            Argument("actions"),
            f" needs one row per state, shape {every.edges.shape}, got {chosen.shape}",
        )
    costs = domain.tables.action_cost[every.edges, chosen]
    refused = (costs < 0).any(axis=1) | (costs.sum(axis=1) > domain.tables.budget)
    matrix = _products(treatment_chances(parameters)[every.edges, chosen]) @ _products(
        settling_chances(parameters, every)
    )
    # Step 2: an illegal or too expensive action leaves the state as it is.
    matrix[refused] = np.eye(matrix.shape[0])[refused]
    return matrix


def _products(chances: FloatArray) -> FloatArray:
    """The joint probabilities of all edges, which are independent."""
    joint = np.ones((chances.shape[0], 1))
    for edge in range(chances.shape[1]):
        joint = (joint[:, :, None] * chances[:, edge, None, :]).reshape(joint.shape[0], -1)
    return joint


class ExactReturns:
    """The exact distribution of the remaining return, from every state at chosen steps.

    Rewards are whole multiples of one unit of cost. So the distribution is an array: the
    probability of each remaining cost up to a bound. One backward pass computes all steps. Seven
    edges and a bound of 67 take about fifteen seconds, and 24 MB for each chosen step.

    Parameters
    ----------
    domain
        A Tamarisk domain of at most seven edges.
    steps
        The steps t that you will ask about.
    lowest
        Returns below this are not distinguished. Pass the lowest finite bound of any target that
        you will ask about, minus the behavior so far.

    Examples
    --------
    >>> from ontarget import Target
    >>> domain = Tamarisk(TamariskParameters(edges=3, horizon=4))
    >>> exact = ExactReturns(domain, steps=[0], lowest=-20.0)
    >>> healthy = Rivers(np.zeros((1, 3), dtype=np.int8))
    >>> print(exact.probability(healthy, 0.0, 0, Target.at_least(0.0)).round(4))
    [0.9068]
    """

    def __init__(self, domain: Tamarisk, *, steps: Iterable[int], lowest: float) -> None:
        wanted = frozenset(steps)
        horizon, tables = domain.horizon, domain.tables
        if not wanted or not all(0 <= t <= horizon for t in wanted):
            raise InputError(
                Argument("steps"), f" needs steps from 0 to {horizon}, got {sorted(wanted)}"
            )
        if not -np.inf < lowest <= 0.0:
            raise InputError(
                Argument("lowest"), f" needs a finite return of at most 0, got {lowest}"
            )
        every = rivers(domain.parameters.edges)
        costs = tables.state_cost[every.edges].sum(axis=1)
        costs += tables.action_cost[every.edges, domain.act(every)].sum(axis=1)
        self.domain = domain
        self.returns: FloatArray = -(np.arange(round(-lowest * tables.units) + 1) / tables.units)
        self._chances: dict[int, FloatArray] = {}
        matrix = transition_matrix(domain.parameters)
        chances = np.zeros((matrix.shape[0], self.returns.size))
        chances[:, 0] = 1.0
        for t in range(horizon, min(wanted) - 1, -1):
            if t < horizon:
                chances = _shifted(matrix @ chances, costs)
            if t in wanted:
                self._chances[t] = chances

    def chances(self, t: int) -> FloatArray:
        """(rivers, returns): the probability of each of ``returns`` from each state at step t."""
        if t not in self._chances:
            raise InputError(
                Argument("t"),
                f" needs one of the steps asked for, {sorted(self._chances)}, got {t}",
            )
        return self._chances[t]

    def probability(
        self,
        states: Rivers,
        behavior: ArrayLike,
        t: int,
        target: Target,
        *,
        grid: float | None = None,
    ) -> FloatArray:
        """The exact probability that each river's episode ends inside the target."""
        chances = self.chances(t)
        # One of a target and its complement stretches to -∞; the other needs finite sums only.
        unbounded = bool(target) and target.lower == -np.inf
        bounded = target.complement() if unbounded else target
        index = river_index(states)
        so_far = np.broadcast_to(np.asarray(behavior, dtype=np.float64), index.shape)
        if bounded and float(np.max(so_far, initial=-np.inf)) + self.returns[-1] > bounded.lower:
            raise InputError(
                f"the target reaches down to {bounded.lower:g}, below what was computed "
                f"(lowest={self.returns[-1]:g}); pass a lower ",
                Argument("lowest"),
            )
        inside = np.empty(index.size)
        for start in range(0, index.size, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            outcomes = so_far[rows, None] + self.returns
            spacing = grid_of(outcomes) if grid is None else grid
            inside[rows] = (chances[index[rows]] * bounded.contains(outcomes, spacing)).sum(axis=1)
        # Sums of many chances may pass 1 in their last bits.
        inside = np.clip(inside, 0.0, 1.0)
        return 1.0 - inside if unbounded else inside


def _shifted(chances: FloatArray, costs: NDArray[np.int64]) -> FloatArray:
    """Each row of probabilities shifted right by its own cost."""
    moved = np.zeros_like(chances)
    for cost in np.unique(costs):
        rows = costs == cost
        moved[rows, cost:] = chances[rows, : max(chances.shape[1] - cost, 0)]
    return moved
