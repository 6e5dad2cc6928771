from __future__ import annotations

import numpy as np
import pytest

from ontarget._grid import snap
from ontarget.domains import Tamarisk, simulate, simulate_with_snapshots, simulation
from ontarget.domains.domain import domain_of, take
from ontarget.domains.draws import episode_keys
from ontarget.errors import InputError
from refusals import refuses

DOMAIN = Tamarisk("paper")


def arrays(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    record = simulation._run(DOMAIN, n, seed, [], None)
    return record.states, record.rewards


@pytest.mark.parametrize("threads", ["1", "2", "3"])
@pytest.mark.parametrize("block", [1, 7, 512, 10_000])
def test_threads_and_blocks_change_no_bit(
    threads: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, rewards = arrays(100)
    monkeypatch.setenv("ONTARGET_THREADS", threads)
    monkeypatch.setattr(simulation, "_BLOCK", block)
    again = arrays(100)
    assert np.array_equal(states, again[0])
    assert np.array_equal(rewards, again[1])


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    states, rewards = arrays(300)
    longer_states, longer_rewards = arrays(1_000)
    assert np.array_equal(states, longer_states[:300])
    assert np.array_equal(rewards, longer_rewards[:300])


def test_seeds_give_other_episodes() -> None:
    assert not np.array_equal(arrays(100, seed=0)[1], arrays(100, seed=1)[1])


def test_episodes_hold_what_was_simulated() -> None:
    states, rewards = arrays(50)
    episodes = simulate(DOMAIN, 50)
    total = np.zeros(50)
    for t in range(50):
        total = total + rewards[:, t]  # left to right, as M1 sums
    assert (len(episodes), episodes.horizon) == (50, 50)
    assert episodes.schema.names == DOMAIN.features
    assert len(episodes.schema.categorical) == 7
    assert np.array_equal(episodes.outcomes, snap(total, episodes.grid))
    assert np.array_equal(episodes.at(7).states, states[:, 7])


def test_an_episode_goes_on_from_its_snapshot_as_it_went_on() -> None:
    run = simulate_with_snapshots(DOMAIN, 600, seed=4, snapshots=[0, 30])
    _, rewards = arrays(600, seed=4)
    rows = np.array([0, 511, 512, 599])
    state = take(run.snapshots[30], rows)
    assert np.array_equal(DOMAIN.observe(state), run.episodes.at(30).states[rows])
    keys = episode_keys(4, 0, 600, "simulate", "tamarisk")[rows]
    for t in range(30, 50):
        assert np.array_equal(DOMAIN.step(state, t, keys), rewards[rows, t])


def test_snapshots_change_no_episode() -> None:
    run = simulate_with_snapshots(DOMAIN, 50, seed=1, snapshots=[3, 3, 10])
    assert sorted(run.snapshots) == [3, 10]
    assert np.array_equal(run.episodes.outcomes, simulate(DOMAIN, 50, seed=1).outcomes)


def test_progress_counts_up_to_every_episode(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    simulate(DOMAIN, 1_000)
    shown = capsys.readouterr().err
    assert "simulating tamarisk" in shown
    assert "1000/1000" in shown
    simulate(DOMAIN, 1_000, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("steps", [[-1], [50], [0, 99]])
def test_snapshots_outside_the_horizon_are_refused(steps: list[int]) -> None:
    with refuses(InputError, "snapshots", 49, steps):
        simulate_with_snapshots(DOMAIN, 1, snapshots=steps)


def test_no_episodes_are_refused() -> None:
    with refuses(InputError, "episodes", 0):
        simulate(DOMAIN, 0)


def test_domains_are_found_by_name() -> None:
    assert domain_of(DOMAIN) is DOMAIN
    assert repr(domain_of("tamarisk")) == "Tamarisk('paper')"
    assert repr(domain_of("tamarisk", preset="tight-budget")) == "Tamarisk('tight-budget')"
    by_name = simulate_with_snapshots("tamarisk", 20, seed=3, snapshots=[5])
    by_value = simulate_with_snapshots(Tamarisk("paper"), 20, seed=3, snapshots=[5])
    assert np.array_equal(by_name.episodes.outcomes, by_value.episodes.outcomes)
    assert np.array_equal(by_name.snapshots[5].edges, by_value.snapshots[5].edges)


def test_what_is_no_domain_is_refused_with_the_names_of_those_there_are() -> None:
    with refuses(InputError, "domain", "'chess'"):
        simulate("chess", 1)
    for wrong in (None, Tamarisk, 3):
        with refuses(InputError, "domain", repr(wrong)[:80]):
            simulate(wrong, 1)
    with refuses(InputError, "preset", "tamarisk", "'skirmish'"):
        domain_of("skirmish", preset="paper")
