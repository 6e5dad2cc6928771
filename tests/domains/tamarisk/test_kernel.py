"""The kernels against a slow reading of the step's text, draw by draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from ontarget.domains._tamarisk_kernels import (
    EMPTY,
    ERADICATE,
    ERADICATE_AND_RESTORE,
    NATIVE,
    NOTHING,
    RESTORE,
    TAMARISK,
    binomial,
    decide,
    transition,
)
from ontarget.domains.draws import streams, uniform
from ontarget.domains.tamarisk import (
    PRESETS,
    Tamarisk,
    TamariskParameters,
    dispersal_kernel,
)

ODD = TamariskParameters(edges=3, native_seeds=3, tamarisk_seeds=5, competition=2.5, arrivals=2)


def slow_step(
    p: TamariskParameters, edges: list[int], actions: list[int], draw: np.uint64
) -> tuple[list[int], float]:
    """One legal step, as the module's docstring tells it."""
    n, kernel = p.edges, dispersal_kernel(p)
    cost = 0.0
    standing = []
    for e, (code, action) in enumerate(zip(edges, actions, strict=True)):
        u = uniform(draw, e)
        if code == NATIVE:
            standing.append(NATIVE if u < 1 - p.native_death else EMPTY)
        elif code == EMPTY:
            cost += p.empty_cost
            if action == RESTORE:
                cost += p.restore_cost + p.restore_slot_cost
            standing.append(NATIVE if action == RESTORE and u < p.restoration else EMPTY)
        else:
            cost += p.invaded_cost + p.tree_cost
            if action == NOTHING:
                standing.append(EMPTY if u < p.tamarisk_death else TAMARISK)
            elif action == ERADICATE:
                cost += p.eradicate_cost + p.eradicate_tree_cost
                standing.append(EMPTY if u < p.eradication else TAMARISK)
            else:
                cost += p.restore_cost + p.replace_tree_cost
                replaced = u < p.eradication * p.restoration
                standing.append(NATIVE if replaced else EMPTY if u < p.eradication else TAMARISK)
    after = list(standing)
    for e in range(n):
        if standing[e] != EMPTY:
            continue
        seeds = {NATIVE: 0, TAMARISK: 0}
        for i in range(n):
            if standing[i] != EMPTY:
                made = p.native_seeds if standing[i] == NATIVE else p.tamarisk_seeds
                seeds[standing[i]] += slow_binomial(
                    uniform(draw, (e + 2) * n + i), made, kernel[i, e]
                )
        if p.arrivals:
            for k, code in enumerate((NATIVE, TAMARISK)):
                u = uniform(draw, (n + 2) * n + 2 * e + k)
                seeds[code] += slow_binomial(u, p.arrivals, p.arrival_rate)
        if seeds[NATIVE] + seeds[TAMARISK]:
            weight = p.competition * seeds[TAMARISK]
            wins = uniform(draw, n + e) < weight / (weight + seeds[NATIVE])
            after[e] = TAMARISK if wins else NATIVE
    return after, -round(cost, 9)


def slow_binomial(u: float, n: int, rate: float) -> int:
    return int(np.searchsorted(binom.cdf(np.arange(n + 1), n, rate), u, side="right"))


@pytest.mark.parametrize("parameters", [*PRESETS.values(), ODD], ids=[*PRESETS, "odd"])
def test_transition_agrees_with_a_slow_reading(parameters: TamariskParameters) -> None:
    rng = np.random.default_rng(1)
    tables = Tamarisk(parameters.replace(budget=100.0)).tables
    legal = {NATIVE: [NOTHING], EMPTY: [NOTHING, RESTORE]}
    legal[TAMARISK] = [NOTHING, ERADICATE, ERADICATE_AND_RESTORE]
    for draw in streams(rng.integers(2**64, size=300, dtype=np.uint64), 0):
        before = rng.integers(0, 3, parameters.edges)
        actions = [int(rng.choice(legal[int(code)])) for code in before]
        edges = before.astype(np.int8)
        reward = transition(edges, np.array(actions, dtype=np.int8), draw, tables)
        assert (edges.tolist(), reward) == slow_step(parameters, before.tolist(), actions, draw)


@given(
    edges=st.lists(st.integers(0, 2), min_size=7, max_size=7),
    budget=st.sampled_from([0.0, 1.3, 1.7, 3.0, 5.0, 11.9, 100.0]),
)
def test_policy_goes_from_leaves_to_root_and_invaded_edges_come_first(
    edges: list[int], budget: float
) -> None:
    actions = np.empty((1, 7), dtype=np.int8)
    tables = Tamarisk(TamariskParameters(budget=budget)).tables
    decide(np.array([edges], dtype=np.int8), actions, tables)
    left, expected = round(budget * 10), [NOTHING] * 7
    for code, action, cost in ((TAMARISK, ERADICATE_AND_RESTORE, 17), (EMPTY, RESTORE, 13)):
        for e in (3, 4, 5, 6, 1, 2, 0):
            if edges[e] == code and cost <= left:
                expected[e] = action
                left -= cost
    assert actions[0].tolist() == expected


@given(u=st.floats(0.0, 1.0, exclude_max=True), rate=st.sampled_from([0.001, 0.05, 0.42, 1.0]))
def test_guided_search_finds_the_quantile(u: float, rate: float) -> None:
    p = TamariskParameters(edges=1, arrivals=100, arrival_rate=rate)
    tables = Tamarisk(p).tables
    found = binomial(u, tables.arrivals_below, tables.arrivals_guide)
    assert found == np.searchsorted(tables.arrivals_below, u, side="right")
    assert tables.arrivals_below[-1] == 1.0
