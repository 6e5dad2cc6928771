from __future__ import annotations

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import (
    CalibrationError,
    EpisodesError,
    FewEpisodesError,
    GroupError,
    InputError,
)
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.walks import shifted, walks

FOREST = QuantileForest(n_trees=12, min_leaf=5)
OLD, NEW = walks(400), walks(80, seed=7)
MONITOR = GoalMonitor(FOREST, min_calibration=5).fit(OLD, progress=False)
GOAL = Target.at_least(0.3)


def test_models_and_p_are_kept_and_everything_promised_is_new() -> None:
    again = MONITOR.recalibrate(NEW)
    assert again.sizes == {"learn": 320, "assure": 80}
    rows = NEW.at(2)
    old, new = (m.outlook(2, rows.states, rows.behavior, GOAL) for m in (MONITOR, again))
    assert np.array_equal(old.p, new.p)
    assert set(new.n.tolist()) == {80}
    assert sorted(again.fitted.assure.ids.tolist()) == sorted(NEW.ids.tolist())
    assert MONITOR.sizes == {"learn": 320, "assure": 80}
    assert not np.array_equal(again.fitted.excess, MONITOR.fitted.excess)


def test_ranks_and_excesses_are_those_that_a_fit_gives_the_same_assure_episodes() -> None:
    """A fit that learned from the same episodes, and assures by the new ones, knows no other."""
    parts = OLD.split(seed=0)
    fresh = GoalMonitor(FOREST, min_calibration=5).fit(
        split=parts._replace(assure=NEW), progress=False
    )
    again = MONITOR.recalibrate(NEW)
    assert np.array_equal(fresh.fitted.ranks.values, again.fitted.ranks.values)
    assert np.array_equal(fresh.fitted.excess, again.fitted.excess)


def test_renewed_p_follows_the_change() -> None:
    better, later = shifted(300, 11, 0.15), shifted(300, 12, 0.15)
    kept = MONITOR.recalibrate(better)
    renewed = MONITOR.recalibrate(better, renew_p=True)
    assert renewed.sizes == {"learn": 470, "assure": 150}
    learn, assure = map(renewed.fitted.trained.fingerprints_of, ("learn", "assure"))
    assert not np.isin(learn, assure).any()  # p must not depend on what assures it (M8)
    gaps = [
        abs(float(np.nanmean(m.evaluate(later, GOAL, resamples=2).p)) - GOAL.contains(
            later.outcomes, later.grid).mean())
        for m in (kept, renewed)
    ]  # fmt: skip
    assert gaps[1] < 0.5 * gaps[0]


def test_a_recalibrated_monitor_is_saved_and_loaded(tmp_path) -> None:
    again = MONITOR.recalibrate(NEW, renew_p=True, seed=3)
    again.save(tmp_path / "again.ontarget")
    loaded = GoalMonitor.load(tmp_path / "again.ontarget")
    rows = NEW.at(3)
    one, other = (
        m.outlook(3, rows.states, rows.behavior, GOAL, calibration="target")
        for m in (again, loaded)
    )
    for name in ("p", "low", "high", "plausibility"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    with refuses(CalibrationError, None, "recalibrate", "80 of"):
        loaded.recalibrate(NEW)


def test_the_order_of_the_new_episodes_makes_no_difference() -> None:
    turned = NEW.take(np.arange(len(NEW))[::-1])
    one, other = MONITOR.recalibrate(NEW, seed=2), MONITOR.recalibrate(turned, seed=2)
    assert np.array_equal(one.fitted.ranks.values, other.fitted.ranks.values)
    assert np.array_equal(np.sort(one.fitted.excess), np.sort(other.fitted.excess))


def test_groups_are_recalibrated_each_by_itself() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5, group="group")
    monitor.fit(walks(200, groups=2), progress=False)
    new = walks(40, groups=2, seed=3)
    again = monitor.recalibrate(new)
    assert again.fitted.counts[0].tolist() == [20, 20]
    with refuses(GroupError, None, "recalibrate", "'1'"):
        monitor.recalibrate(new.take(new.groups == "0"))


def test_the_paper_way_takes_half_for_its_ranks() -> None:
    monitor = GoalMonitor(Marginal(), "paper", min_calibration=5).fit(walks(200), progress=False)
    again = monitor.recalibrate(walks(60, seed=3))
    assert again.sizes == {"train": 80, "calibrate": 30, "assure": 30}
    with refuses(FewEpisodesError, None, "2 can", "needs 5"):
        monitor.recalibrate(walks(4, seed=3))


def test_cut_off_episodes_count_as_the_worst_case() -> None:
    cut = walks(40, seed=5, ragged=True)
    states = [np.stack([cut.at(t).states[cut.at(t).index == i][0] for t in range(n)])
              for i, n in enumerate(cut.lengths)]  # fmt: skip
    rewards = [np.zeros(n) for n in cut.lengths]
    runs = Episodes.from_arrays(
        states, rewards, ids=cut.ids, horizon=6, truncated=cut.lengths < 6, censored="worst-case"
    )
    again = MONITOR.recalibrate(runs)
    assert again.fitted.stopped == (int(np.count_nonzero(cut.lengths < 6)),)


@pytest.mark.parametrize(
    ("episodes", "refusal"),
    [
        (OLD.take(range(5)), (CalibrationError, None, "recalibrate", "5 of")),
        (
            walks(20, behavior="max"),
            (EpisodesError, None, "behavior sum", "got max"),
        ),
        (walks(20, 5, seed=3), (EpisodesError, None, "6 steps", "got 5")),
        (
            Episodes.from_arrays(np.zeros((4, 6, 1)), np.zeros((4, 6)), horizon=6),
            (EpisodesError, None, "(x0, x1)", "(x0)"),
        ),
    ],
)
def test_episodes_that_cannot_recalibrate_are_refused(episodes, refusal) -> None:
    with refuses(*refusal):
        MONITOR.recalibrate(episodes)


def test_the_summary_says_how_much_luck_fifty_episodes_leave() -> None:
    said = MONITOR.recalibrate(NEW.take(range(50))).summary()
    assert "50 assure" in said
    assert "0.7\xa0% to 9.1\xa0%" in said
    assert "confidence=0.95 needs 59" in said
    assert "1\xa0% false" in said
    assert "99 assure" in said
    assert "luck" not in GoalMonitor(Marginal()).fit(walks(3000), progress=False).summary()


def test_only_with_a_declared_horizon_longer_runs_need_a_new_fit() -> None:
    def runs(n: int, steps: int, first: int, horizon: int | None = None) -> Episodes:
        drawn = np.random.default_rng(first).normal(size=(2, n, steps))
        own = {"ids": np.arange(n) + first, "horizon": horizon}
        return Episodes.from_arrays(drawn[0, :, :, None], drawn[1], **own)

    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(runs(50, 3, 0), progress=False)
    for steps in (2, 4):
        assert monitor.recalibrate(runs(20, steps, 100)).horizon == 3
    strict = GoalMonitor(Marginal(), min_calibration=5).fit(runs(50, 3, 0, 3), progress=False)
    with refuses(EpisodesError, None, "of 3", "got 4"):
        strict.recalibrate(runs(20, 4, 100))


def test_a_warm_fit_keeps_settings_and_parts() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=7, policy="v1").fit(walks(100))
    both = Episodes.concat([walks(100), walks(60, seed=8)])
    again = GoalMonitor().fit(both, warm=monitor, progress=False)
    assert again.get_params(deep=False) == monitor.get_params(deep=False)
    assert again.sizes == {"learn": 128, "assure": 32}
    for part in ("learn", "assure"):
        before, now = (m.fitted.trained.fingerprints_of(part) for m in (monitor, again))
        assert np.isin(before, now).all()


def test_a_warm_fit_of_the_old_episodes_alone_is_the_old_fit() -> None:
    again = GoalMonitor().fit(OLD, warm=MONITOR, progress=False)
    assert np.array_equal(again.fitted.ranks.values, MONITOR.fitted.ranks.values)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"warm": "river.ontarget"}, (InputError, "warm", "'river.ontarget'")),
        ({"warm": MONITOR, "split": OLD.split()}, (InputError, "warm", "a split")),
    ],
)
def test_what_is_not_a_warm_start_is_refused(options, refusal) -> None:
    given = None if "split" in options else OLD
    with refuses(*refusal):
        GoalMonitor().fit(given, **options)


def test_other_settings_than_those_of_the_warm_monitor_are_refused() -> None:
    with refuses(InputError, "warm", "policy=''", "policy='v2'"):
        GoalMonitor(policy="v2").fit(OLD, warm=MONITOR)
