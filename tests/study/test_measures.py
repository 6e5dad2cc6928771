from __future__ import annotations

import numpy as np
import pytest

from ontarget.study import Rows, score
from ontarget.study.measures import filled


def rows(t: list[int], met: list[bool]) -> Rows:
    n = len(t)
    nothing = np.empty((n, 0))
    return Rows(nothing, np.empty(0, bool), np.array(t), np.zeros(n), np.array(met), np.arange(n))


def test_ece_by_step_weighs_each_steps_own_ece_by_its_rows() -> None:
    asked = rows([0, 0, 1], [True, False, True])
    found = score(np.array([0.9, 0.9, 0.1]), asked, asked)
    assert found.ece_by_step == pytest.approx((2 * 0.4 + 1 * 0.9) / 3)
    # Two steps that err in opposite directions: pooled they look right, step by step they do not.
    asked = rows([0, 0, 1, 1], [True, True, False, False])
    found = score(np.full(4, 0.5), asked, asked)
    assert found.ece == 0.0
    assert found.ece_by_step == pytest.approx(0.5)


def test_unanswered_rows_count_as_the_pasts_rate_at_their_step() -> None:
    learn = rows([0, 0, 1, 1], [True, True, True, False])
    asked = rows([0, 1, 7], [True, True, True])
    p = np.array([0.3, np.nan, np.nan])
    assert filled(p, learn, asked).tolist() == [0.3, 0.5, 0.75]
    assert score(p, learn, asked).unanswered == pytest.approx(2 / 3)


def test_a_certain_mistake_costs_as_much_as_the_past_can_tell() -> None:
    learn, asked = rows([0] * 99, [True] * 99), rows([0], [False])
    found = score(np.array([1.0]), learn, asked)
    assert found.log_loss == pytest.approx(-np.log(0.5 / 100))
    assert (found.brier, found.sharpness) == (1.0, 0.0)
