from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ontarget._typing import FloatArray
from ontarget.domains import Tamarisk, TamariskParameters
from ontarget.domains._tamarisk_kernels import EMPTY, NATIVE, TAMARISK
from ontarget.domains.domain import take
from ontarget.domains.draws import episode_keys
from ontarget.domains.tamarisk import PRESETS, Rivers
from ontarget.errors import InputError
from refusals import refuses
from tests.domains.bounds import agrees

N, E, T = NATIVE, EMPTY, TAMARISK
DRAWS = 200_000

ONE_EDGE = TamariskParameters(edges=1)
ONE_SEED = TamariskParameters(edges=3, native_seeds=1, tamarisk_seeds=1)

# By hand, with C = (1 - 2u)(1 - d)/(1 - ud) = 8/19. On three edges, competition kernel:
# leaf to root C d² = 2/19, leaf to leaf C d u = 2/95, root to leaf C u² = 2/475.
A = 0.8 * 2 / 19  # a leaf's plant survives and its one seed reaches the root
R = 0.15 * 2 / 475  # a treated tamarisk at the root survives and its one seed reaches a leaf
S = 0.8 * 2 / 95  # a native leaf survives and its one seed reaches the other leaf
NO_SEED_OF_200 = 0.2 + 0.8 * (17 / 19) ** 200

# parameters, state, actions, the edge that is watched, P(native), P(empty), P(tamarisk)
BY_HAND = {
    "a tamarisk left alone": (ONE_EDGE, [T], [0], 0, (0.0, 0.2, 0.8)),
    "a tamarisk eradicated": (ONE_EDGE, [T], [1], 0, (0.0, 0.85, 0.15)),
    "a tamarisk replaced": (ONE_EDGE, [T], [3], 0, (0.5525, 0.2975, 0.15)),
    "an empty edge restored": (ONE_EDGE, [E], [2], 0, (0.65, 0.35, 0.0)),
    "a native plant": (ONE_EDGE, [N], [0], 0, (0.8, 0.2, 0.0)),
    "an empty edge alone": (ONE_EDGE, [E], [0], 0, (0.0, 1.0, 0.0)),
    "one seed of each species for an empty root": (
        ONE_SEED,
        [E, N, T],
        [0, 0, 0],
        0,
        (A - A**2 / 2, (1 - A) ** 2, A - A**2 / 2),
    ),
    "a failed restoration between a treated root and a native leaf": (
        ONE_SEED,
        [T, E, N],
        [3, 2, 0],
        1,
        (None, None, 0.35 * R * (1 - S / 2)),
    ),
    "two native leaves above an empty root": (
        TamariskParameters(edges=3),
        [E, N, N],
        [0, 0, 0],
        0,
        (1 - NO_SEED_OF_200**2, NO_SEED_OF_200**2, 0.0),
    ),
    "exogenous arrivals of one seed each": (
        ONE_EDGE.replace(arrivals=1),
        [E],
        [0],
        0,
        (0.375, 0.25, 0.375),
    ),
    "the same with a doubled weight of tamarisk": (
        ONE_EDGE.replace(arrivals=1, competition=2.0),
        [E],
        [0],
        0,
        (1 / 3, 0.25, 5 / 12),
    ),
    "a dead native edge that arrivals settle": (
        ONE_EDGE.replace(arrivals=1),
        [N],
        [0],
        0,
        (0.8 + 0.2 * 0.375, 0.2 * 0.25, 0.2 * 0.375),
    ),
}


def next_edges(
    parameters: TamariskParameters, edges: list[int], actions: list[int]
) -> tuple[FloatArray, Rivers]:
    domain, keys = Tamarisk(parameters), episode_keys(11, 0, DRAWS, "frequencies")
    river = Rivers(np.array([edges], dtype=np.int8))
    many = take(river, np.zeros(DRAWS, dtype=np.intp))
    chosen = np.repeat(np.array([actions], dtype=np.int8), DRAWS, axis=0)
    return domain.apply(many, chosen, 0, keys), many


@pytest.mark.parametrize("case", BY_HAND)
def test_one_step_frequencies_agree_with_probabilities_by_hand(case: str) -> None:
    parameters, edges, actions, watched, chances = BY_HAND[case]
    _, after = next_edges(parameters, edges, actions)
    for code, chance in zip((N, E, T), chances, strict=True):
        if chance is not None:
            assert agrees(int((after.edges[:, watched] == code).sum()), DRAWS, chance)


@pytest.mark.parametrize(
    ("code", "action", "reward"),
    [(N, 0, 0.0), (E, 0, -0.05), (T, 0, -10.1), (T, 1, -11.0), (E, 2, -1.35), (T, 3, -11.8)],
)
def test_reward_is_minus_the_cost_of_state_and_action(
    code: int, action: int, reward: float
) -> None:
    rewards, _ = next_edges(ONE_EDGE, [code], [action])
    assert (rewards == reward).all()


def test_seven_edges_add_up_to_the_float_nearest_to_the_decimal() -> None:
    p = TamariskParameters()
    # 2 × (10.1 + 1.7) + 1 × (10.1 + 0.9) + 2 × (0.05 + 1.3) + 1 × 0.05
    rewards, _ = next_edges(p, [T, T, T, E, E, E, N], [3, 3, 1, 2, 2, 0, 0])
    assert (rewards == -37.35).all()


def test_no_reward_is_negative_zero() -> None:
    rewards, _ = next_edges(ONE_EDGE, [N], [0])
    assert not np.signbit(rewards).any()


@pytest.mark.parametrize(("code", "action"), [(N, 1), (E, 1), (N, 2), (T, 2), (N, 3), (E, 3)])
def test_illegal_action_earns_the_penalty_and_changes_nothing(code: int, action: int) -> None:
    rewards, after = next_edges(TamariskParameters(edges=3), [code, T, E], [action, 3, 2])
    assert (rewards == -10_000.0).all()
    assert (after.edges == [code, T, E]).all()


def test_budget_is_a_bound_that_may_be_reached_and_not_passed() -> None:
    # 1.7 + 1.3 = 3.0 is not representable as that sum in floats; in whole units it is.
    p = TamariskParameters(edges=3, budget=3.0)
    within, _ = next_edges(p, [N, T, E], [0, 3, 2])
    assert (within == -13.15).all()
    beyond, after = next_edges(p.replace(budget=2.99), [N, T, E], [0, 3, 2])
    assert (beyond == -10_000.0).all()
    assert (after.edges == [N, T, E]).all()


def test_policy_never_earns_the_penalty() -> None:
    for preset in PRESETS:
        rewards = simulated(preset, 2_000)
        worst = 7 * (10.1 + 1.7)
        assert rewards.min() >= -worst - 1e-9


def test_start_is_uniform_over_the_three_codes() -> None:
    rivers = Tamarisk("paper").start(episode_keys(0, 0, 30_000, "start"))
    for edge in range(7):
        for code in (N, E, T):
            assert agrees(int((rivers.edges[:, edge] == code).sum()), 30_000, 1 / 3)


def simulated(preset: str, n: int) -> FloatArray:
    domain, keys = Tamarisk(preset), episode_keys(2024, 0, n, "simulate", "tamarisk")
    rivers = domain.start(keys)
    return np.stack([domain.step(rivers, t, keys) for t in range(domain.horizon)], axis=1)


# Mean and standard deviation of the return as the presets were chosen by, from 2,000 episodes of
# another program and rounded to whole numbers.
FIGURES = {
    "paper": (-40, 22),
    "competition": (-412, 81),
    "rare-deaths": (-43, 19),
    "tight-budget": (-55, 31),
}


@pytest.mark.parametrize("preset", FIGURES)
def test_preset_has_the_mean_and_spread_it_was_chosen_by(preset: str) -> None:
    mean, sd = FIGURES[preset]
    outcomes = simulated(preset, 10_000).sum(axis=1)
    # Three standard errors of the difference between 2,000 and 10,000 episodes, and the rounding.
    error = sd * np.sqrt(1 / 2_000 + 1 / 10_000)
    assert abs(outcomes.mean() - mean) < 0.5 + 3 * error
    assert abs(outcomes.std() - sd) < 0.5 + 3 * error / np.sqrt(2)


def test_paper_preset_has_the_tails_of_its_exact_law() -> None:
    # P(Y < y) and P(Y <= y) by `ExactReturns` on all seven edges, whose own test is slow; the 10 %
    # and 90 % quantiles are -69.8 and -17.2.
    outcomes = np.round(simulated("paper", 10_000).sum(axis=1), 6)
    for value, below, upto in (
        (-69.8, 0.09759, 0.10012),
        (-67.1, 0.10487, 0.11288),
        (-17.2, 0.87530, 0.90605),
        (-14.5, 0.92904, 0.93959),
    ):
        assert agrees(int((outcomes < value).sum()), 10_000, below)
        assert agrees(int((outcomes <= value).sum()), 10_000, upto)


def test_any_decimal_costs_are_counted_exactly() -> None:
    p = ONE_EDGE.replace(empty_cost=0.07, restore_cost=1.009, restore_slot_cost=0.3)
    assert Tamarisk(p).tables.units == 1000
    rewards, _ = next_edges(p, [E], [2])
    assert (rewards == float(-Fraction("1.379"))).all()


def test_unknown_preset_is_refused_with_the_names() -> None:
    with refuses(InputError, None, "rare-deaths", "'x'"):
        Tamarisk("x")
