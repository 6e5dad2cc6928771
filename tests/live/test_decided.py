"""What arithmetic decides is exact, whatever the model says (M18)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget.errors import EpisodesError, InputError
from ontarget.models import Marginal
from refusals import refuses
from tests.walks import replay, walks

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
STATE = np.zeros(2)


def extreme(behavior: str) -> GoalMonitor:
    return GoalMonitor(Marginal(), min_calibration=5).fit(walks(behavior=behavior), progress=False)


MAX, MIN = extreme("max"), extreme("min")
ends = st.integers(-5, 5).map(lambda k: k / 10)


@settings(max_examples=150, deadline=None)
@given(
    ends,
    ends,
    st.sampled_from(["both", "left", "right", "neither"]),
    st.lists(ends, min_size=1, max_size=5),
    st.booleans(),
)
def test_a_running_extreme_decides_what_it_decides_and_nothing_else(
    one: float, other: float, closed, rewards: list[float], lowest: bool
) -> None:
    assume(one < other)
    monitor = MIN if lowest else MAX
    target = Target(one, other, closed) | Target.at_least(0.9)
    watch = monitor.watch(target, alarm_below=0.5)
    watch.step(STATE)
    for reward in rewards:
        outlook = watch.step(STATE, reward)
    b = min(rewards) if lowest else max(rewards)
    possible = {bool(target.contains(round(float(v), 9))) for v in futures(b, lowest)}
    assert outlook.decided is (len(possible) == 1)
    if len(possible) == 1:
        p = float(possible.pop())
        assert outlook[1:7] == (p, (p, p), p, p, p, p)
        assert outlook.alarm is (p == 0.0)


def futures(b: float, lowest: bool) -> np.ndarray:
    """Outcomes that a run with this extreme may still come to, as near to b as one likes."""
    beyond = b + np.array([0.0, 1e-6, 0.05, 0.1, 0.3, 0.5, 0.7, 1.0, 2.0, 9.0]) * (
        -1 if lowest else 1
    )
    edges = np.array([k / 10 for k in range(-20, 21)])
    edges = edges[edges <= b] if lowest else edges[edges >= b]
    return np.concatenate([beyond, edges, edges - 0.05 * (1 if lowest else -1)])


def test_extremes_no_longer_give_a_chance_to_what_is_lost() -> None:
    # Running minimum already below −4 where at least −4 is wanted: p was .971.
    rng = np.random.default_rng(0)
    rewards = rng.normal(-2.0, 2.0, size=(400, 8))
    runs = Episodes.from_arrays(rng.normal(size=(400, 8, 1)), rewards, behavior="min")
    monitor = GoalMonitor().fit(runs, progress=False)
    watch = monitor.watch(Target.at_least(-4), alarm_below=0.1)
    assert 0.0 < watch.step([0.0]).p < 1.0
    lost = watch.step([0.0], -4.5)
    assert (lost.p, lost.high, lost.plausibility, lost.status) == (0.0, 0.0, 0.0, Status.ALARM)
    assert "out of reach" in lost.reason
    assert (watch.step([0.0], 9.0).p, watch.end(0.0).p) == (0.0, 0.0)


def steps(bounds, horizon: int | None = 5, **options) -> GoalMonitor:
    rng = np.random.default_rng(1)
    rewards = rng.integers(0, 3, size=(200, 5)).astype(float)
    runs = Episodes.from_arrays(rng.normal(size=(200, 5, 2)), rewards, horizon=horizon, **options)
    return GoalMonitor(Marginal(), reward_bounds=bounds).fit(runs, progress=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=0, max_size=4), st.integers(-1, 12))
def test_reward_bounds_decide_exactly_what_they_decide(earned: list[int], wanted: int) -> None:
    watch = BOUNDED.watch(Target.at_least(wanted), alarm_below=0.0)
    outlook = watch.step(STATE)
    for reward in earned:
        outlook = watch.step(STATE, float(reward))
    so_far, left = sum(earned), 5 - len(earned)
    # A run that is alive earns at least once more, and may end after that.
    least, most = so_far, so_far + 2 * left
    if least >= wanted:
        assert (outlook.p, outlook.low, outlook.assurance) == (1.0, 1.0, 1.0)
    elif most < wanted:
        assert (outlook.p, outlook.high, outlook.plausibility) == (0.0, 0.0, 0.0)
    else:
        assert not outlook.decided


BOUNDED = steps((0, 2))


def test_an_inferred_horizon_leaves_only_signs_to_decide() -> None:
    inferred, declared = steps((0, 2), None), steps((0, 2))
    for monitor, decided in ((inferred, False), (declared, True)):
        found = monitor.outlook(4, STATE[None], 3.0, [Target.at_least(3), Target.at_least(9)])
        assert found.p[0, 0] == 1.0  # no reward is negative, so it stays met
        assert bool(found.high[0, 1] == 0.0) is decided


def test_rewards_outside_the_bounds_are_refused_in_a_fit_and_unknown_live() -> None:
    with refuses(EpisodesError, "reward_bounds", "(0.0, 1.0)", "learn", "earned 2"):
        steps((0, 1))
    for wrong in ((2, 1), (0,), "ab", (None, "x")):
        with refuses(InputError, "reward_bounds", repr(wrong)):
            steps(wrong)
    watch = BOUNDED.watch(Target.at_least(4), alarm_below=0.0)
    watch.step(STATE)
    broken = watch.step(STATE, 3.0)
    assert broken.status is Status.UNKNOWN
    assert "reward 3 at step 1" in broken.reason
    assert "(0, 2)" in broken.reason
    assert not watch.step(STATE, 1.0).known
    assert not watch.step(STATE, 1.0, behavior=5.0).known  # what was decided before may be wrong
    assert watch.end(1.0).status is Status.UNKNOWN


def test_lead_is_told_to_the_step_at_which_the_outcome_was_decided() -> None:
    runs = walks(500, behavior="min", horizon=12)
    monitor = GoalMonitor(Marginal()).fit(runs, progress=False)
    target = Target.at_least(-0.3)
    found = monitor.evaluate(walks(200, seed=3, behavior="min", horizon=12), target, resamples=2)
    quality = found.alarms(alarm_below=0.2).quality
    lost = np.fmin.accumulate(np.array([found.episodes.at(t).behavior for t in range(12)]), axis=0)
    first = np.where((lost < -0.3).any(axis=0), (lost < -0.3).argmax(axis=0), 12)
    assert (found.answers.decided_at[~found.met] == first[~found.met]).all()
    assert quality.lead_to_decision.max() < quality.lead_steps.max()
    curve = found.alarm_curve()
    assert np.nanmax(curve.lead_to_decision) < np.nanmax(curve.lead_steps)
    table = str(monitor.alarm_curve(target, rates=[0.1]))
    assert "decided" in table.splitlines()[0]


def test_a_lost_run_alarms_at_once_whatever_the_rule_waits_for() -> None:
    watch = MIN.watch(Target.at_least(0.0), alarm_below=0.01, for_steps=4)
    watch.step(STATE)
    assert watch.step(STATE, -0.4).alarm


def test_intervals_of_extremes_hold_what_is_already_reached() -> None:
    interval = MAX.interval(3, np.zeros((2, 2)), [-9.0, 9.0], 0.8)
    assert (interval.lower[1], interval.upper[1]) == (9.0, 9.0)
    assert interval.lower[0] < interval.upper[0] < 9.0
    assert MIN.promise(3, np.zeros((1, 2)), -9.0, 0.8)[0] == -9.0
    assert math.isfinite(MAX.promise(3, np.zeros((1, 2)), -9.0, 0.8)[0])


@pytest.mark.parametrize("behavior", ["max", "min"])
def test_extremes_are_calibrated_on_what_is_still_to_come(behavior: str) -> None:
    monitor = MAX if behavior == "max" else MIN
    new = walks(400, seed=5, behavior=behavior)
    step = new.at(3, grid=monitor.fitted.grid)
    held = monitor.interval(3, step.states, step.behavior, 0.8).contains(step.outcomes)
    assert held.mean() > 0.74
    for i in range(5):
        outlooks = replay(monitor.watch(Target.at_least(0.2), alarm_below=0.0), new, i)
        decided = [o.p for o in outlooks if o.decided]
        assert all(p == outlooks[-1].p for p in decided)


def tickets(n: int = 300, seed: int = 0) -> Episodes:
    """Hours spent on tickets that few keep open for long."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(0.3, size=n).clip(1, 14)
    lengths[0] = 14
    states = [rng.normal(size=(k, 2)) for k in lengths.tolist()]
    hours = [rng.integers(0, 5, size=k).astype(float) for k in lengths.tolist()]
    return Episodes.from_arrays(states, hours, ids=[f"{seed}-{i}" for i in range(n)], horizon=18)


TICKETS = GoalMonitor(Marginal(), steps_per_model=1, reward_bounds=(0, None)).fit(
    tickets(), progress=False
)
ENOUGH = Target.at_most(12.5)


def at_last(so_far: float, t: int, face: str):
    """The outlook at step t with all of it spent before."""
    if face == "outlook":
        return TICKETS.outlook(t, STATE[None], so_far, ENOUGH).of(0)
    if face == "watch":
        watch = TICKETS.watch(ENOUGH, alarm_below=0.3)
    else:
        fleet = TICKETS.fleet(ENOUGH, ["a"], alarm_below=0.3)
    for step in range(t + 1):
        reward = so_far if step == 1 else 0.0
        if face == "watch":
            found = watch.step(STATE, reward)
        else:
            found = fleet.step(STATE[None], [reward]).of(0)
    return found


@pytest.mark.parametrize("face", ["outlook", "watch", "fleet"])
@pytest.mark.parametrize("t", [13, 16])  # few learning episodes reach the one, none the other
def test_what_is_decided_is_exact_also_where_no_model_answers(face: str, t: int) -> None:
    trouble = TICKETS.fitted.unknown(t)
    assert trouble
    lost, still_open = at_last(40.0, t, face), at_last(1.0, t, face)
    assert lost[1:7] == (0.0, (0.0, 0.0), 0.0, 0.0, 0.0, 0.0)
    assert lost.decided
    if face != "outlook":
        assert lost.status is Status.ALARM
        assert "out of reach" in lost.reason
        assert "at 40" in lost.reason
    assert (still_open.known, still_open.status) == (False, Status.UNKNOWN)
    assert still_open.reason == trouble


def test_a_target_met_for_good_is_certain_where_no_model_answers() -> None:
    watch = TICKETS.watch(Target.at_least(3), alarm_below=0.3)
    found = [watch.step(STATE, 4.0 if t == 1 else 0.0) for t in range(17)]
    assert [one.p for one in found[1:]] == [1.0] * 16
    assert found[-1].status is Status.OK
    both = TICKETS.outlook(16, STATE[None], 4.0, [Target.at_least(3), ENOUGH])
    assert both.p[0, 0] == 1.0
    assert np.isnan(both.p[0, 1])
    assert both.status[0] == Status.UNKNOWN  # for one of its targets is


def test_a_bad_reading_is_unknown_even_if_the_behavior_decides() -> None:
    # It raises nothing, live and on the assure episodes alike (M8); the next good one tells.
    watch = TICKETS.watch(ENOUGH, alarm_below=0.3)
    watch.step(STATE)
    assert watch.step([math.inf, 0.0], 40.0).status is Status.UNKNOWN
    assert watch.step(STATE, 0.0).p == 0.0


def test_evaluate_answers_as_the_watch_does_where_arithmetic_decides(tmp_path: Path) -> None:
    new = tickets(200, seed=1)
    found = TICKETS.evaluate(new, ENOUGH, resamples=2)
    watch = TICKETS.watch(ENOUGH, alarm_below=0.3)
    late = 0
    for i in np.flatnonzero(new.lengths > 8).tolist():
        outlooks = replay(watch, new, i)[:-1]
        live = np.array([one.p for one in outlooks])
        np.testing.assert_array_equal(live, found.p[: live.size, i])
        late += sum(one.known and bool(TICKETS.fitted.unknown(one.t)) for one in outlooks)
    assert late > 10
    unknown = np.isnan(found.p) & (np.arange(len(found.p))[:, None] < new.lengths)
    page = tmp_path / "page.html"
    found.report(page)
    assert found.unanswered.steps == np.count_nonzero(unknown) > 0
    assert f"{np.count_nonzero(unknown):,} of" in page.read_text(encoding="utf-8")


def test_many_answers_say_what_is_decided_as_one_does() -> None:
    states, so_far = np.zeros((3, 2)), np.array([-0.3, 0.1, 0.4])
    many = MAX.outlook(1, states, so_far, Target.at_most(0.2))
    assert many.decided.tolist() == [many.of(i).decided for i in range(3)] == [False, False, True]
    both = MAX.outlook(1, states, so_far, [Target.at_most(0.2), Target.at_least(0.1)])
    assert both.decided.tolist() == [[False, False], [False, True], [True, True]]
