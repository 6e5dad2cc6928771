"""The skirmish as a domain: who fights, who wins, and what a step pays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, hypergeom

from ontarget.domains import _skirmish_kernels as kernels
from ontarget.domains.domain import Domain, take
from ontarget.domains.draws import episode_keys
from ontarget.domains.simulation import simulate_with_snapshots, true_probability
from ontarget.domains.skirmish import FIELD, Battle, Order, Skirmish
from ontarget.errors import InputError
from ontarget.target import Target
from refusals import refuses

# Every statistical check below fails on correct code at most once in 10**8 seeds.
RISK = 1e-8


def play(scenario: Skirmish, keys: np.ndarray, steps: int | None = None) -> tuple:
    """The features before each step, the rewards of each, and the battles after the last."""
    battle = scenario.start(keys)
    states, rewards = [], []
    for t in range(scenario.horizon if steps is None else steps):
        states.append(scenario.observe(battle))
        rewards.append(scenario.step(battle, t, keys))
    return np.array(states), np.array(rewards), battle


def even(blue: int, red: int) -> Skirmish:
    """Both sides advance, nobody comes to help: only the numbers differ."""
    return Skirmish(
        blue=(blue, blue),
        red=(red, red),
        most_reinforcements=0,
        distance=14.0,
        red_attacks=True,
        horizon=120,
    )


def blue_wins(
    blue: int, red: int, *, n: int, seed: int, weakened: int | None = None
) -> tuple[int, int]:
    """How many of n battles blue won, and how many ended with a side wiped out.

    The unit in the weakened column starts with one shot's health less than the others.
    """
    scenario, keys = even(blue, red), episode_keys(seed, 0, n)
    battle = scenario.start(keys)
    if weakened is not None:
        battle.health[:, weakened] -= kernels.DAMAGE
    for t in range(scenario.horizon):
        scenario.step(battle, t, keys)
    features = scenario.observe(battle)
    won, lost = features[:, 1] == 0, features[:, 0] == 0
    return int(won.sum()), int((won | lost).sum())


def within_binomial_bounds(k: int, n: int, p: float) -> bool:
    return bool(binom.ppf(RISK / 2, n, p) <= k <= binom.ppf(1 - RISK / 2, n, p))


def test_the_skirmish_is_a_domain() -> None:
    domain: Domain[Battle] = Skirmish()
    assert (domain.name, domain.horizon, domain.categorical) == ("skirmish", 57, ())
    assert domain.observe(domain.start(episode_keys(0, 0, 4))).shape == (4, len(domain.features))


def test_armies_are_uniform_in_the_papers_ranges() -> None:
    n = 20_000
    armies = Skirmish().armies(episode_keys(0, 0, n))
    for sizes, low, high in ((armies.blue, 5, 20), (armies.red, 5, 10)):
        assert (sizes.min(), sizes.max()) == (low, high)
        for size in range(low, high + 1):
            assert within_binomial_bounds(int((sizes == size).sum()), n, 1 / (high - low + 1))


def test_reinforcements_follow_the_papers_two_draws() -> None:
    n = 20_000
    sizes = Skirmish().armies(episode_keys(1, 0, n)).reinforcements
    for size in range(16):
        p = sum(1 / 16 / (bound + 1) for bound in range(size, 16))
        assert within_binomial_bounds(int((sizes == size).sum()), n, p)


def test_reinforcements_arrive_at_step_14_at_reds_start() -> None:
    scenario, keys = Skirmish(), episode_keys(2, 0, 200)
    armies = scenario.armies(keys)
    battle = scenario.start(keys)
    first = scenario.blue[1] + scenario.red[1]
    for t in range(14):
        scenario.step(battle, t, keys)
    assert (battle.health[:, first:] == 0).all()
    assert (scenario.observe(battle)[:, 5] == 0).all(), "x_14 is observed before they arrive"
    scenario._reinforce(battle, keys)
    arrived = battle.health[:, first:] == kernels.HEALTH
    assert (arrived.sum(axis=1) == armies.reinforcements).all()
    away = np.hypot(
        battle.x[:, first:] - scenario.places[1, 0], battle.y[:, first:] - scenario.places[1, 1]
    )
    assert away[arrived].max() < 2.0
    assert (scenario.observe(battle)[:, 5] == (armies.reinforcements > 0)).all()


def test_rewards_are_count_differences_and_dead_units_stay_dead() -> None:
    scenario, keys = Skirmish(), episode_keys(3, 0, 300)
    states, rewards, battle = play(scenario, keys)
    counts = np.concatenate([states, scenario.observe(battle)[None]])[:, :, :2]
    joined = np.zeros((57, 300))
    joined[14] = scenario.armies(keys).reinforcements
    red_lost = counts[:-1, :, 1] + joined - counts[1:, :, 1]
    blue_lost = counts[:-1, :, 0] - counts[1:, :, 0]
    assert (blue_lost >= 0).all()
    assert (red_lost >= 0).all()
    np.testing.assert_array_equal(rewards, red_lost - blue_lost)


@settings(max_examples=25, deadline=None)
@given(
    blue=st.integers(0, 8),
    red=st.integers(0, 8),
    help_for_red=st.integers(0, 4),
    distance=st.floats(0.0, 20.0),
    order=st.sampled_from(list(Order)),
    seed=st.integers(0, 2**32),
)
def test_every_battle_conserves_units_and_stays_on_the_field(
    blue: int, red: int, help_for_red: int, distance: float, order: Order, seed: int
) -> None:
    scenario = Skirmish(
        blue=(blue, blue),
        red=(red, red),
        most_reinforcements=help_for_red,
        reinforcement_step=3,
        distance=distance,
        horizon=20,
    )
    keys = episode_keys(seed, 0, 3)
    battle = scenario.start(keys)
    total = sum(scenario.command(battle, t, keys, blue=order) for t in range(20))
    features = scenario.observe(battle)
    joined = battle.reinforcements
    np.testing.assert_array_equal(total, (red + joined - features[:, 1]) - (blue - features[:, 0]))
    assert np.isfinite(features).all()
    # Every hit point that is gone was shot: sixes, and a last three for each of the dead.
    lost = kernels.HEALTH * (red + blue + joined) - features[:, 2] - features[:, 3]
    dead = red + blue + joined - features[:, 0] - features[:, 1]
    assert ((lost + 3 * dead) % kernels.DAMAGE == 0).all()
    living = battle.health > 0
    for positions, limit in ((battle.x, FIELD[0]), (battle.y, FIELD[1])):
        assert (positions[living] >= 0).all()
        assert (positions[living] <= limit).all()


def test_equal_sides_win_equally_often() -> None:
    won, decided = blue_wins(10, 10, n=3000, seed=4)
    assert decided > 2900
    assert within_binomial_bounds(won, decided, 0.5), f"blue won {won} of {decided}"


def test_swapping_the_sides_swaps_the_win_rates() -> None:
    # One Marine more decides every battle, which would leave nothing to compare; one shot less on
    # one of ten leaves the stronger side about two wins in three.
    won_as_blue, decided_as_blue = blue_wins(10, 10, n=3000, seed=5, weakened=10)
    lost_as_red, decided_as_red = blue_wins(10, 10, n=3000, seed=6, weakened=0)
    wins_of_stronger = won_as_blue + decided_as_red - lost_as_red
    assert 0.55 < wins_of_stronger / (decided_as_blue + decided_as_red) < 0.75
    # Given how often the stronger side won in all, its wins as blue are hypergeometric.
    law = hypergeom(decided_as_blue + decided_as_red, wins_of_stronger, decided_as_blue)
    assert law.ppf(RISK / 2) <= won_as_blue <= law.ppf(1 - RISK / 2)


def test_win_probability_rises_steeply_with_the_numerical_ratio() -> None:
    rates = [
        won / decided
        for won, decided in (blue_wins(blue, 10, n=300, seed=7) for blue in (7, 9, 10, 11, 13))
    ]
    assert rates == sorted(rates)
    assert rates[0] < 0.03
    assert rates[-1] > 0.97


def duel(gap: float, *, health: tuple[float, float], cooldown: tuple[float, float]) -> Battle:
    """One blue unit and one red unit that stand this far apart on a line."""
    return Battle(
        x=np.array([[10.0, 10.0 + gap]]),
        y=np.array([[10.0, 10.0]]),
        health=np.array([health]),
        cooldown=np.array([cooldown]),
        target=np.full((1, 2), -1, dtype=np.int16),
        reinforcements=np.zeros(1, dtype=np.intp),
    )


def fight(battle: Battle, loops: int) -> float:
    orders = np.array([[Order.ATTACK, Order.HOLD]], dtype=np.int8)
    keys = episode_keys(0, 0, 1)
    return float(kernels.advance(battle.units, 1, orders, keys, 0, loops, np.array(FIELD))[0])


def test_duel_traced_by_hand() -> None:
    # 6.0 apart: in scan range (6.25), out of reach (5.75). Each sees the other and takes a step of
    # 0.140625 toward it; whoever is second, 6 - 0.28125 = 5.71875 is in reach.
    battle = duel(6.0, health=(45.0, 45.0), cooldown=(0.0, 0.0))
    assert fight(battle, 1) == 0.0
    assert battle.x.tolist() == [[10.140625, 15.859375]]
    assert battle.target.tolist() == [[1, 0]]
    assert battle.health.tolist() == [[45.0, 45.0]]
    # Second loop: both fire. The next shots are 13.77 + [-1, 2) loops later, so in the 14th to
    # 17th loop after this one at the latest, counted from 1: not before 13 more have passed.
    assert fight(battle, 1) == 0.0
    assert battle.health.tolist() == [[39.0, 39.0]]
    assert ((battle.cooldown >= 11.77) & (battle.cooldown < 14.77)).all()
    assert fight(battle, 12) == 0.0
    assert battle.health.tolist() == [[39.0, 39.0]]
    # 16 loops after the first shots both have fired once more, and neither a third time.
    assert fight(battle, 4) == 0.0
    assert battle.health.tolist() == [[33.0, 33.0]]
    assert battle.x.tolist() == [[10.140625, 15.859375]], "nobody moves while in reach"


def test_duel_goes_to_the_first_ready_weapon() -> None:
    # Blue has one shot's health left. Red's weapon is ready in the second loop, blue's in the
    # fourth: red fires first, blue is dead, and red never loses its last three points.
    battle = duel(5.75, health=(6.0, 3.0), cooldown=(3.0, 1.0))
    assert fight(battle, 1) == 0.0
    assert battle.health.tolist() == [[6.0, 3.0]]
    assert fight(battle, 1) == -1.0
    assert battle.health.tolist() == [[0.0, 3.0]]
    assert fight(battle, 40) == 0.0
    assert battle.health.tolist() == [[0.0, 3.0]]


def test_red_waits_until_blue_is_in_scan_range() -> None:
    # 1 unit outside red's scan range; blue needs 8 loops of 0.140625 to come into it.
    battle = duel(7.25, health=(45.0, 45.0), cooldown=(0.0, 0.0))
    fight(battle, 7)
    assert battle.x[0, 1] == 17.25
    assert battle.x[0, 0] == pytest.approx(10 + 7 * 0.140625)
    fight(battle, 2)
    assert battle.x[0, 1] < 17.25, "now red has seen blue and comes to meet it"


def test_a_target_is_kept_while_a_nearer_enemy_comes() -> None:
    battle = Battle(
        x=np.array([[10.0, 15.0, 12.0]]),
        y=np.array([[10.0, 10.0, 10.0]]),
        health=np.array([[45.0, 45.0, 45.0]]),
        cooldown=np.zeros((1, 3)),
        target=np.array([[1, -1, -1]], dtype=np.int16),
        reinforcements=np.zeros(1, dtype=np.intp),
    )
    fight(battle, 1)
    assert battle.target[0, 0] == 1
    assert battle.health[0, 1:].tolist() == [39.0, 45.0]
    battle.health[0, 1] = 0.0
    fight(battle, 1)
    assert battle.target[0, 0] == 2, "the dead are let go"


def test_an_episode_is_the_same_in_any_company_and_thread() -> None:
    scenario = Skirmish()
    states, rewards, _ = play(scenario, episode_keys(9, 0, 60))
    blocks = [(0, 7), (7, 8), (8, 40), (40, 60)]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda b: play(scenario, episode_keys(9, *b)), blocks))
    np.testing.assert_array_equal(states, np.concatenate([part[0] for part in parts], axis=1))
    np.testing.assert_array_equal(rewards, np.concatenate([part[1] for part in parts], axis=1))
    more = play(scenario, episode_keys(9, 0, 100))[1]
    np.testing.assert_array_equal(rewards, more[:, :60])


def test_a_battle_goes_on_from_a_snapshot() -> None:
    scenario, keys = Skirmish(), episode_keys(10, 0, 12)
    battle = play(scenario, keys, steps=20)[2]
    snapshot = take(battle, np.arange(12))
    rest = [scenario.step(battle, t, keys) for t in range(20, 57)]
    again = [scenario.step(snapshot, t, keys) for t in range(20, 57)]
    np.testing.assert_array_equal(rest, again)
    for field in fields(battle):
        np.testing.assert_array_equal(getattr(battle, field.name), getattr(snapshot, field.name))


def test_snapshots_before_step_14_do_not_know_the_reinforcements() -> None:
    scenario, keys = Skirmish(), episode_keys(11, 0, 1)
    snapshot = play(scenario, keys, steps=14)[2]
    copies = take(snapshot, np.zeros(200, dtype=np.intp))
    scenario.step(copies, 14, episode_keys(12, 0, 200))
    assert len(set(copies.reinforcements.tolist())) > 8


def test_a_finished_battle_pays_nothing_more() -> None:
    scenario, keys = Skirmish(), episode_keys(13, 0, 200)
    states, rewards, _ = play(scenario, keys)
    over = (states[:, :, :2] == 0).any(axis=2) & (np.arange(57) > 14)[:, None]
    assert over.any()
    assert (rewards[over] == 0).all()


def test_a_battle_is_open_until_the_reinforcements_are_known_and_hardly_after() -> None:
    # Given the full state, that is; a spread across episodes would say nothing about it.
    scenario = Skirmish()
    run = simulate_with_snapshots(scenario, 60, seed=19, snapshots=[10, 14, 15, 25])
    open_states = {}
    for t, snapshot in run.snapshots.items():
        so_far = run.episodes.at(t).behavior
        truth = true_probability(scenario, snapshot, so_far, t, Target(-3, 8), rollouts=60)
        open_states[t] = np.mean((truth.p > 0.05) & (truth.p < 0.95))
    assert open_states[10] > 0.5
    assert open_states[14] > 0.5
    assert open_states[15] < 0.3
    assert open_states[25] < 0.15


def test_retreating_blue_survives_longer_than_attacking_blue() -> None:
    scenario, keys = Skirmish(blue=(5, 5), red=(10, 10)), episode_keys(15, 0, 100)
    survivors = {}
    for order in (Order.ATTACK, Order.RETREAT):
        battle = scenario.start(keys)
        for t in range(scenario.horizon):
            scenario.command(battle, t, keys, blue=order)
        survivors[order] = scenario.observe(battle)[:, 0].mean()
    assert survivors[Order.RETREAT] == 5.0
    assert survivors[Order.ATTACK] < 1.0


def test_orders_may_differ_between_episodes() -> None:
    scenario, keys = Skirmish(), episode_keys(16, 0, 2)
    battle = scenario.start(keys)
    before = scenario.observe(battle)[:, 4]
    scenario.command(battle, 0, keys, blue=[Order.ATTACK, Order.RETREAT])
    after = scenario.observe(battle)[:, 4]
    assert after[0] < before[0]
    assert after[1] > before[1]


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("blue", (6, 5)),
        ("red", (-1, 5)),
        ("most_reinforcements", -1),
        ("horizon", 0),
        ("distance", 99.0),
        ("distance", float("nan")),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(argument: str, wrong: object) -> None:
    with refuses(InputError, argument, wrong):
        Skirmish(**{argument: wrong})


@pytest.mark.slow
def test_equal_sides_win_equally_often_at_every_size() -> None:
    for size in (1, 2, 5, 20):
        won, decided = blue_wins(size, size, n=20_000, seed=100 + size)
        assert binomtest(won, decided).pvalue > RISK, f"{size} each: blue won {won} of {decided}"


def leads_without_space(blue: int, red: int, n: int, *, focus: bool) -> np.ndarray:
    """Blue's survivors minus red's where everyone reaches everyone: weapons and order, no map."""
    rng = np.random.default_rng(0)
    leads = []
    for _ in range(n):
        health, ready = np.full(blue + red, 45.0), np.zeros(blue + red)
        target = np.full(blue + red, -1)
        sides = (np.arange(blue), np.arange(blue, blue + red))
        loop = 0
        while (health[sides[0]] > 0).any() and (health[sides[1]] > 0).any():
            for i in rng.permutation(np.flatnonzero(health > 0)):
                enemies = [j for j in sides[int(i < blue)] if health[j] > 0]
                if health[i] <= 0 or not enemies or ready[i] > loop:
                    continue
                if target[i] < 0 or health[target[i]] <= 0:
                    target[i] = enemies[0] if focus else rng.choice(enemies)
                health[target[i]] -= 6.0
                ready[i] = loop + 13.77 + rng.uniform(-1.0, 2.0)
            loop += 1
        leads.append((health[:blue] > 0).sum() - (health[blue:] > 0).sum())
    return np.array(leads)


@pytest.mark.slow
def test_a_model_without_space_decides_battles_as_sharply() -> None:
    # One Marine more wins every battle of the simulator; that is no artefact of its map.
    focused = leads_without_space(11, 10, 100, focus=True)
    scattered = leads_without_space(11, 10, 100, focus=False)
    assert (focused > 0).all()
    assert (scattered > 0).mean() > 0.9
    scenario, keys = even(11, 10), episode_keys(21, 0, 500)
    left = scenario.observe(play(scenario, keys)[2])
    lead = left[:, 0] - left[:, 1]
    assert (lead > 0).all()
    # Nearest targets lie between one shared target and random ones.
    assert focused.mean() - 0.3 < lead.mean() < scattered.mean() + 0.3
