"""Promises with confidence (M20): given this very set, the rate is too high in at most γ of sets.

Every rate given the set is known exactly here, so one replicate is one bit: too high or not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import beta, binom

from known import Uniform
from ontarget import PCQR, Promised, RuledOut
from ontarget.conformal import levels, pcqr
from ontarget.conformal.levels import _lowest_tails, bounds_at_once
from ontarget.fitted import guarantee
from ontarget.fitted.guarantee import band_depth
from ontarget.live import alarms, rules
from ontarget.live.alarms import promised_alarms
from validity.test_planted_conformal_bugs import caught

UNLIKELY = 1e-8
REPLICATES = 3000
RATE, CONFIDENCE, M = "0.1", "0.9", 97
MISSED = 0.1


def within(broken: int, *, missed: float = MISSED, replicates: int = REPLICATES) -> None:
    """Raise unless so many sets with too high a rate are likely."""
    assert binom.sf(broken - 1, replicates, missed) > UNLIKELY, f"{broken} of {replicates} sets"


def told(scores: np.ndarray) -> SimpleNamespace:
    """Assure episodes with these scores; all of them met the target."""
    return SimpleNamespace(
        met=np.ones(scores.size, dtype=bool),
        broken=np.zeros((1, scores.size), dtype=bool),
        part="assure",
        promises=True,
        stopped=0,
        scores=lambda for_steps: scores,
    )


def sets_with_too_many_alarms(*, ties: int | None) -> int:
    """How many assure sets give a threshold whose false-alarm rate is above the promised one."""
    rng = np.random.default_rng(0)
    rule, broken = Promised(RATE, confidence=CONFIDENCE), 0
    for _ in range(REPLICATES):
        scores = rng.random(M)
        if ties:
            scores = np.floor(scores * ties) / ties
        threshold = rule.trigger(told(scores)).threshold
        # P(score < τ) of the law the scores come from: τ itself, on the grid too.
        broken += threshold > float(RATE)
    return broken


def test_the_false_alarm_rate_is_too_high_in_as_many_sets_as_said() -> None:
    broken = sets_with_too_many_alarms(ties=None)
    within(broken)
    k = levels.rank_within(RATE, M, CONFIDENCE)
    exact = beta(k, M + 1 - k).sf(float(RATE))
    assert exact <= MISSED < beta(k + 1, M - k).sf(float(RATE))
    assert abs(broken - exact * REPLICATES) < 6 * math.sqrt(exact * REPLICATES)
    within(sets_with_too_many_alarms(ties=20))


def test_a_rate_that_holds_on_average_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_rank = levels.rank_within
    monkeypatch.setattr(guarantee, "rank_within", lambda share, n, _: true_rank(share, n))
    with caught:
        within(sets_with_too_many_alarms(ties=None))


def test_a_threshold_one_rank_too_high_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_threshold = rules.promised_threshold

    def higher(scores, met, rate, **options):
        found = true_threshold(scores, met, rate, **options)
        return replace(found, value=float(np.sort(scores[met])[found.k]))

    monkeypatch.setattr(rules, "promised_threshold", higher)
    with caught:
        within(sets_with_too_many_alarms(ties=None))


def uncovered_sets(*, power: float) -> np.ndarray:
    """In how many sets intervals and promises of either side fall short; outcomes are U^power.

    The model believes that they are uniform, so it is wrong unless the power is 1.
    """
    rng = np.random.default_rng(1)
    X, row, broken = np.zeros((M, 1)), np.zeros((1, 1)), np.zeros(4, dtype=int)

    def mass(y: float) -> float:
        return float(np.clip(y, 0.0, 1.0) ** (1.0 / power))

    for _ in range(REPLICATES // 3):
        own = PCQR(Uniform()).calibrate(X, rng.random(M) ** power)
        lower, upper = own.interval(row, 0.9, confidence=CONFIDENCE)
        inner = own.interval(row, 0.9, "at_most", confidence=CONFIDENCE)
        covered = mass(upper[0]) - mass(lower[0])
        broken += [
            covered < 0.9,
            mass(inner.upper[0]) - mass(inner.lower[0]) > 0.9,
            1.0 - mass(own.promise(row, 0.9, confidence=CONFIDENCE)[0]) < 0.9,
            mass(own.promise(row, 0.9, "upper", confidence=CONFIDENCE)[0]) < 0.9,
        ]
    return broken


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_intervals_and_promises_fall_short_in_as_few_sets_as_said(power: float) -> None:
    for broken in uncovered_sets(power=power).tolist():
        within(broken, replicates=REPLICATES // 3)
        assert broken > 0.03 * REPLICATES / 3  # not kept by the whole line


def test_intervals_and_promises_that_hold_on_average_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_score, true_tail = pcqr.score_rank, pcqr.tail_rank

    def average(level, n, kind, *, unbounded, confidence):
        return true_score(level, n, kind, unbounded=unbounded)

    monkeypatch.setattr(pcqr, "score_rank", average)
    monkeypatch.setattr(pcqr, "tail_rank", lambda level, n, _: true_tail(level, n))
    for broken in uncovered_sets(power=1.0).tolist():
        with caught:
            within(broken, replicates=REPLICATES // 3)


def sets_that_rule_out_too_often() -> int:
    """In how many assure sets a run leaves its band more often than was said."""
    rng = np.random.default_rng(2)
    depths = [band_depth(rng.random(M) / 2, 1 - float(RATE), CONFIDENCE) for _ in range(REPLICATES)]
    return sum(1.0 - 2 * depth > float(RATE) for depth in depths)


def test_targets_are_ruled_out_too_often_in_as_few_sets_as_said() -> None:
    broken = sets_that_rule_out_too_often()
    within(broken)
    assert broken > 0.5 * MISSED * REPLICATES


def test_a_band_that_holds_on_average_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_rank = levels.ceil_rank
    monkeypatch.setattr(guarantee, "ceil_rank", lambda level, n, _: true_rank(level, n))
    with caught:
        within(sets_that_rule_out_too_often())


def test_a_target_is_ruled_out_where_its_distance_is_beyond_the_order_statistic() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        excess = np.sort(rng.random(M) / 2)
        depth = band_depth(excess, 1 - float(RATE), CONFIDENCE)
        limit = RuledOut(RATE, confidence=CONFIDENCE).trigger(told(excess)).raise_below
        for s in (depth, np.nextafter(depth, 1.0)):
            plausibility = (1 + np.count_nonzero(excess >= s)) / (M + 1)
            assert (plausibility < limit) == (s > depth)


def chosen_too_optimistically(bounds: np.ndarray) -> int:
    """In how many sets the rate of the worst row that one could choose is above its bound."""
    draws = np.sort(np.random.default_rng(3).random((REPLICATES, bounds.size)), axis=1)
    return int(np.count_nonzero((draws > bounds).any(axis=1)))


@pytest.mark.parametrize("m", [5, 40, 200])
def test_bounds_of_all_rates_hold_at_once(m: int) -> None:
    within(chosen_too_optimistically(bounds_at_once(m, CONFIDENCE)))
    assert chosen_too_optimistically(bounds_at_once(m, CONFIDENCE)) > 0.07 * REPLICATES


def curves_with_a_row_that_says_too_little() -> int:
    """How many of 600 sets give a curve with a row whose true rate is above what it says."""
    rng, broken = np.random.default_rng(5), 0
    for _ in range(600):
        curve = promised_alarms(told(rng.random(40)), confidence=CONFIDENCE)
        # P(score < τ) is τ, as above.
        broken += bool(np.any(curve.threshold > curve.rate_at_most))
    return broken


def test_whichever_row_of_an_alarm_curve_is_chosen_its_rate_holds() -> None:
    broken = curves_with_a_row_that_says_too_little()
    within(broken, replicates=600)
    assert broken > 0.04 * 600


def test_an_alarm_curve_with_bounds_of_one_rate_at_a_time_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone(m: int, confidence: str) -> np.ndarray:
        k = np.arange(1, m + 1)
        return betaincinv(k, m + 1 - k, float(confidence))

    monkeypatch.setattr(alarms, "bounds_at_once", alone)
    with caught:
        within(curves_with_a_row_that_says_too_little(), replicates=600)


def test_bounds_of_one_rate_at_a_time_are_caught() -> None:
    k = np.arange(1, 201)
    with caught:
        within(chosen_too_optimistically(betaincinv(k, 201 - k, 1 - MISSED)))


def test_the_lowest_tail_is_among_the_candidates() -> None:
    m = 300
    found = _lowest_tails(m, 400, np.random.default_rng(4))
    gaps = np.random.default_rng(4).exponential(size=(400, m + 1)).cumsum(axis=1)
    k = np.arange(1, m + 1)
    every = beta(k, m + 1 - k).sf(gaps[:, :-1] / gaps[:, -1:]).min(axis=1)
    assert found[every < 0.05] == pytest.approx(every[every < 0.05], rel=1e-9)
    assert np.all(found >= every * (1 - 1e-9))
