from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, Evaluation, Target
from ontarget.errors import EpisodesError, FewEpisodesError
from ontarget.evaluation import Resampling, ece
from ontarget.fitted.joint.joint import Joint
from ontarget.live.answering import answer_episodes
from ontarget.live.contracts import Contracts
from ontarget.models import QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report.evaluation import evaluate
from refusals import refuses
from tests.walks import replay, walks

from .walked import monitor_of

TARGET = Target.at_least(0.2)
NEW = walks(300, seed=5, ragged=True)


def walker() -> GoalMonitor:
    return monitor_of(900)


@cache
def judged() -> Evaluation:
    return walker().evaluate(NEW, TARGET)


def test_panels_hold_what_a_live_watch_says() -> None:
    watch = walker().watch(TARGET)
    for i in range(20):
        live = replay(watch, NEW, i)[:-1]
        for t, outlook in enumerate(live):
            assert judged().p[t, i] == outlook.p
            assert judged().plausibility[t, i] == outlook.plausibility
        assert np.isnan(judged().p[len(live) :, i]).all()
    assert judged().met.tolist() == TARGET.contains(NEW.outcomes, walker().fitted.grid).tolist()


def test_raw_is_the_models_own_probability() -> None:
    step = NEW.at(1, grid=walker().fitted.grid)
    model = walker().fitted.at(1)
    X = model.inputs(step.states, step.behavior)
    left, _ = model.cdf_limits(X, np.round(0.2 - step.behavior, 9))
    np.testing.assert_allclose(judged().raw[1, step.index], 1.0 - left, atol=1e-12)


def test_measures_are_those_of_the_panels() -> None:
    known = ~np.isnan(judged().p)
    met = np.broadcast_to(judged().met, judged().p.shape)[known]
    assert judged().ece().value == pytest.approx(ece(judged().p[known], met), abs=1e-12)
    assert judged().brier().value == pytest.approx(
        np.mean((judged().p[known] - met) ** 2), abs=1e-12
    )
    assert judged().ece_by_step().value.shape == (6,)
    assert judged().brier_by_step("raw").value.shape == (6,)
    assert judged().log_loss().low < judged().log_loss().value < judged().log_loss().high
    assert judged().reliability.n == known.sum()


def test_guarantees_are_counted() -> None:
    assert judged().ruled_out_wrongly(0.05).value <= 0.1
    assert judged().assured_wrongly(0.05).value <= 0.1
    quality = judged().alarms(alarm_below=0.3).quality
    assert quality.false_alarms.n == judged().met.sum()
    assert 0 < quality.detections.value <= 1


def test_summary_says_what_was_measured() -> None:
    text = judged().summary()
    assert "met by" in text
    assert f"ECE        {judged().ece().value:.4f}" in text
    assert text.endswith(f"\nverdict    {judged().verdict()}")


def test_what_spoils_the_measures_is_told() -> None:
    frame = walks(300, ragged=True).to_frame().with_columns(mode=pl.lit("on"))
    past = Episodes.from_frame(frame)
    monitor = GoalMonitor(QuantileForest(n_trees=5)).fit(past, progress=False)
    lines = monitor.evaluate(past, TARGET, resamples=5).summary().splitlines()
    assert lines[2].startswith("runs       ! the monitor was fitted on 300 of these 300 runs")
    other = Episodes.from_frame(NEW.to_frame().with_columns(mode=pl.lit("off")))
    lines = monitor.evaluate(other, TARGET, resamples=5).summary().splitlines()
    (line,) = [one for one in lines if one.startswith("categories !")]
    assert f"mode: 'off' ({NEW.lengths.sum():,} readings)" in line


def test_an_evaluation_without_any_known_step_is_refused() -> None:
    strict = replace(walker().fitted, min_calibration=10_000)
    with refuses(FewEpisodesError, None, 300, 10000):
        evaluate(Contracts(Joint.of(strict)), NEW, TARGET, resampling=Resampling(2))


def test_intervals_and_bands_hold_their_levels() -> None:
    for t in (0, 2):
        step = NEW.at(t, grid=walker().fitted.grid)
        held = walker().interval(t, step.states, step.behavior, 0.8).contains(step.outcomes)
        assert 0.75 < held.mean() < 0.95
    assert judged().band_coverage(0.8).high > 0.8


def test_episodes_of_another_kind_are_refused_by_what_differs_alone() -> None:
    with refuses(EpisodesError, None, "got 4", "horizon=6") as shorter:
        walker().evaluate(walks(20, horizon=4), TARGET)
    assert "features" not in str(shorter.value)
    renamed = Episodes.from_frame(NEW.to_frame().rename({"x0": "speed"}), horizon=6)
    with refuses(EpisodesError, None, "(x0, x1)", "(speed, x1)") as other:
        walker().evaluate(renamed, TARGET)
    assert "horizon" not in str(other.value)
    inferred = GoalMonitor(QuantileForest(n_trees=5)).fit(
        Episodes.from_frame(NEW.to_frame()), progress=False
    )
    with refuses(EpisodesError, None, "got 9", "horizon=9"):
        inferred.evaluate(Episodes.from_frame(NEW.to_frame(), horizon=9), TARGET)


def test_steps_that_are_unknown_stay_out_of_every_measure() -> None:
    few = GoalMonitor(QuantileForest(n_trees=5), steps_per_model=1, min_calibration=60).fit(
        walks(200, ragged=True), progress=False
    )
    found = few.evaluate(NEW, TARGET)
    assert np.isnan(found.p[5]).all()
    assert math.isnan(found.brier_by_step().value[5])
    assert not math.isnan(found.brier().value)


def test_another_dictionary_is_read_by_name_and_another_kind_refused() -> None:
    frame = NEW.to_frame().with_columns(mode=pl.lit("on"))
    known = Episodes.from_frame(frame)
    monitor = GoalMonitor(QuantileForest(n_trees=5)).fit(known, progress=False)
    other = monitor.evaluate(Episodes.from_frame(frame.with_columns(mode=pl.lit("off"))), TARGET)
    assert other.episodes.unseen == len(frame)
    assert np.isnan(other.episodes.at(0).states[:, -1]).all()
    numbers = Episodes.from_frame(frame.with_columns(mode=pl.lit(1)))
    with refuses(EpisodesError, None, "'mode'", "numbers"):
        monitor.evaluate(numbers, TARGET)
    with refuses(EpisodesError, None, "sum", "max"):
        monitor.evaluate(Episodes.from_frame(frame, behavior="max"), TARGET)


def test_progress_counts_the_steps() -> None:
    seen: list[float] = []
    asked = walker().contracts.asked(TARGET)
    answer_episodes(asked, asked.alike(NEW), reached=seen.append)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_episodes_that_it_was_fitted_on_are_told(tmp_path: Path) -> None:
    assert judged().fitted_on.size == 0
    assert "was fitted on" not in judged().summary()
    path = tmp_path / "walks.ontarget"
    walker().save(path)
    past = walks(900)
    for monitor in (walker(), GoalMonitor.load(path)):
        again = monitor.evaluate(past.take(np.arange(300)), TARGET, resamples=20)
        assert again.fitted_on.tolist() == list(range(300))
        assert "was fitted on 300 of these 300 runs" in again.summary()


def test_results_show_themselves_in_a_line() -> None:
    assert repr(walker()) == (
        "<GoalMonitor: horizon 6, 2 features, behavior sum; 720 learn, 180 assure>"
    )
    assert repr(GoalMonitor()) == "<GoalMonitor: not fitted>"
    assert re.fullmatch(
        r"<Evaluation: \[0.2, inf\) met by \d+ of 300 episodes, 6 steps>", repr(judged())
    )


def test_new_logs_are_read_like_a_monitor(tmp_path: Path) -> None:
    table = NEW.to_frame().rename({"episode": "run", "reward": "gain"})
    past = walks(900).to_frame().rename({"episode": "run", "reward": "gain"})
    monitor = GoalMonitor(QuantileForest(n_trees=5)).fit(
        Episodes.from_frame(past, episode="run", reward="gain"), progress=False
    )
    monitor.save(tmp_path / "m.ontarget")
    new = Episodes.from_frame(table, like=GoalMonitor.load(tmp_path / "m.ontarget"))
    assert (new.roles.episode, new.horizon) == ("run", 6)
    assert new.outcomes.tolist() == NEW.outcomes.tolist()


def test_failures_are_told_by_the_third_of_the_run_in_which_they_were_certain() -> None:
    """A blind spot late in runs cannot hide behind an average: p that never falls late is seen."""
    rng = np.random.default_rng(8)
    horizon = 30
    fell_at = np.where(rng.random(300) < 0.6, rng.integers(2, horizon, 300), horizon)
    states = [np.append(np.zeros(n - 1), float(n < horizon))[:, None] for n in fell_at]
    runs = Episodes.from_arrays(states, [np.ones(n) for n in fell_at], horizon=horizon)
    found = (
        GoalMonitor(QuantileForest(n_trees=20, min_leaf=3))
        .fit(runs, progress=False)
        .evaluate(runs, Target.at_least(horizon))
    )
    raised = found.alarms(alarm_below=0.2)
    failed = ~found.met
    wanted = [failed & (fell_at * 3 // horizon == k) for k in range(3)]
    assert [one.n for one in raised.by_third] == [int(own.sum()) for own in wanted]
    caught = (raised.first >= 0) & (raised.first < found.answers.decided_at)
    assert [one.count for one in raised.by_third] == [int(caught[own].sum()) for own in wanted]
    last = found.p[fell_at[failed] - 1, np.flatnonzero(failed)]
    assert found.last_p == np.median(last)
    assert found.last_p < 0.1
    none = found.alarms(alarm_below=0.0)
    assert [one.count for one in none.by_third] == [0, 0, 0]
