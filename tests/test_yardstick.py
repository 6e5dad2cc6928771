"""The arithmetic and the questions of `bench/quality.py`; scores are `ontarget.evaluation`'s."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from yardstick import measures
from yardstick.cases import excess
from yardstick.page import renewed
from yardstick.questions import Question, RealSet


@pytest.mark.parametrize(
    ("length", "phases"),
    [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (5, [0, 0, 1, 1, 2]), (6, [0, 0, 1, 1, 2, 2])],
)
def test_phase_is_the_third_of_the_episodes_own_length(length: int, phases: list[int]) -> None:
    found = measures.phase_of(np.arange(length), np.full(length, length))
    assert found.tolist() == phases


def test_jumps_are_within_episodes_and_sorted_by_where_blocks_meet() -> None:
    # Two episodes of 11 steps, horizon 33: old blocks begin at 5 and 10, a new one is centred on 8.
    p = np.zeros((2, 11))
    p[:, 5:], p[0, 8:], p[:, 10:] = 0.2, 0.5, 0.9
    t, episode = np.tile(np.arange(11), 2), np.repeat([0, 1], 11)
    found = measures.jumps(p.ravel(), t, episode, horizon=33)
    assert found["old blocks"] == pytest.approx((0.2 + 0.2 + 0.4 + 0.7) / 4)
    assert found["new blocks"] == pytest.approx((0.3 + 0.0 + 0.0 + 0.0) / 4)
    assert found["elsewhere"] == 0.0  # the fall from 0.9 to 0 between the episodes is no jump


def test_jumps_leave_out_steps_without_an_answer() -> None:
    p = np.array([0.1, np.nan, 0.9, 0.9, 0.9, 0.4])
    found = measures.jumps(p, np.arange(6), np.zeros(6, dtype=int), horizon=40)
    assert found["old blocks"] == pytest.approx(0.5)
    assert found["elsewhere"] == 0.0
    assert np.isnan(found["new blocks"])


def test_ece_by_step_weighs_each_steps_own_ece_by_its_rows() -> None:
    # Two steps that err in opposite directions: pooled they look right, step by step they do not.
    met, t = np.array([True, True, False]), np.array([0, 0, 1])
    assert measures.ece_by_step(np.array([0.9, 0.9, 0.4]), met, t) == pytest.approx(0.6 / 3)


def _log(n_episodes: int) -> pl.DataFrame:
    """Episode i earns i tenths in each of its three steps."""
    i = np.repeat(np.arange(n_episodes), 3)
    mode = np.where(i % 2 == 0, "even", "odd")
    step = np.tile(np.arange(3), n_episodes)
    return pl.DataFrame({"episode": i.astype(str), "step": step, "reward": i / 10, "mode": mode})


def test_split_takes_whole_episodes_once_whatever_the_order_of_the_rows() -> None:
    log = RealSet("", ("mode",), (0.0, 1.0), "", n_past=12, n_new=6)
    first, shuffled, second = (
        log.split("log", frame, number, 1.0)
        for frame, number in ((_log(20), 0), (_log(20)[::-1], 0), (_log(20), 1))
    )
    past, new = set(first.past["episode"]), set(first.new["episode"])
    assert (len(past), len(new), len(past & new)) == (12, 6, 0)
    assert first.past.height == 36
    assert set(shuffled.past["episode"]) == past
    assert set(second.past["episode"]) != past


def test_rows_hold_what_was_earned_before_and_how_the_episode_ended() -> None:
    past = _log(5).filter(pl.col("episode") != "3")
    question = Question("log", past, _log(5)[9:], ("mode",), (0.6, 0.9), horizon=3)
    # Sums of 0.1, 0.2 and 0.3 three times: 0.6 and 0.9 meet their bounds in spite of rounding.
    assert question.learn.met.tolist() == [False] * 6 + [True] * 3 + [False] * 3
    assert question.asked.met.tolist() == [True] * 3 + [False] * 3
    assert question.asked.b.tolist() == [0.0, 0.3, 0.6, 0.0, 0.4, 0.8]
    assert question.asked.episode.tolist() == [0, 0, 0, 1, 1, 1]
    assert question.asked.X.ravel().tolist() == [1.0] * 3 + [0.0] * 3
    assert question.is_category.tolist() == [True]
    unseen = Question("log", past.filter(pl.col("mode") == "odd"), past, ("mode",), (0, 1), 3)
    assert np.isnan(unseen.asked.X[:3]).all()  # a word that the past never had


PAGE = """before
<!-- table: real (python bench/quality.py) -->
| old |
<!-- end of table -->
between
<!-- table: truth -->
| kept |
<!-- end of table -->
after
"""


def test_a_page_gets_new_tables_between_its_marks_and_keeps_those_without_numbers() -> None:
    def scores(brier: list[float]) -> list[dict[str, float]]:
        return [{"brier": one, "log_loss": 2 * one} for one in brier]

    each = {
        "ours": scores([0.10, 0.11]),
        "boosted": scores([0.20, 0.21001]),
        "logistic": scores([0.05, 0.06001]),
    }
    found = {"boston": {"n_past": 20, "n_new": 10, "scores": each}}
    page = renewed(PAGE, {"real": found, "truth": {}})
    assert "| old |" not in page
    assert "| kept |" in page
    row = next(line for line in page.splitlines() if line.startswith("| boston"))
    assert "| 20, 10 | 0.1050 | 0.2050 | **0.0550** |" in row
    assert "| −0.1000 ± 0.0001: better | +0.0500 ± 0.0001: worse |" in row
    assert renewed(page, {"real": found, "truth": {}}) == page
    assert [page.startswith("before\n"), page.endswith("after\n")] == [True, True]


def test_the_distance_to_the_truth_is_told_by_process_and_size() -> None:
    own = {"ours": [{"excess": 0.001}], "boosted": [{"excess": 0.002}], "logistic": [{"excess": 1}]}
    page = renewed(PAGE, {"real": {}, "truth": {"walk": {"400": own}}})
    assert "| walk | 400 | **10.0** | 20.0 | 10000.0 |" in page


def test_the_excess_brier_score_is_unbiased_and_the_plain_distance_is_not() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random(40_000)
    p = np.clip(truth + 0.05, 0.0, 1.0)
    exact = excess(p, truth, None)
    estimate = rng.binomial(20, truth) / 20
    assert exact == np.mean((p - truth) ** 2)
    assert excess(p, estimate, 20) == pytest.approx(exact, abs=2e-4)
    assert np.mean((p - estimate) ** 2) > exact + 5e-3
    assert abs(excess(truth, estimate, 20)) < 2e-4
