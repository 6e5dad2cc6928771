from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ontarget import GoalMonitor, Target
from ontarget.errors import FewEpisodesError, InputError
from ontarget.fitted.guarantee import promised_threshold
from ontarget.models import QuantileForest
from ontarget.monitor.steady import average_threshold
from ontarget.report._summary import _luck
from tests.walks import walks

GOAL = Target.at_least(0.3)
FOREST = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5))


def test_nine_in_ten_other_sets_put_the_threshold_where_it_says() -> None:
    rng = np.random.default_rng(0)
    scores, met = rng.random(200), np.ones(200, dtype=bool)
    low, high = promised_threshold(scores, met, 0.1).others
    drawn = [promised_threshold(rng.choice(scores, 200), met, 0.1).value for _ in range(2000)]
    inside = np.mean((np.array(drawn) >= low) & (np.array(drawn) <= high))
    assert 0.88 < inside < 0.96
    assert low < promised_threshold(scores, met, 0.1).value < high


def test_the_summary_shows_the_luck_of_a_threshold() -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(400), progress=False)
    found = monitor.evaluate(walks(100, seed=3), GOAL, resamples=5)
    low, high = found.alarms(false_alarm_rate=0.2).triggers[0].promised.others
    said = f"another recording of this size would put the threshold at {low:.3g} to {high:.3g}"
    assert f"{said} (9 in 10 times)" in found.summary(false_alarm_rate=0.2)
    assert "average_threshold" not in found.summary(false_alarm_rate=0.2)  # not twice as high


def test_a_threshold_that_is_much_luck_points_to_the_average() -> None:
    def told(low: float, high: float) -> list[str]:
        trigger = SimpleNamespace(promised=SimpleNamespace(others=(low, high)), measured=None)
        return _luck(SimpleNamespace(triggers=[trigger]))

    assert told(0.2, 0.2) == []
    assert len(told(0.2, 0.4)) == 1
    _, second = told(0.1, 0.4)
    assert "average_threshold takes the mean over several fits" in second
    assert "measured, not promised" in second


def test_an_average_moves_less_than_its_thresholds_and_is_called_measured() -> None:
    found = average_threshold(FOREST, walks(400), GOAL, 0.1, refits=3)
    assert found.value == pytest.approx(np.mean(found.each))
    assert min(found.each) < max(found.each)
    assert "measured, not promised" in str(found)
    again = average_threshold(FOREST, walks(400), GOAL, 0.1, refits=3)
    assert again == found


def test_what_no_refit_can_promise_is_not_averaged() -> None:
    with pytest.raises(FewEpisodesError, match="needs at least 99 assure episodes"):
        average_threshold(FOREST, walks(200), GOAL, 0.01, refits=2)
    with pytest.raises(InputError, match="refits"):
        average_threshold(FOREST, walks(200), GOAL, refits=1)
