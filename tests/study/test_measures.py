from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    of_all = 3.5 / 5  # one more run, which met the target half
    np.testing.assert_allclose(filled(p, learn, asked), [0.3, (1 + of_all) / 3, of_all])
    assert score(p, learn, asked).unanswered == pytest.approx(2 / 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_an_unanswered_row_is_never_scored_as_certain(seen: list[tuple[int, bool]]) -> None:
    learn = rows([t for t, _ in seen], [met for _, met in seen])
    asked = rows([0, 2, 6], [True, False, True])
    told = filled(np.full(3, np.nan), learn, asked)
    assert ((told > 0.0) & (told < 1.0)).all()


def test_a_certain_mistake_costs_as_much_as_the_past_can_tell() -> None:
    learn, asked = rows([0] * 99, [True] * 99), rows([0], [False])
    found = score(np.array([1.0]), learn, asked)
    assert found.log_loss == pytest.approx(-np.log(0.5 / 100))
    assert (found.brier, found.sharpness) == (1.0, 0.0)
