from __future__ import annotations

import numpy as np
import pytest

from ontarget import Target
from ontarget._typing import FloatArray
from ontarget.study import Compared, Rows, Standing, Trial
from ontarget.study.verdict import RivalVerdict, verdict_beside

N, STEPS = 2_000, 6


def compared(ours: list[float], rival: list[float], *, splits: int = 4) -> Compared:
    """Both say one number where the episode met the target, another where it did not; 70 % do."""
    trials = []
    for k in range(splits):
        met = np.random.default_rng(k).uniform(size=N) < 0.7
        rows = _rows(met)
        p = {"ontarget": _said(ours, rows), "classifier": _said(rival, rows)}
        trials.append(Trial.of(rows, rows, p, np.arange(N)))
    return Compared(Target.at_least(0.0), tuple(trials))


def _rows(met: FloatArray) -> Rows:
    t, episode = np.repeat(np.arange(STEPS), N), np.tile(np.arange(N), STEPS)
    nothing = np.zeros(t.size)
    return Rows(nothing[:, None], np.array([False]), t, nothing, met[episode], episode)


def _said(numbers: list[float], rows: Rows) -> FloatArray:
    return np.where(rows.met, *numbers)


def verdict(ours: list[float], rival: list[float]) -> RivalVerdict:
    return verdict_beside(compared(ours, rival), "classifier")


def test_a_better_monitor_is_told_by_how_much() -> None:
    found = verdict([0.9, 0.2], [0.8, 0.3])
    assert found.standing is Standing.BETTER
    # 0.7 (0.04 − 0.01) + 0.3 (0.09 − 0.04), up to chance.
    assert found.reason.startswith("better than the classifier: Brier score lower by 0.036")
    assert ", log loss lower by 0." in found.reason
    assert not found.advice


def test_equal_methods_show_no_difference() -> None:
    found = verdict([0.8, 0.3], [0.8, 0.3])
    assert found.standing is Standing.NO_DIFFERENCE
    assert str(found).startswith("no difference from the classifier that these episodes could show")


def test_a_better_classifier_is_praised_and_the_advice_says_what_to_do() -> None:
    found = verdict([0.8, 0.3], [0.9, 0.2])
    assert found.standing is Standing.WORSE
    assert found.reason.startswith("the classifier is better: Brier score lower by 0.036")
    assert "most of the difference comes from steps 0 to 1" in found.advice
    assert "if this one target is all you ask about and you need no promises" in found.advice
    assert "UNKNOWN" not in found.advice


def test_unknown_answers_are_given_as_a_reason() -> None:
    found = verdict([np.nan, 0.3], [0.9, 0.2])
    assert "70" in found.advice.split(" % of the forecasts are UNKNOWN")[0]


def test_scores_that_disagree_decide_nothing() -> None:
    # Bold forecasts, right 98 times of 100: the Brier score forgives a certain mistake, log loss
    # does not.
    trials = []
    for k in range(4):
        right = np.arange(N) >= 40 + k
        rows = _rows(right)
        p = {"ontarget": np.ones(len(rows)), "classifier": np.full(len(rows), 0.9)}
        trials.append(Trial.of(rows, rows, p, np.arange(N)))
    found = verdict_beside(Compared(Target.at_least(0.0), tuple(trials)), "classifier")
    assert found.standing is Standing.MIXED
    assert "Brier score lower by 0.0" in found.reason
    assert "log loss higher by 0.0" in found.reason


def test_features_that_tell_nothing_are_named() -> None:
    found = verdict([0.4, 0.7], [0.3, 0.8])  # better than a worse one, worse than the rate
    assert found.standing is Standing.BETTER
    assert "always answering with the past's rate is as good" in found.advice


@pytest.mark.parametrize("splits", [1, 4])
def test_one_set_of_new_episodes_is_judged_by_resampling_it(splits: int) -> None:
    found = compared([0.9, 0.2], [0.8, 0.3], splits=splits)
    assert found.difference("classifier").shows
    assert np.isnan(found.difference("classifier", "ece").error) == (splits == 1)
