"""The Tamarisk domain: an invasive tree spreads along a river, and a crew fights it.

The river is a balanced binary tree of edges. Edge 0 is the root, the most downstream one; edge e
flows into edge ``(e - 1) // 2``. Each edge holds one slot: a native plant, nothing, or a tamarisk.

Where the numbers come from
---------------------------
*Known from the paper* (Guyer and Dietterich): seven edges, three states of an edge, uniform at the
start, the four actions, a budget, a reward that is minus a cost. *Known from the document and the
code of the 2014 Reinforcement Learning Competition*: the step order, the rates, the costs, the
penalty, the dispersal kernel. *Chosen here*, because the authors' constants, policy and
trajectories are not public: the four presets (`PRESETS`), the fixed policy, the horizon of 50, one
slot per edge, the codes of an edge. No number here is the authors'.

One step
--------
1. The reward is minus (the cost of the current state + the cost of the actions).
2. An illegal action (eradicating where there is no tamarisk, restoring where it is not empty), or
   actions beyond the budget: the reward is the penalty alone and the state stays.
3. Treatment or death, one uniform draw per edge. An untreated tamarisk dies with its death rate.
   Eradicating a tamarisk succeeds with the eradication rate. With eradicate-and-restore, a native
   plant then takes its place with the restoration rate. A treated tamarisk has no natural death. A
   native plant dies with its death rate whatever the action. Restoring an empty edge succeeds with
   the restoration rate.
4. Each surviving plant, one restored in this step included, sends Binomial(seeds, K_ij) seeds from
   its edge i to edge j; K is the dispersal kernel (`dispersal_kernel`). If the parameters have
   ``arrivals``, seeds of both species also come from outside the river to every edge.
5. With one slot per edge, all of an edge's seeds reach its slot.
6. An empty edge that gets no seeds stays empty. Otherwise, with s_T tamarisk seeds and s_N native
   ones, a tamarisk takes the edge with probability β s_T / (β s_T + s_N), and else a native plant.
   β is the parameter ``competition``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ontarget._arguments import whole_number
from ontarget._typing import FloatArray, KeyArray
from ontarget.domains._tamarisk_kernels import (
    EMPTY,
    ERADICATE,
    ERADICATE_AND_RESTORE,
    ILLEGAL,
    NATIVE,
    NOTHING,
    RESTORE,
    TAMARISK,
    Tables,
    advance,
    decide,
    scatter,
)
from ontarget.domains.draws import streams
from ontarget.errors import Argument, InputError

EDGE_STATES: Final = ("native", "empty", "tamarisk")
ACTIONS: Final = ("nothing", "eradicate", "restore", "eradicate-and-restore")

Dispersal: TypeAlias = Literal["competition", "plain"]
_DISPERSALS: Final = ("competition", "plain")
_RATES: Final = frozenset(
    {
        "eradication",
        "restoration",
        "native_death",
        "tamarisk_death",
        "upstream",
        "downstream",
        "arrival_rate",
    }
)
AMOUNTS: Final = frozenset(
    {
        "competition",
        "invaded_cost",
        "tree_cost",
        "empty_cost",
        "eradicate_cost",
        "eradicate_tree_cost",
        "restore_cost",
        "restore_slot_cost",
        "replace_tree_cost",
        "budget",
    }
)
_GUIDES: Final = 256


@dataclass(frozen=True, kw_only=True)
class TamariskParameters:
    """All parameters of a river; the defaults are those of the `paper` preset.

    Rates, seeds, costs, budget and penalty are those of the 2014 competition's document. In the
    competition, seeds also arrive from outside the river. Here they do not, which fits the paper's
    text better; that is our choice, and so is the horizon.

    Parameters
    ----------
    edges
        The number of edges, ``2**k - 1``.
    horizon
        Steps in an episode.
    eradication, restoration
        Success rates of the two treatments.
    native_death, tamarisk_death
        Chance of a natural death per step.
    native_seeds, tamarisk_seeds
        Seeds per surviving plant and step.
    upstream, downstream
        The share of seeds that pass on at each edge, against and with the current.
    dispersal
        How path lengths are counted, ``"plain"`` or ``"competition"``; see `dispersal_kernel`.
    competition
        The weight β of a tamarisk seed against a native one.
    arrivals, arrival_rate
        Seeds of each species that set out for each edge from outside the river, and the share of
        them that arrives.
    invaded_cost, tree_cost, empty_cost
        Cost per step of an invaded edge, of each tamarisk in it, and of an empty slot.
    eradicate_cost, restore_cost
        Fixed cost of treating an edge; eradicate-and-restore pays the fixed cost of restoring.
    eradicate_tree_cost, restore_slot_cost, replace_tree_cost
        Cost on top per tamarisk eradicated, per slot restored, per tamarisk replaced.
    budget, penalty
        The most that the actions of one step may cost, and the reward if an action is illegal or
        the budget is exceeded.
    """

    edges: int = 7
    horizon: int = 50
    eradication: float = 0.85
    restoration: float = 0.65
    native_death: float = 0.2
    tamarisk_death: float = 0.2
    native_seeds: int = 200
    tamarisk_seeds: int = 200
    upstream: float = 0.1
    downstream: float = 0.5
    dispersal: Dispersal = "competition"
    competition: float = 1.0
    arrivals: int = 0
    arrival_rate: float = 0.5
    invaded_cost: float = 10.0
    tree_cost: float = 0.1
    empty_cost: float = 0.05
    eradicate_cost: float = 0.5
    eradicate_tree_cost: float = 0.4
    restore_cost: float = 0.9
    restore_slot_cost: float = 0.4
    replace_tree_cost: float = 0.8
    budget: float = 100.0
    penalty: float = -10_000.0

    def __post_init__(self) -> None:
        edges = whole_number("edges", self.edges, least=1)
        if (edges + 1) & edges:
            raise InputError(
                Argument("edges"),
                f" needs 2**k - 1 edges of a balanced tree (1, 3, 7, …), got {self.edges}",
            )
        whole_number("horizon", self.horizon, least=1)
        if self.dispersal not in _DISPERSALS:
            raise InputError(
                Argument("dispersal"),
                f" needs one of {', '.join(_DISPERSALS)}, got {self.dispersal!r}",
            )
        for name in ("native_seeds", "tamarisk_seeds", "arrivals"):
            whole_number(name, getattr(self, name), least=0)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _RATES and not 0.0 <= value <= 1.0:
                raise InputError(Argument(field.name), f" needs a rate in [0, 1], got {value}")
            if field.name in AMOUNTS and not (math.isfinite(value) and value >= 0.0):
                raise InputError(Argument(field.name), f" needs a finite amount >= 0, got {value}")
        if self.upstream > 0.5:
            raise InputError(
                Argument("upstream"), f" needs a rate of at most 0.5, got {self.upstream}"
            )
        if self.competition == 0.0:
            raise InputError(Argument("competition"), " needs a weight above 0, got 0.0")
        if not math.isfinite(self.penalty):
            raise InputError(Argument("penalty"), f" needs a finite reward, got {self.penalty}")

    def replace(self, **changes: Any) -> Self:
        """A copy of the parameters with some of them changed."""
        return replace(self, **changes)


_PAPER = TamariskParameters()
# All four are chosen. `paper` counts paths as the competition's code does, the others by edge
# steps.
PRESETS: Final[Mapping[str, TamariskParameters]] = MappingProxyType(
    {
        "paper": _PAPER,
        "competition": _PAPER.replace(arrivals=100, dispersal="plain"),
        "rare-deaths": _PAPER.replace(
            native_death=0.01,
            tamarisk_death=0.01,
            native_seeds=1,
            tamarisk_seeds=1,
            dispersal="plain",
        ),
        "tight-budget": _PAPER.replace(
            native_death=0.02,
            tamarisk_death=0.02,
            native_seeds=1,
            tamarisk_seeds=1,
            budget=5.0,
            dispersal="plain",
        ),
    }
)


def dispersal_kernel(parameters: TamariskParameters) -> FloatArray:
    """The probability K_ij that a seed from edge i reaches edge j; other seeds are lost."""
    n, up_rate, down_rate = parameters.edges, parameters.upstream, parameters.downstream
    scale = (1 - 2 * up_rate) * (1 - down_rate) / (1 - up_rate * down_rate)
    lines = [downstream_line(edge) for edge in range(n)]
    kernel = np.empty((n, n))
    for i, source in enumerate(lines):
        for j, goal in enumerate(lines):
            shared = len(set(source) & set(goal))
            down, up = len(source) - shared, len(goal) - shared
            if parameters.dispersal == "competition" and (down == 0) != (up == 0):
                down, up = (0, up + 1) if down == 0 else (down + 1, 0)
            kernel[i, j] = scale * down_rate**down * up_rate**up
    return kernel


def downstream_line(edge: int) -> list[int]:
    """An edge and all edges downstream of it, down to the root."""
    line = [edge]
    while edge > 0:
        edge = (edge - 1) // 2
        line.append(edge)
    return line


def treatment_chances(p: TamariskParameters) -> FloatArray:
    """The probability of each state of an edge after treatment or natural death."""
    chances = np.zeros((3, 4, 3))
    for code in (NATIVE, EMPTY, TAMARISK):
        chances[code, :, code] = 1.0
    chances[NATIVE, :] = (1 - p.native_death, p.native_death, 0.0)
    chances[EMPTY, RESTORE] = (p.restoration, 1 - p.restoration, 0.0)
    chances[TAMARISK, NOTHING] = (0.0, p.tamarisk_death, 1 - p.tamarisk_death)
    chances[TAMARISK, ERADICATE] = (0.0, p.eradication, 1 - p.eradication)
    chances[TAMARISK, ERADICATE_AND_RESTORE] = (
        p.eradication * p.restoration,
        p.eradication * (1 - p.restoration),
        1 - p.eradication,
    )
    return chances


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
        """The rewards of the given actions at step t; the rivers are advanced in place."""
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
    """The distribution function (CDF) of Binomial(n, rate) at 0, 1, …, most."""
    # It is exactly 1 from n on, so that searches end.
    values = np.arange((n if most is None else most) + 1)
    cdf: FloatArray = bdtr(np.minimum(values, n).astype(np.float64), n, rate)
    cdf[n:] = 1.0
    return cdf


def _guide(cdf: FloatArray) -> NDArray[np.int64]:
    """A table that speeds up searches of the CDF."""
    bins = np.arange(_GUIDES) / _GUIDES
    return np.searchsorted(cdf, bins, side="right").astype(np.int64)
