"""Tamarisk's parameters, the four presets, and the probabilities that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import FloatArray
from ontarget.domains.tamarisk._kernel import (
    EMPTY,
    ERADICATE,
    ERADICATE_AND_RESTORE,
    NATIVE,
    NOTHING,
    RESTORE,
    TAMARISK,
)
from ontarget.errors import Argument, InputError

EDGE_STATES: Final = ("native", "empty", "tamarisk")
ACTIONS: Final = ("nothing", "eradicate", "restore", "eradicate-and-restore")

Dispersal: TypeAlias = Literal["competition", "plain"]
_DISPERSALS: Final = ("competition", "plain")


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

    Examples
    --------
    >>> TamariskParameters(edges=3).edges
    3
    >>> PRESETS["rare-deaths"].native_death
    0.01
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
    """The probability K_ij that a seed from edge i reaches edge j; other seeds are lost.

    ``K_ij = C d**down u**up`` with ``C = (1 - 2u)(1 - d) / (1 - ud)``, where u and d are the rates
    ``upstream`` and ``downstream``, and ``up`` and ``down`` count the edges of the path in each
    direction. ``dispersal="plain"`` counts the steps of the path along edges. ``"competition"``
    counts one more on a path that leads only up or only down, as the competition's code does.

    Examples
    --------
    >>> print(dispersal_kernel(PRESETS["paper"])[3].round(4))  # from edge 3 to edges 0 to 6
    [0.0526 0.1053 0.0105 0.4211 0.0211 0.0011 0.0011]
    """
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
    """The probability of each state of an edge after treatment or natural death.

    The shape is (3, 4, 3): the edge's state before, the action, the state after. An action that is
    illegal in a state leaves the state unchanged.
    """
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
