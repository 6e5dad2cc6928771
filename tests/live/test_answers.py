"""Answers kept as a row for each step that an episode has, against whole tables."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import FewEpisodesError, InputError
from ontarget.fitted.guarantee import alarm_scores
from ontarget.fitted.kernels import DECIDED, NUMBERS, P
from ontarget.live import answers
from ontarget.live.answering import answer_episodes
from ontarget.live.answers import Answers, Sheet
from ontarget.live.rules import Below
from ontarget.models import Marginal
from refusals import refuses

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

TARGET = Target.at_least(0.0)


@cache
def ragged() -> Answers:
    """Answers on runs of 1 to 9 steps, some with bad readings."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 10, size=160)
    states = [rng.normal(size=(n, 1)) for n in lengths.tolist()]
    rewards = [rng.normal(size=n) for n in lengths.tolist()]
    bounds = {"reward_bounds": (-4.0, 4.0)}
    monitor = GoalMonitor(Marginal(), min_calibration=3, **bounds)
    rewards = [np.clip(one, -4.0, 4.0) for one in rewards]
    learned = Episodes.from_arrays(states[:100], rewards[:100], horizon=9)
    monitor.fit(learned, progress=False)
    for own in states[100:130]:
        own[rng.integers(len(own))] = np.nan
    asked = Episodes.from_arrays(states[100:], rewards[100:], horizon=9)
    about = monitor.contracts.asked(TARGET)
    return answer_episodes(about, about.alike(asked))


@pytest.fixture(params=[1, 20, 250_000])
def cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_CELLS", request.param)


def test_tables_hold_each_row_at_its_step_and_episode() -> None:
    found = ragged()
    assert found.said.shape == (found.lengths.sum(), NUMBERS)
    assert found.p.shape == (9, 60)
    over = np.arange(9)[:, None] >= found.lengths
    assert np.isnan(found.p[over]).all()
    assert (found.n[over] == 1).all()
    assert not found.broken[over].any()
    assert found.broken.any()
    row = int(found.lengths[:7].sum())
    assert found.p[: found.lengths[7], 7].tolist() == pytest.approx(
        found.said[row : row + found.lengths[7], P].tolist(), nan_ok=True
    )


@pytest.mark.usefixtures("cells")
@pytest.mark.parametrize("for_steps", [1, 3])
def test_scores_are_those_of_the_whole_table(for_steps: int) -> None:
    found = ragged()
    whole = alarm_scores(found.p, for_steps, resets=found.broken)
    assert found.scores(for_steps).tolist() == whole.tolist()


@pytest.mark.usefixtures("cells")
def test_first_alarms_are_those_of_each_run_alone() -> None:
    found, rule = ragged(), Below(0.45, for_steps=2)
    trigger = rule.trigger(None)
    alone = [int(found.take(np.array([i])).first_alarms(rule, trigger)[0]) for i in range(60)]
    assert found.first_alarms(rule, trigger).tolist() == alone
    assert -1 in alone
    assert max(alone) > 2


def test_what_is_settled_and_broken_is_that_of_the_whole_table() -> None:
    found = ragged()
    settled = found.panel(DECIDED) >= 0.0
    first = np.where(settled.any(axis=0), settled.argmax(axis=0), found.lengths)
    assert found.decided_at.tolist() == first.tolist()
    assert found.ever_broken.tolist() == found.broken.any(axis=0).tolist()


def test_some_episodes_keep_their_answers_in_the_order_asked_for() -> None:
    found, some = ragged(), np.array([5, 2, 40])
    taken = found.take(some)
    np.testing.assert_array_equal(taken.p, found.p[:, some])
    np.testing.assert_array_equal(taken.broken, found.broken[:, some])
    np.testing.assert_array_equal(taken.n, found.n[:, some])


def test_steps_beyond_those_that_a_monitor_answers_for_are_left_out() -> None:
    sheet = Sheet(np.array([2, 5]), 3)
    sheet.put(2, np.array([1]), np.full((1, NUMBERS), 0.5), 7)
    sheet.put_bad(1, np.array([0]))
    found = sheet.answers(np.array([True, False]))
    assert found.said.shape == (5, NUMBERS)
    assert found.p.shape == (3, 2)
    assert found.p[2, 1] == 0.5
    assert found.n[2].tolist() == [1, 7]
    assert found.ever_broken.tolist() == [True, False]


def test_nothing_known_and_too_large_a_table_are_refused() -> None:
    lengths = np.ones(4_000, dtype=np.intp)
    lengths[0] = 4_000
    found = Sheet(lengths, 4_000).answers(np.ones(4_000, dtype=np.bool_))
    with refuses(FewEpisodesError, None, "known p", "min_calibration="):
        found.scores(1)
    with refuses(InputError, None, "4,000 episodes", "7,999"):
        _ = found.p
