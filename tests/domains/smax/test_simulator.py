"""The paper's battles in JaxMARL's engine: who fights, who wins, and what a step pays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from ontarget.domains import smax as engine
from ontarget.domains.domain import Domain, take
from ontarget.domains.draws import episode_keys, streams
from ontarget.domains.simulation import simulate
from ontarget.domains.smax import Smax, SmaxBattle
from ontarget.errors import InputError

pytest.importorskip("jaxmarl", reason="JaxMARL is not installed; pip install 'ontarget[smax]'")

pytestmark = pytest.mark.slow  # an engine takes half a minute to compile

# Every statistical check below fails on correct code at most once in 10**8 seeds.
RISK = 1e-8
MOST = 13  # blue's places in an even battle; one engine then serves every number of units


def even(blue: int, red: int, *, n: int, seed: int, weakened: int | None = None) -> np.ndarray:
    """Who is left of each side after battles in which both follow the engine's policy.

    The unit in the weakened column starts with one shot's health less than the others.
    """
    scenario = Smax(blue=(MOST, MOST), red=(10, 10), most_reinforcements=0, horizon=80, mirror=True)
    keys = episode_keys(seed, 0, n)
    battle = scenario.start(keys)
    battle.health[:, blue:MOST] = 0.0
    battle.health[:, MOST + red :] = 0.0
    if weakened is not None:
        battle.health[:, weakened] -= 9.0
    for t in range(scenario.horizon):
        scenario.step(battle, t, keys)
    return scenario.observe(battle)[:, :2]


def blue_wins(left: np.ndarray) -> tuple[int, int]:
    """How many battles blue won, and how many either side won; the last may kill each other."""
    won, lost = (left[:, 1] == 0) & (left[:, 0] > 0), (left[:, 0] == 0) & (left[:, 1] > 0)
    return int(won.sum()), int((won | lost).sum())


def play(scenario: Smax, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, SmaxBattle]:
    battle = scenario.start(keys)
    states, rewards = [], []
    for t in range(scenario.horizon):
        states.append(scenario.observe(battle))
        rewards.append(scenario.step(battle, t, keys))
    return np.array(states), np.array(rewards), battle


@pytest.fixture(scope="module")
def played() -> tuple[np.ndarray, np.ndarray, np.ndarray, SmaxBattle]:
    keys = episode_keys(3, 0, 300)
    return keys, *play(Smax(), keys)


def test_smax_is_a_domain_with_the_skirmishs_features() -> None:
    domain: Domain[SmaxBattle] = Smax()
    assert (domain.name, domain.horizon, domain.categorical) == ("smax", 57, ())
    states = domain.observe(domain.start(episode_keys(0, 0, 4)))
    assert states.shape == (4, len(domain.features))
    assert (states[:, 2:4] == 45.0 * states[:, :2]).all()
    with pytest.raises(InputError, match="`blue` needs"):
        Smax(blue=(3, 2))


def test_units_start_within_two_of_their_place() -> None:
    scenario = Smax()
    battle = scenario.start(episode_keys(1, 0, 500))
    living = battle.health > 0.0
    for side, columns in ((0, slice(0, 20)), (1, slice(20, 45))):
        away = np.abs(battle.positions[:, columns] - scenario.places[side])[living[:, columns]]
        assert 1.99 < away.max() <= 2.0
        assert abs(away.mean() - 1.0) < 0.02


def test_reinforcements_arrive_at_step_14_and_choose_their_own_heading() -> None:
    scenario, keys = Smax(), episode_keys(2, 0, 200)
    battle, arrivals = scenario.start(keys), scenario.armies(keys).reinforcements
    for t in range(14):
        scenario.step(battle, t, keys)
    assert (battle.health[:, 30:] == 0).all()
    assert (scenario.observe(battle)[:, 5] == 0).all(), "x_14 is observed before they arrive"
    calm = take(battle, np.arange(200))
    scenario._reinforce(calm, keys)
    assert ((calm.health[:, 30:] == 45.0).sum(axis=1) == arrivals).all()
    scenario.step(battle, 14, keys)
    here = (battle.health[:, 30:] > 0.0) & (battle.health[:, :20] > 0.0).any(axis=1)[:, None]
    # The engine sends a unit to the place opposite its own: from around (24, 16) to (8, 16).
    off = np.abs(battle.heading[:, 30:] - scenario.places[0])[here]
    assert here.sum() > 100
    assert off.max() < 3.0
    assert (scenario.observe(battle)[:, 5] == (arrivals > 0)).all()


def test_rewards_are_count_differences_and_dead_units_stay_dead(played: tuple) -> None:
    keys, states, rewards, battle = played
    counts = np.concatenate([states, Smax().observe(battle)[None]])[:, :, :2]
    joined = np.zeros(rewards.shape)
    joined[14] = Smax().armies(keys).reinforcements
    red_lost = counts[:-1, :, 1] + joined - counts[1:, :, 1]
    blue_lost = counts[:-1, :, 0] - counts[1:, :, 0]
    assert (blue_lost >= 0).all()
    assert (red_lost >= 0).all()
    np.testing.assert_array_equal(rewards, red_lost - blue_lost)


def test_every_hit_point_that_is_gone_was_shot_and_units_stay_on_the_map(played: tuple) -> None:
    _, states, _, battle = played
    assert (states[:, :, 2:4] % 9.0 == 0.0).all(), "a shot takes nine"
    health = states[:, :, 2:4].sum(axis=2)
    arrived = np.zeros(health.shape[0] - 1, dtype=bool)
    arrived[14] = True
    assert (np.diff(health, axis=0)[~arrived] <= 0.0).all()
    living = battle.positions[battle.health > 0.0]
    assert ((living > 0.0) & (living < 32.0)).all()


def test_nobody_moves_once_a_side_is_gone(played: tuple) -> None:
    _, states, rewards, _ = played
    over = (states[:-1, :, :2] == 0.0).any(axis=2)
    over[14] = False  # reinforcements may arrive
    assert over[40:].mean() > 0.99
    assert (rewards[:-1][over] == 0.0).all()
    assert (states[1:][over] == states[:-1][over]).all()


def test_equal_sides_win_equally_often() -> None:
    won, decided = blue_wins(even(10, 10, n=1024, seed=4))
    assert decided > 900
    bounds = binom.ppf([RISK / 2, 1 - RISK / 2], decided, 0.5)
    assert bounds[0] <= won <= bounds[1], f"blue won {won} of {decided}"


def test_swapping_the_sides_swaps_the_win_rates() -> None:
    won_as_blue, decided_as_blue = blue_wins(even(10, 10, n=1024, seed=5, weakened=MOST))
    lost_as_red, decided_as_red = blue_wins(even(10, 10, n=1024, seed=6, weakened=0))
    wins, decided = won_as_blue + decided_as_red - lost_as_red, decided_as_blue + decided_as_red
    assert 0.52 < wins / decided < 0.8
    # Given how often the stronger side won in all, its wins as blue are hypergeometric.
    law = hypergeom(decided, wins, decided_as_blue)
    assert law.ppf(RISK / 2) <= won_as_blue <= law.ppf(1 - RISK / 2)


def test_win_probability_rises_with_the_numerical_ratio() -> None:
    left = [blue_wins(even(blue, 10, n=256, seed=7)) for blue in (7, 9, 10, 11, 13)]
    rates = [won / decided for won, decided in left]
    assert rates == sorted(rates)
    assert rates[0] < 0.1
    assert rates[-1] > 0.9


def test_blue_walks_toward_a_red_that_it_does_not_see() -> None:
    scenario, keys = Smax(), episode_keys(8, 0, 1)
    battle = scenario.start(keys)
    battle.health[:] = 0.0
    battle.health[0, [0, 20, 21]] = 45.0
    battle.positions[0, [0, 20, 21]] = [(8.0, 12.0), (7.0, 30.0), (9.0, 30.0)]
    scenario.step(battle, 0, keys)
    # Eight moments of 1/16 second at 3.15 a second; the engine's own goal would be the right half.
    np.testing.assert_allclose(battle.positions[0, 0], (8.0, 12.0 + 3.15 / 2.0), rtol=1e-5)


def test_an_episode_is_the_same_bits_in_any_company(played: tuple) -> None:
    keys, states, rewards, _ = played
    for start, stop in ((0, 7), (290, 300)):
        alone = play(Smax(), keys[start:stop])
        np.testing.assert_array_equal(alone[0], states[:, start:stop])
        np.testing.assert_array_equal(alone[1], rewards[:, start:stop])


def test_simulated_episodes_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ONTARGET_THREADS", threads)
        frames.append(simulate("smax", 600, seed=1, progress=False).to_frame())
    assert frames[0].equals(frames[1])


def test_a_mirrored_battle_is_the_engines_own() -> None:
    """Step by step what HeuristicEnemySMAX does when it keeps its own state from reset on."""
    jax, smax, policy, battles = engine.library()
    n = 4
    marines = smax.Scenario(np.zeros(2 * n, np.uint8), n, n, False, False)
    env = battles.HeuristicEnemySMAX(scenario=marines)
    _, state = env.reset(jax.random.PRNGKey(3))
    decide = jax.vmap(policy.create_heuristic_policy(env._env, 0))
    memory = state.enemy_policy_state
    ours = Smax(blue=(n, n), red=(n, n), most_reinforcements=0, mirror=True)
    keys = episode_keys(11, 0, 1)
    battle = ours.start(keys)
    battle.positions[0] = state.state.unit_positions
    for t in range(12):
        word = int(streams(keys, t)[0])
        key = np.array([word >> 32, word & 0xFFFFFFFF], np.uint32)
        blue_key, battle_key = jax.random.split(key)
        obs = env.get_obs(state)
        actions, memory = decide(
            jax.random.split(blue_key, n), memory, np.stack([obs[agent] for agent in env.agents])
        )
        _, state, *_ = env.step_env(battle_key, state, dict(zip(env.agents, actions, strict=True)))
        ours.step(battle, t, keys)
        np.testing.assert_allclose(battle.positions[0], state.state.unit_positions, rtol=1e-5)
        np.testing.assert_array_equal(battle.health[0], state.state.unit_health)
    assert battle.health.min() < 45.0
