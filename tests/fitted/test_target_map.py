"""A watch's one target has its own map: learned from learn, kept in the file, asked by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import poisson

from ontarget import Episodes, GoalMonitor, Target
from ontarget.episodes import Split
from ontarget.errors import InputError
from ontarget.fitted.joint.asked import map_target
from ontarget.fitted.kernels import DECIDED, KNOTS
from ontarget.fitted.target_map import FOLDS
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.walks import replay, walks

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

FOREST = QuantileForest(n_trees=12, min_leaf=5)
TARGET = Target.at_least(0.1)


@cache
def fitted(**options) -> GoalMonitor:
    asked = {name: options.pop(name) for name in ("group",) if name in options}
    runs = walks(300, ragged=True, **options)
    return GoalMonitor(FOREST, min_calibration=5, **asked).fit(runs, progress=False)


def test_p_of_a_watch_is_the_map_of_the_common_p() -> None:
    monitor, new = fitted(), walks(20, seed=3)
    own_map = map_target(monitor.contracts.asked(TARGET))
    assert own_map.identity[:-1].max() < 1.0  # at the last step are too few runs to learn from
    own = monitor.evaluate(new, TARGET, resamples=2)
    common = monitor.evaluate(new, TARGET, calibration="common", resamples=2)
    for t in range(new.horizon):
        table = own_map.values[t, 0]
        np.testing.assert_allclose(own.p[t], np.interp(common.p[t], KNOTS, table), atol=1e-12)
        assert np.all(np.diff(own.p[t][np.argsort(common.p[t])]) >= 0.0)
    assert np.abs(own.p - common.p).max() > 0.001
    for name in ("low", "high", "plausibility", "assurance"):
        np.testing.assert_array_equal(getattr(own, name), getattr(common, name))
    assert np.all((own.spread[..., 0] <= own.p) & (own.p <= own.spread[..., 1]))
    live = [outlook.p for outlook in replay(monitor.watch(TARGET), new, 5)[:-1]]
    np.testing.assert_array_equal(live, own.p[:, 5])


def test_what_is_decided_passes_the_map_by_and_teaches_it_nothing() -> None:
    monitor, target = fitted(behavior="max"), Target.at_least(0.5)
    found = monitor.outlook(2, np.zeros((3, 2)), [0.4, 0.5, 0.6], target, calibration="target")
    assert found.p[1:].tolist() == [1.0, 1.0]
    assert 0.0 < found.p[0] < 1.0
    # Every run that has met it before step 2 is decided there, whatever it says.
    rehearsal = monitor.fitted.rehearsal
    (step,) = monitor.contracts.asked(target).rehearsed([2])
    rows, index = rehearsal.rows_at(2)
    before = rehearsal.before[rows][np.isin(index, step.episodes)]
    assert np.array_equal(step.numbers[:, DECIDED] == 1.0, before >= 0.5)
    assert 0 < np.count_nonzero(before >= 0.5) < before.size


def test_a_target_that_all_runs_meet_leaves_p_as_it_is_to_the_last_bit() -> None:
    monitor, new, target = fitted(), walks(20, seed=3), Target.at_least(-100.0)
    own, common = (
        monitor.evaluate(new, target, calibration=one, resamples=2).p
        for one in ("target", "common")
    )
    np.testing.assert_array_equal(own, common)
    assert map_target(monitor.contracts.asked(target)).identity.min() == 1.0


def test_the_order_of_the_episodes_makes_no_difference() -> None:
    runs = walks(150, ragged=True)
    order = np.random.default_rng(0).permutation(150)
    one, other = (
        map_target(
            GoalMonitor(Marginal(), min_calibration=5)
            .fit(split=Split(learn, None, None), progress=False)
            .contracts.asked(TARGET)
        )
        for learn in (runs, runs.take(order))
    )
    np.testing.assert_array_equal(one.tables, other.tables)
    np.testing.assert_array_equal(one.folds, other.folds)


def test_a_loaded_monitor_learns_the_same_map(tmp_path: Path) -> None:
    monitor = fitted()
    monitor.save(tmp_path / "a.ontarget")
    loaded = GoalMonitor.load(tmp_path / "a.ontarget")
    one, other = (map_target(each.contracts.asked(TARGET)) for each in (monitor, loaded))
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.identity, other.identity)


def test_a_long_run_is_rehearsed_at_some_steps_and_mapped_at_all() -> None:
    runs = walks(120, horizon=60, atoms=False)
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)
    rehearsal, target = monitor.fitted.rehearsal, Target.at_least(float(np.median(runs.outcomes)))
    assert rehearsal.steps.size == 20
    assert rehearsal.steps[[0, -1]].tolist() == [0, 59]
    assert rehearsal.ladder.shape[1] <= 50
    assert len(rehearsal.left) == 0  # without atoms the limits are equal
    found = map_target(monitor.contracts.asked(target))
    below, above = found.steps[3:5].tolist()
    part = (below + 1 - below) / (above - below)
    between = (1 - part) * found.tables[FOLDS, 3, 0] + part * found.tables[FOLDS, 4, 0]
    np.testing.assert_allclose(found.values[below + 1, 0], between, atol=1e-12)


def test_of_very_many_episodes_a_part_is_kept_within_the_budget_of_the_file() -> None:
    runs = walks(2500, horizon=30, atoms=False)
    monitor = GoalMonitor(Marginal()).fit(runs, progress=False)
    rehearsal = monitor.fitted.rehearsal
    assert len(rehearsal) == 1500
    assert sum(one.nbytes for one in rehearsal.to_arrays().values()) < 4_200_000


def test_a_group_with_enough_episodes_has_a_map_of_its_own() -> None:
    few = fitted(groups=3, group="group")  # 80 learning episodes each
    tables = map_target(few.contracts.asked(TARGET)).tables
    assert np.array_equal(tables[:, :, 0], tables[:, :, 1])
    enough = fitted(groups=2, group="group")
    tables = map_target(enough.contracts.asked(TARGET)).tables
    assert not np.array_equal(tables[:, :, 0], tables[:, :, 1])


def test_the_papers_way_has_no_map() -> None:
    runs = walks(200)
    monitor = GoalMonitor(FOREST, preset="paper", min_calibration=5).fit(runs, progress=False)
    assert monitor.fitted.rehearsal is None
    own, common = (
        monitor.evaluate(walks(10, seed=3), TARGET, calibration=one, resamples=2)
        for one in ("target", "common")
    )
    np.testing.assert_array_equal(own.p, common.p)
    assert "the paper" in own.summary()


def test_words_say_how_p_was_calibrated() -> None:
    monitor, new = fitted(), walks(60, seed=3)
    own = monitor.evaluate(new, TARGET, resamples=2).summary()
    assert "target map" in own
    assert "240 episodes" in own
    common = monitor.evaluate(new, TARGET, calibration="common", resamples=2).summary()
    assert "one map" in common
    assert "240 learning" in common
    assert "240 learning" in monitor.summary()


@pytest.mark.parametrize("wrong", [None, "exact", 3])
def test_a_calibration_that_there_is_not_is_refused(wrong: object) -> None:
    with refuses(InputError, "calibration", "'target'", f"got {wrong!r}"):
        fitted().watch(TARGET, calibration=wrong)


def test_a_map_serves_one_target_alone() -> None:
    with refuses(InputError, "target", "[0.1, inf)"):
        fitted().outlook(0, np.zeros((1, 2)), 0.0, [TARGET], calibration="target")


def counts(n: int, seed: int) -> tuple[Episodes, np.ndarray]:
    """One step, whose reward is Poisson; and each run's mean."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 1, 2))
    mean = np.exp(0.6 * states[:, 0, 0] + 0.7)
    rewards = rng.poisson(mean)[:, None].astype(float)
    return Episodes.from_arrays(states, rewards, ids=[f"{seed}-{i}" for i in range(n)]), mean


def test_maps_bring_p_closer_to_the_truth_and_never_far_from_it() -> None:
    """Excess Brier, times 10⁴, over four targets: 213 by the common p, 197 by maps (one seed)."""
    new, mean = counts(3000, 50)
    monitor = GoalMonitor(QuantileForest(n_trees=30)).fit(counts(1500, 0)[0], progress=False)
    excess = np.empty((4, 2))
    for place, (least, most) in enumerate(((0, 0), (1, 1), (2, 4), (5, 1000))):
        true = poisson.cdf(most, mean) - poisson.cdf(least - 1, mean)
        for column, one in enumerate(("common", "target")):
            asked = (0, new.at(0).states, 0.0, Target(least, most))
            p = monitor.outlook(*asked, calibration=one).p
            excess[place, column] = np.mean((p - true) ** 2)
    common, own = excess.sum(axis=0)
    assert own < 0.95 * common
    assert np.max(excess[:, 1] - excess[:, 0]) < 2e-4
