"""With a target named at fit, the share that is held out is chosen by the learn episodes (M34)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.modelfile.several import inspect_any
from ontarget.monitor._fitting import chosen_share, divided

TARGET = Target.at_least(0.5)


def runs(n: int, rate: float, seed: int = 0, *, groups: bool = False) -> Episodes:
    """Runs of two steps, of which about this share ends at 1 and the others at 0."""
    rng = np.random.default_rng(seed)
    rewards = np.stack([np.zeros(n), rng.random(n) < rate], axis=1).astype(float)
    return Episodes.from_arrays(
        rng.normal(size=(n, 2, 1)),
        rewards,
        ids=np.arange(n) + 10_000 * seed,
        groups=np.arange(n) % 2 if groups else None,
    )


def share(episodes: Episodes, *, seed: int = 0, most: int = 20_000, **options) -> float:
    found = chosen_share(episodes, TARGET, seed=seed, most=most, **options)
    assert found is not None
    return found.share


@pytest.mark.parametrize(
    ("n", "rate", "expected"),
    [
        (600, 0.7, 0.2),
        (100, 0.7, 0.4),
        (1_000, 0.08, 0.4),
        (1_000, 0.06, 0.5),
        (60, 0.5, 0.0),
        (2_000, 0.01, 0.2),
        (240, 0.05, 0.0),
    ],
)
def test_more_is_held_out_where_fewer_runs_meet_the_target(n, rate, expected) -> None:
    assert share(runs(n, rate)) == pytest.approx(expected, abs=0.051 if expected else 0.0)


@pytest.mark.parametrize(("n", "rate"), [(100, 0.7), (150, 0.5), (400, 0.15)])
def test_with_the_chosen_share_there_are_nearly_always_enough(n: int, rate: float) -> None:
    enough = []
    for seed in range(120):
        episodes = runs(n, rate, seed)
        found = chosen_share(episodes, TARGET, seed=seed, most=n)
        if found is not None and found.enough:
            assure = divided(episodes, found.share, seed=seed, most=n).assure
            enough.append(TARGET.contains(assure.outcomes).sum() >= 19)
    assert len(enough) > 60
    assert np.mean(enough) > 0.85


@pytest.mark.parametrize("groups", [False, True])
def test_only_runs_that_are_learned_from_in_any_case_decide(groups: bool) -> None:
    """Whatever the other runs do, the choice stays: otherwise no promise would be exact."""
    for seed in range(8):
        episodes = runs(121, 0.6, seed, groups=groups)
        seen = chosen_share(episodes, TARGET, seed=seed, most=100, in_groups=groups)
        half = divided(episodes, 0.5, seed=seed, most=100, in_groups=groups).learn
        for every in (0.0, 1.0):
            rewards = np.full(121, every)
            same = np.isin(episodes.ids, half.ids)
            rewards[same] = episodes.outcomes[same]
            other = Episodes.from_arrays(
                np.zeros((121, 2, 1)),
                np.stack([np.zeros(121), rewards], axis=1),
                ids=episodes.ids,
                groups=episodes.groups,
            )
            assert chosen_share(other, TARGET, seed=seed, most=100, in_groups=groups) == seen
        for share_ in (0.2, 0.25, 0.3, 0.35, 0.4, 0.45):
            learn = divided(episodes, share_, seed=seed, most=100, in_groups=groups).learn
            assert np.isin(half.ids, learn.ids).all()


def test_the_group_that_needs_most_decides_among_those_that_can_be_served() -> None:
    episodes = runs(400, 0.9, groups=True)
    assert share(episodes, in_groups=True) == 0.2
    rare = np.where((episodes.groups == 1) & (np.arange(400) % 10 < 6), 0.0, episodes.outcomes)
    rewards = np.stack([np.zeros(400), rare], axis=1)
    options = {"ids": episodes.ids, "groups": episodes.groups}
    mixed = Episodes.from_arrays(np.zeros((400, 2, 1)), rewards, **options)
    assert share(mixed, in_groups=True) > 0.2 == share(mixed)


def test_episodes_that_are_held_out_anyway_count() -> None:
    assert share(runs(1_000, 0.06)) > 0.3
    assert share(runs(1_000, 0.06), most=200) == 0.2
    assert share(runs(40, 0.9)) == 0.0
    assert share(runs(40, 0.9), before=50) == 0.2


def fitted(episodes: Episodes, **options) -> GoalMonitor:
    return GoalMonitor("marginal").fit(episodes, progress=False, **options)


def test_where_the_usual_share_is_enough_the_fit_stays_as_it_is() -> None:
    episodes = runs(400, 0.6)
    plain, aimed = fitted(episodes), fitted(episodes, target=TARGET)
    assert aimed.sizes == plain.sizes
    assert aimed.fitted.assure.ids.tolist() == plain.fitted.assure.ids.tolist()
    assert "held out" in aimed.summary()
    assert "held out" not in plain.summary()


def test_a_fit_says_and_keeps_what_it_chose(tmp_path: Path) -> None:
    few = fitted(runs(60, 0.5), target=TARGET)
    assert few.sizes == {"learn": 60, "assure": 0}
    more = fitted(runs(100, 0.7), target=TARGET)
    assert more.alarm_curve(rates=[0.05]).promised
    more.save(tmp_path / "more.ontarget")
    again = GoalMonitor.load(tmp_path / "more.ontarget")
    assert again.summary() == more.summary()
    assert inspect_any(tmp_path / "more.ontarget")["chosen"]["held_out"][0] > 0.2
    assert "held out" not in again.recalibrate(runs(100, 0.7, 1)).summary()


def test_a_share_or_a_division_that_the_user_gives_stands() -> None:
    episodes = runs(100, 0.7)
    assert fitted(episodes, target=TARGET, assure=0.2).sizes["assure"] == 20
    assert GoalMonitor().fit(split=episodes.split(), target=TARGET, progress=False).sizes == {
        "learn": 80,
        "assure": 20,
    }
    paper = GoalMonitor(preset="paper").fit(episodes, target=TARGET, progress=False)
    assert paper.sizes == {"train": 40, "calibrate": 40, "assure": 20}


def test_a_warm_fit_keeps_the_old_parts() -> None:
    first = fitted(runs(100, 0.7), target=TARGET)
    both = Episodes.concat([runs(100, 0.7), runs(40, 0.7, 1)])
    second = GoalMonitor().fit(both, warm=first, progress=False)
    assert second.sizes["assure"] == first.sizes["assure"] + 8
    assert np.isin(first.fitted.assure.ids, second.fitted.assure.ids).all()


def test_a_goal_chooses_as_a_target_does() -> None:
    rng = np.random.default_rng(0)
    gain, spent = rng.normal(size=(2, 100, 3))
    episodes = Episodes.from_arrays(
        rng.normal(size=(100, 3, 1)),
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    monitor = fitted(episodes, target=Goal.parse("gain >= -1 & spent <= 2"))
    assert 20 < monitor.sizes["assure"] <= 50
    assert "held out" in monitor.summary()
