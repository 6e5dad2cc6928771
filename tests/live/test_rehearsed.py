"""Alarms without assure episodes: set by the learning episodes out of bag, and called measured."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Promised, RuledOut, Target
from ontarget._keyed import keyed_hash
from ontarget.errors import FewEpisodesError
from ontarget.fitted.curves import without_one
from ontarget.fitted.joint.asked import map_target
from ontarget.live.answering import rehearsed_answers
from ontarget.modelfile.file import fitted_bytes
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.walks import replay, walks

TARGET = Target.at_least(0.05)
FOREST = QuantileForest(n_trees=60, min_leaf=3)


def rehearsed(episodes: Episodes, model=FOREST, **options) -> GoalMonitor:
    monitor = GoalMonitor(model, min_calibration=5, **options)
    return monitor.fit(episodes, assure=0, progress=False)


def in_order(runs: Episodes) -> np.ndarray:
    """The positions of the episodes in the order of a rehearsal."""
    return np.argsort(keyed_hash(runs.keys, 0, "rehearsal"))


def test_p_is_the_out_of_bag_law_on_the_curve_of_the_others() -> None:
    runs = walks(60, ragged=True)
    monitor = rehearsed(runs, steps_per_model=1)  # so that every atom is on the ladder
    fitted, runs = monitor.fitted, runs.take(in_order(runs))
    found = rehearsed_answers(monitor.contracts.asked(TARGET))
    for t in range(4):
        step = runs.at(t)
        ends = np.round(0.05 - step.behavior, 9)
        left, _ = fitted.models[t].out_of_bag_limits(step.states, ends, step.keys)
        ranks = fitted.rehearsal.ranks[fitted.rehearsal.rows_at(t)[0]]
        p = 1.0 - without_one(fitted.curves.at(t, 0), len(step), ranks, left)
        apart = np.abs(ranks - left) > 1e-4  # limits are kept in two bytes
        np.testing.assert_allclose(found.p[t, step.index[apart]], p[apart], atol=3e-5)
        assert np.count_nonzero(apart) > 10
        over = np.setdiff1d(np.arange(60), step.index)
        assert np.isnan(found.p[t, over]).all()


@pytest.mark.parametrize("behavior", ["sum", "max", "discounted:0.9", "mean"])
@pytest.mark.parametrize("model", [FOREST, Marginal()], ids=["forest", "marginal"])
def test_every_behavior_and_model_can_be_rehearsed(behavior: str, model) -> None:
    runs = walks(60, behavior=behavior, atoms=behavior == "max")
    middle = float(np.median(runs.outcomes))
    monitor = rehearsed(runs, model)
    found = rehearsed_answers(monitor.contracts.asked(Target.at_least(middle)))
    rest = rehearsed_answers(monitor.contracts.asked(Target.at_least(middle).complement()))
    assert not np.isnan(found.p).any()
    np.testing.assert_allclose(found.p + rest.p, 1.0, atol=1e-9)
    assert found.met.sum() == np.count_nonzero(runs.outcomes >= middle)
    # Honest answers are worse than those on the very episodes that were learned.
    seen = monitor.evaluate(runs, Target.at_least(middle), resamples=2)
    assert np.mean((found.p - found.met) ** 2) > np.mean((seen.p - seen.met) ** 2)


def test_a_threshold_is_measured_and_refused_like_a_promised_one() -> None:
    monitor = rehearsed(walks(60))
    trigger = monitor.watch(TARGET, false_alarm_rate=0.1).trigger
    own_map = map_target(monitor.contracts.asked(TARGET))
    scores = rehearsed_answers(monitor.contracts.asked(TARGET, own_map))
    met = np.sort(scores.scores(1)[scores.met])
    assert trigger.promised is None
    assert (trigger.measured.m, trigger.measured.k) == (met.size, (met.size + 1) // 10)
    assert trigger.threshold == met[trigger.measured.k - 1]
    with refuses(FewEpisodesError, "false_alarm_rate", "=0.01", "99 learning"):
        monitor.watch(TARGET, false_alarm_rate=0.01)
    curve = monitor.alarm_curve(TARGET, rates=[0.1])
    assert not curve.promised
    assert str(curve).startswith("measured   alarm below")
    assert curve.threshold[0] == trigger.threshold


def test_what_only_assure_episodes_can_do_is_refused() -> None:
    monitor = rehearsed(walks(60))
    with refuses(FewEpisodesError, "false_alarm_rate", "ruling", "assure"):
        monitor.watch(TARGET, alarm=RuledOut(0.1))
    with refuses(FewEpisodesError, None, "guard", "step 0"):
        monitor.drift_guard()
    outlook = monitor.outlook(0, np.zeros((1, 2)), 0.0, TARGET)
    assert (outlook.plausibility[0], outlook.assurance[0]) == (1.0, 0.0)


def test_each_group_has_a_threshold_of_its_own() -> None:
    runs = walks(80, groups=2)
    monitor = rehearsed(runs, group="group")
    own_map = map_target(monitor.contracts.asked(TARGET))
    whole = rehearsed_answers(monitor.contracts.asked(TARGET, own_map))
    triggers = monitor.fleet(TARGET, 2, groups=["0", "1"], false_alarm_rate=0.1).triggers
    for g, trigger in enumerate(triggers):
        own = (runs.groups[in_order(runs)] == str(g)) & whole.met
        assert trigger.measured.m == own.sum()
        assert trigger.threshold == np.sort(whole.scores(1)[own])[trigger.measured.k - 1]


def test_a_loaded_monitor_sets_the_same_alarm_and_gives_the_same_p(tmp_path: Path) -> None:
    monitor = rehearsed(walks(60, ragged=True))
    monitor.save(tmp_path / "a.ontarget")
    loaded = GoalMonitor.load(tmp_path / "a.ontarget")
    watches = [m.watch(TARGET, alarm=Promised(0.1, 2)) for m in (monitor, loaded)]
    assert watches[0].trigger == watches[1].trigger
    loaded.save(tmp_path / "b.ontarget")
    assert (tmp_path / "a.ontarget").read_bytes() == (tmp_path / "b.ontarget").read_bytes()
    new = walks(20, seed=3, ragged=True)
    batch = monitor.evaluate(new, TARGET, resamples=2)
    for i in range(20):
        live = [outlook.p for outlook in replay(watches[1], new, i)[:-1]]
        np.testing.assert_array_equal(live, batch.p[: len(live), i])


def test_a_fit_that_was_killed_resumes_with_its_rehearsal(tmp_path: Path) -> None:
    parts = walks(40).split(assure=0)
    for model in (FOREST, Marginal()):
        found = []
        for folder in ("a", "a", "b"):
            monitor = GoalMonitor(model, min_calibration=5)
            place = tmp_path / type(model).__name__ / folder
            monitor.fit(split=parts, progress=False, checkpoint=place)
            found.append(fitted_bytes(monitor.fitted))
        assert found[0] == found[1] == found[2]


def test_of_very_many_episodes_some_are_kept_and_values_between_ladders_are_met() -> None:
    rng = np.random.default_rng(5)
    rewards = rng.normal(size=(700, 1))
    monitor = rehearsed(Episodes.from_arrays(np.zeros((700, 1, 1)), rewards), Marginal())
    rehearsal = monitor.fitted.rehearsal
    assert (len(rehearsal), rehearsal.ladder.shape) == (500, (1, 64))
    for end in (-1.234, 0.0, 0.777, math.nextafter(rewards.max(), 9.0)):
        p = rehearsed_answers(monitor.contracts.asked(Target.at_least(end))).p
        np.testing.assert_allclose(p, np.mean(rewards >= end), atol=0.03)


def test_words_call_a_measured_rate_measured() -> None:
    monitor = rehearsed(walks(60))
    assert "measured, not promised" in monitor.summary()
    raised = monitor.evaluate(walks(40, seed=9), TARGET, resamples=2).alarms(false_alarm_rate=0.1)
    assert raised.measured
