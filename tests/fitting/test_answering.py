"""A model does not grow with the log: what it learns from, its ranks and what it keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import GoalMonitor, Target
from ontarget.conformal import ranks
from ontarget.episodes import facts
from ontarget.errors import InputError
from ontarget.fitted import fitted as fitted_module
from ontarget.fitting import ranking
from ontarget.fitting.ranking import kept_count
from ontarget.modelfile import file as model_file
from ontarget.models import Marginal
from ontarget.monitor import _fitting
from refusals import refuses
from tests.walks import walks

EPISODES = walks(200, horizon=4)


def fit(**options) -> GoalMonitor:
    return GoalMonitor(Marginal(), steps_per_model=1).fit(EPISODES, progress=False, **options)


def test_all_that_is_not_learned_from_assures() -> None:
    assert dict(fit(max_learn=60).sizes) == {"learn": 60, "assure": 140}
    assert dict(fit(max_learn=500).sizes) == {"learn": 160, "assure": 40}
    assert fit(assure=0.0, max_learn=60).sizes["learn"] == 200
    with refuses(InputError, "max_learn", "got 0"):
        fit(max_learn=0)


def test_a_capped_file_is_whole_and_knows_its_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MOST_KEPT", 30)
    monkeypatch.setattr(ranking, "_FEWEST_KEPT", 1)
    monkeypatch.setattr(ranks, "MOST_RANKS", 25)
    for module in (facts, fitted_module, model_file, _fitting):
        monkeypatch.setattr(module, "MOST_FINGERPRINTS", 50)
    monitor = fit(max_learn=60)
    assert dict(monitor.sizes) == {"learn": 60, "assure": 140}
    assert len(monitor.fitted.assure) == monitor.fitted.excess.size == 30
    assert set(monitor.fitted.ranks.counts.ravel().tolist()) == {22}
    assert monitor.fitted.trained.fingerprints.size == 100
    monitor.save(tmp_path / "capped.ontarget")
    loaded = GoalMonitor.load(tmp_path / "capped.ontarget")
    target = Target.at_least(0.0)
    watch = loaded.watch(target, false_alarm_rate=0.2)
    assert 0.0 < watch.step(EPISODES.at(0).states[0]).p < 1.0
    # Half of each part is known again; that is enough to notice.
    assert 60 < loaded.evaluate(EPISODES, target).fitted_on.size <= 100
    with refuses(InputError, "warm", "50 episodes"):
        GoalMonitor().fit(EPISODES, warm=loaded, progress=False)


def test_ranks_of_all_assure_episodes_are_thinned_and_not_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = fit(max_learn=60).fitted.ranks
    monkeypatch.setattr(ranks, "MOST_RANKS", 25)
    some = fit(max_learn=60).fitted.ranks
    asked = np.linspace(0, 1, 50)
    for t in range(4):
        every, few = whole.at(t, 0).bounds(asked), some.at(t, 0).bounds(asked)
        assert np.abs(every.mid - few.mid).max() < 2 / 23


def test_states_of_many_features_are_kept_of_fewer_episodes() -> None:
    assert kept_count(10, 4) == 20_000
    assert kept_count(100, 4) == 5_000
    assert kept_count(1000, 100) == 2_000
