from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from ontarget.domains import Tamarisk, TamariskParameters, simulate
from ontarget.domains.domain import take
from ontarget.domains.draws import episode_keys
from ontarget.domains.tamarisk import PRESETS, Rivers, dispersal_kernel
from ontarget.target import Target
from tests.domains.bounds import agrees
from yardstick.exact import (
    ExactReturns,
    river_index,
    rivers,
    settling_chances,
    transition_matrix,
)

SMALL = TamariskParameters(edges=3, horizon=4, native_seeds=2, tamarisk_seeds=3)


def test_rivers_are_in_the_order_of_their_index() -> None:
    every = rivers(3)
    assert every.edges.shape == (27, 3)
    assert np.array_equal(river_index(every), np.arange(27))


@pytest.mark.parametrize("competition", [1.0, 2.0, 0.5, 1.7])
@pytest.mark.parametrize("arrivals", [0, 4])
def test_settling_chances_agree_with_a_sum_over_seed_counts(
    competition: float, arrivals: int
) -> None:
    p = SMALL.replace(competition=competition, arrivals=arrivals)
    every, kernel = rivers(3), dispersal_kernel(p)
    chances = settling_chances(p, every)
    for row, standing in enumerate(every.edges):
        for edge in np.flatnonzero(standing == 1):
            law = {0: np.ones(1), 2: np.ones(1)}
            for source in range(3):
                for code, seeds in ((0, p.native_seeds), (2, p.tamarisk_seeds)):
                    if standing[source] == code:
                        one = binom.pmf(np.arange(seeds + 1), seeds, kernel[source, edge])
                        law[code] = np.convolve(law[code], one)
            for code in (0, 2) if arrivals else ():
                one = binom.pmf(np.arange(arrivals + 1), arrivals, p.arrival_rate)
                law[code] = np.convolve(law[code], one)
            expected = np.zeros(3)
            for native, chance in enumerate(law[0]):
                for tamarisk, other in enumerate(law[2]):
                    weight = competition * tamarisk
                    won = weight / (weight + native) if tamarisk + native else 0.0
                    expected += chance * other * np.array([1 - won, 0, won])
            none = law[0][0] * law[2][0]
            expected += np.array([-none, none, 0.0])
            # Whole powers are polynomials and exact; other weights are smooth, and nearly so.
            error = 1e-13 if competition in (1.0, 2.0) else 1e-7
            assert np.allclose(chances[row, edge], expected, atol=error, rtol=0)


@pytest.mark.parametrize("preset", PRESETS)
def test_simulated_steps_agree_with_every_row_of_the_matrix(preset: str) -> None:
    p = PRESETS[preset].replace(edges=3)
    domain, matrix, repeats = Tamarisk(p), transition_matrix(p), 4_000
    many = take(rivers(3), np.repeat(np.arange(27), repeats))
    domain.step(many, 0, episode_keys(5, 0, 27 * repeats))
    counts = np.zeros((27, 27), dtype=int)
    np.add.at(counts, (np.repeat(np.arange(27), repeats), river_index(many)), 1)
    for row in range(27):
        for column in range(27):
            assert agrees(int(counts[row, column]), repeats, float(matrix[row, column]))


def test_a_refused_action_stays_where_it_is() -> None:
    actions = np.full((27, 3), 1, dtype=np.int8)  # eradicate everywhere: legal in one state only
    matrix = transition_matrix(TamariskParameters(edges=3), actions)
    assert np.array_equal(matrix[:26], np.eye(27)[:26])
    assert matrix[26, 26] < 1.0


def slow_probability(p: TamariskParameters, edges: list[int], behavior: float, t: int) -> float:
    """P(outcome >= -15) by following every path from a state to the horizon."""
    domain, matrix, every = Tamarisk(p), transition_matrix(p), rivers(p.edges)
    state_cost, action_cost = np.array([0.0, 0.05, 10.1]), np.array([0.0, 0.9, 1.3, 1.7])
    actions = domain.act(every)

    def follow(index: int, so_far: float, step: int) -> float:
        if step == p.horizon:
            return float(round(so_far, 6) >= -15.0)
        cost = state_cost[every.edges[index]].sum() + action_cost[actions[index]].sum()
        return sum(
            float(chance) * follow(int(to), so_far - cost, step + 1)
            for to, chance in enumerate(matrix[index])
            if chance > 0.0
        )

    index = int(river_index(Rivers(np.array([edges], dtype=np.int8)))[0])
    return follow(index, behavior, t)


@pytest.mark.parametrize(
    ("edges", "behavior", "t"),
    [([0, 0, 0], 0.0, 1), ([2, 1, 0], 0.0, 1), ([1, 1, 1], -11.85, 2), ([0, 2, 2], 0.0, 2)],
)
def test_recursion_agrees_with_following_every_path(
    edges: list[int], behavior: float, t: int
) -> None:
    exact = ExactReturns(Tamarisk(SMALL), steps=[1, 2], lowest=-15.0)
    state = Rivers(np.array([edges], dtype=np.int8))
    p = exact.probability(state, behavior, t, Target.at_least(-15.0))
    assert p[0] == pytest.approx(slow_probability(SMALL, edges, behavior, t), abs=1e-12)


def test_a_target_and_its_complement_share_the_whole() -> None:
    exact = ExactReturns(Tamarisk(SMALL), steps=[0], lowest=-30.0)
    target = Target(-25.0, -12.0) | Target(-5.0, 0.0)
    p = exact.probability(rivers(3), 0.0, 0, target)
    q = exact.probability(rivers(3), 0.0, 0, target.complement())
    assert np.allclose(p + q, 1.0, atol=1e-12)
    assert p.min() < 0.1 < 0.8 < p.max()
    assert (exact.probability(rivers(3), 0.0, 0, Target()) == 1.0).all()
    assert (exact.probability(rivers(3), 0.0, 0, Target.empty()) == 0.0).all()


def test_at_the_horizon_the_behavior_decides() -> None:
    exact = ExactReturns(Tamarisk(SMALL), steps=[4], lowest=-15.0)
    state = Rivers(np.zeros((2, 3), dtype=np.int8))
    p = exact.probability(state, [-15.0, -15.05], 4, Target.at_least(-15.0))
    assert p.tolist() == [1.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dispersal", "low", "high"), [("competition", -69.8, -17.2), ("plain", -65.75, -14.5)]
)
def test_simulated_outcomes_have_the_exact_law_of_seven_edges(
    dispersal: str, low: float, high: float
) -> None:
    domain, n = Tamarisk(TamariskParameters(dispersal=dispersal)), 50_000  # type: ignore[arg-type]
    exact = ExactReturns(domain, steps=[0], lowest=-100.0)
    law = exact.chances(0).mean(axis=0)  # the start is uniform over all rivers
    at_least = np.cumsum(law)
    upto = 1.0 - at_least + law
    quantiles = [exact.returns[(upto >= share) & (law > 0)].min() for share in (0.1, 0.9)]
    assert np.allclose(quantiles, [low, high])
    cost = np.round(-simulate(domain, n, seed=77).outcomes * 20).astype(int)
    seen = np.cumsum(np.bincount(np.minimum(cost, law.size), minlength=law.size + 1))[:-1] / n
    # Dvoretzky–Kiefer–Wolfowitz at 1e-7.
    assert np.abs(seen - at_least).max() < math.sqrt(math.log(2 / 1e-7) / (2 * n))
