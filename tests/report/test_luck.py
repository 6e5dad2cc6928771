from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from ontarget import GoalMonitor, Target
from ontarget.fitted.guarantee import promised_threshold
from ontarget.models import QuantileForest
from ontarget.report._summary import _luck
from tests.walks import walks


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
    found = monitor.evaluate(walks(100, seed=3), Target.at_least(0.3), resamples=5)
    low, high = found.alarms(false_alarm_rate=0.2).triggers[0].promised.others
    said = f"another recording of this size would put the threshold at {low:.3g} to {high:.3g}"
    assert f"{said} (9 in 10 times)" in found.summary(false_alarm_rate=0.2)


def test_a_threshold_that_is_much_luck_asks_for_more_runs() -> None:
    def told(low: float, high: float) -> int:
        trigger = SimpleNamespace(promised=SimpleNamespace(others=(low, high)), measured=None)
        return len(_luck(SimpleNamespace(triggers=[trigger])))

    assert [told(0.2, 0.2), told(0.2, 0.4), told(0.1, 0.4)] == [0, 1, 2]
