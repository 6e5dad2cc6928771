"""M29: categories of nothing but noise tell nothing, and p does not pretend that they do."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import EpisodesWarning
from ontarget.fitting import fit
from ontarget.live.answering import rehearsed_answers
from ontarget.models import QuantileForest, StackedForest

STEPS = 3


def coin_flips(n: int, n_categories: int, seed: int) -> tuple[Episodes, np.ndarray]:
    rng = np.random.default_rng(seed)
    names, met = rng.integers(0, n_categories, n), rng.integers(0, 2, n)
    states = np.stack([np.repeat(names[:, None], STEPS, 1), rng.normal(size=(n, STEPS))], axis=2)
    rewards = np.zeros((n, STEPS))
    rewards[:, -1] = met
    return Episodes.from_arrays(states, rewards, features=["name", "x"], categorical=["name"]), met


def brier(monitor: GoalMonitor, n: int, n_categories: int, seed: int) -> float:
    episodes, met = coin_flips(n + 500, n_categories, seed)
    monitor.fit(episodes.take(np.arange(n)), seed=seed, progress=False)
    found = monitor.evaluate(episodes.take(np.arange(n, n + 500)), Target.at_least(0.5))
    return float(np.nanmean((found.p - met[n:]) ** 2))


@pytest.mark.parametrize(("n", "n_categories"), [(500, 100), (500, 250), (2_000, 1_000)])
def test_p_is_no_worse_than_the_rate_where_outcomes_are_coin_flips(n, n_categories) -> None:
    found = [brier(GoalMonitor(), n, n_categories, seed) for seed in range(2)]
    assert np.mean(found) <= 0.265


@pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning")
def test_one_order_of_categories_for_all_trees_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted bug: an order by mean outcome that each episode had a hand in."""
    monitor = GoalMonitor(QuantileForest(60, min_leaf=3))
    honest = [brier(monitor, 500, 250, seed) for seed in (0, 1)]
    monkeypatch.setattr(fit, "honest_model", lambda model: model)
    leaking = [brier(monitor, 500, 250, seed) for seed in (0, 1)]
    assert np.mean(leaking) > 0.29 > 0.275 > np.mean(honest)


def warned(monitor: GoalMonitor, seed: int) -> bool:
    episodes, _ = coin_flips(500, 250, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EpisodesWarning)
        monitor.fit(episodes, seed=seed, progress=False)
    return any(issubclass(one.category, EpisodesWarning) for one in caught)


def test_a_fit_warns_of_a_leak_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = GoalMonitor(QuantileForest(60, min_leaf=3))
    assert not any(warned(monitor, seed) for seed in range(20))
    monkeypatch.setattr(fit, "honest_model", lambda model: model)
    assert all(warned(monitor, seed) for seed in range(5))


def test_a_fit_that_warns_is_the_same_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing estimated acts on the comparison: a fit that passed it would promise too much."""
    monkeypatch.setattr(fit, "honest_model", lambda model: model)
    episodes, _ = coin_flips(500, 250, 0)
    monitor = GoalMonitor(QuantileForest(60, min_leaf=3))
    with pytest.warns(EpisodesWarning):
        monitor.fit(episodes, progress=False).save(tmp_path / "one.ontarget")
    monkeypatch.setattr(fit, "_warn_of_a_leak", lambda *_: None)
    monitor.fit(episodes, progress=False).save(tmp_path / "other.ontarget")
    assert (tmp_path / "one.ontarget").read_bytes() == (tmp_path / "other.ontarget").read_bytes()


def lucky_runs(steps: int, outcomes: int, seed: int) -> Episodes:
    """300 runs with outcomes by pure luck; what is known of a run is its id, twice, and a name."""
    rng, n = np.random.default_rng(seed), 300
    known = [rng.permutation(n), rng.permutation(n), rng.integers(0, n // 4, n)]
    states = np.repeat(np.stack(known, axis=1)[:, None], steps, axis=1).astype(float)
    rewards = np.zeros((n, steps))
    rewards[:, -1] = rng.integers(0, outcomes, n)
    features = ["id", "number", "name"]
    return Episodes.from_arrays(states, rewards, features=features, categorical=["id", "name"])


def own_briers(monitor: GoalMonitor, target: Target) -> list[float]:
    """The Brier scores of p for the learn episodes, with the common curve and the target's map."""
    contracts = monitor.contracts
    answers = [
        rehearsed_answers(contracts.asked(target, one)) for one in (None, contracts.map_of(target))
    ]
    return [float(np.nanmean((one.p - one.met) ** 2)) for one in answers]


@pytest.mark.parametrize(
    ("model", "steps", "outcomes"),
    [
        (StackedForest(experts=["forest"]), 3, 2),  # which read guides
        (StackedForest(10, experts=["forest", "shift"]), 3, 2),
        (StackedForest(10, experts=["forest", "linear"]), 3, 2),
        (StackedForest(5), 20, 2),  # long enough to choose the spacing of blocks
        (StackedForest(10), 3, 10),  # some outcomes may seem impossible
    ],
)
def test_no_part_of_a_model_knows_the_luck_of_a_run_by_its_id(model, steps, outcomes) -> None:
    monitor = GoalMonitor(model).fit(lucky_runs(steps, outcomes, 0), progress=False)
    # Who knows nothing can't be better than the rate, 1/4, but for chance.
    assert min(own_briers(monitor, Target.at_least(outcomes / 2))) > 0.235


@pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning")
def test_a_part_that_knew_the_luck_of_runs_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "honest_model", lambda model: model)
    monitor = GoalMonitor(QuantileForest(60, min_leaf=3))
    monitor.fit(lucky_runs(3, 2, 0), progress=False)
    assert max(own_briers(monitor, Target.at_least(1.0))) < 0.22
