from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget._grid import snap
from ontarget.episodes import PaperSplit
from ontarget.errors import (
    CalibrationError,
    EpisodesError,
    FewEpisodesError,
    GroupError,
    InputError,
    UnfittedError,
)
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.walks import replay, walks

# Targets that nearly every run meets leave an alarm nothing to say.
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

FOREST = QuantileForest(n_trees=12, min_leaf=5)
TARGETS = [Target.at_least(0.3), Target(-0.4, 0.4), Target(-1, -0.2) | Target(0.1, 0.5, "left")]
BEHAVIORS = ["sum", "discounted:0.9", "last", "max", "min", "mean"]


def fitted(model=FOREST, **options) -> tuple[GoalMonitor, Episodes]:
    fit_options = {
        k: options.pop(k) for k in ("steps_per_model", "window", "group") if k in options
    }
    monitor = GoalMonitor(model, min_calibration=5, **fit_options)
    return monitor.fit(walks(**options), progress=False), walks(**{**options, "seed": 9, "n": 40})


MONITORS = {behavior: fitted(behavior=behavior) for behavior in BEHAVIORS[:3]}


@pytest.mark.parametrize("behavior", BEHAVIORS)
@pytest.mark.parametrize("ragged", [False, True])
def test_live_equals_batch_bit_for_bit(behavior: str, ragged: bool) -> None:
    monitor, new = fitted(behavior=behavior, ragged=ragged, steps_per_model=2)
    for target in TARGETS:
        watch = monitor.watch(target, alarm_below=0.5)
        for i in range(12):
            live = replay(watch, new, i)
            for t, outlook in enumerate(live[:-1]):
                step = new.at(t)
                row = np.flatnonzero(step.index == i)
                batch = monitor.outlook(
                    t, step.states[row], step.behavior[row], target, calibration="target"
                )
                for name in ("low", "p", "high", "plausibility", "assurance"):
                    one, other = getattr(outlook, name), getattr(batch, name)[0]
                    assert one == other or (math.isnan(one) and math.isnan(other))
                assert np.array_equal(outlook.spread, batch.spread[0], equal_nan=True)
                assert outlook.n == batch.n[0]
                assert outlook.known == batch.known[0]
            met = float(target.contains(new.outcomes[i], monitor.fitted.grid))
            assert (live[-1].status, live[-1].p) == (Status.DONE, met)


@settings(max_examples=25)
@given(st.integers(0, 39), st.floats(-2, 2), st.floats(0.01, 2), st.sampled_from(BEHAVIORS[:3]))
def test_live_equals_batch_for_any_target(i: int, low: float, width: float, behavior: str) -> None:
    monitor, new = MONITORS[behavior]
    target = Target(low, low + width)
    live = replay(monitor.watch(target, calibration="common"), new, i)
    for t, outlook in enumerate(live[:-1]):
        step = new.at(t)
        batch = monitor.outlook(t, step.states[[i]], step.behavior[[i]], [target, ~target])
        assert (outlook.low, outlook.p, outlook.high) == tuple(
            field[0, 0] for field in (batch.low, batch.p, batch.high)
        )
        assert outlook.assurance == 1 - batch.plausibility[0, 1]


def test_horizon_of_one_and_of_a_thousand() -> None:
    monitor, new = fitted(Marginal(), horizon=1)
    assert [o.status for o in replay(monitor.watch(TARGETS[0], alarm_below=0), new, 0)] == [
        Status.OK,
        Status.DONE,
    ]
    monitor, new = fitted(Marginal(), horizon=1000, n=30)
    assert len(monitor.fitted.blocks) == 5
    outlooks = replay(monitor.watch(Target.at_least(0), alarm_below=0), new, 3)
    assert len(outlooks) == 1001
    assert outlooks[-1].status is Status.DONE


def test_late_steps_that_few_episodes_reach_are_unknown_and_say_so() -> None:
    episodes = walks(30, ragged=True)
    monitor = GoalMonitor(FOREST, steps_per_model=1, min_calibration=10).fit(
        episodes, progress=False
    )
    new = walks(20, seed=3)
    live = replay(monitor.watch(Target.at_least(0)), new, 0)
    assert live[0].known
    assert live[5].status is Status.UNKNOWN
    assert "fewer than 10" in live[5].reason
    batch = monitor.outlook(5, new.at(5).states, new.at(5).behavior, Target.at_least(0))
    assert not batch.known.any()
    assert 0 < monitor.fitted.learned[5, 0] < 10
    assert np.isnan(batch.p).all()


def test_a_step_that_no_training_episode_reaches_is_unknown() -> None:
    states = [np.zeros((2, 1))] * 90
    runs = Episodes.from_arrays(states, [np.ones(2)] * 90, horizon=8)
    monitor = GoalMonitor(Marginal(), steps_per_model=1).fit(runs, progress=False)
    batch = monitor.outlook(5, [[0.0]], 0.0, Target.at_least(0))
    (reason,) = batch.reason.tolist()
    assert "no model" in reason
    with refuses(CalibrationError, None, "step 5", "unknown"):
        monitor.interval(5, [[0.0]], 0.0, 0.9)


def test_steps_that_are_fitted_alone_answer_as_in_a_whole_fit() -> None:
    # Curves would lean on neighbouring steps, which one fit has and the other has not.
    parts, target = walks(300).split(train=0.4, seed=0), Target.at_least(0)
    whole = GoalMonitor(FOREST, steps_per_model=2).fit(split=parts, progress=False)
    some = GoalMonitor(FOREST, steps_per_model=2).fit(split=parts, steps=[2], progress=False)
    for t in range(6):
        rows = parts.assure.at(t)
        one, other = (m.outlook(t, rows.states, rows.behavior, target) for m in (whole, some))
        assert np.array_equal(one.p, other.p) == (t in (2, 3))
        assert other.known.all() == (t in (2, 3))
    with refuses(InputError, "steps", "0 to 5"):
        GoalMonitor(FOREST).fit(split=parts, steps=[6], progress=False)


def test_no_interval_promise_or_band_is_given_for_a_bad_reading() -> None:
    monitor, _ = fitted()
    for ask in (monitor.interval, monitor.promise, monitor.band):
        with refuses(InputError, None, "run 1", "'x0'"):
            ask(1, [[0.0, 0.0], [math.nan, 0.0]], 0.0, 0.8)
        with refuses(InputError, None, "run 0", "nan"):
            ask(1, [[0.0, 0.0]], math.nan, 0.8)
        with refuses(InputError, "t", "got True"):
            ask(True, [[0.0, 0.0]], 0.0, 0.8)


def test_calibration_episodes_with_a_bad_reading_do_not_stand_behind_good_ones() -> None:
    parts = walks(300).split(train=0.4, seed=0)
    states = [np.stack([parts.calibrate.at(t).states[i] for t in range(6)]) for i in range(120)]
    rewards = [[parts.calibrate.rewards_at(t)[i] for t in range(6)] for i in range(120)]
    for i in range(40):
        states[i][3, 0] = math.nan
    broken = Episodes.from_arrays(states, rewards, ids=parts.calibrate.ids)
    split = PaperSplit(parts.train, broken, parts.assure, None)
    monitor = GoalMonitor(FOREST, min_calibration=5).fit(split=split, progress=False)
    whole = GoalMonitor(FOREST, min_calibration=5).fit(split=parts, progress=False)
    assert [monitor.fitted.at(t).ranks.n for t in range(6)] == [120, 120, 120, 80, 120, 120]
    rest = set(whole.fitted.at(3).ranks.values.tolist())
    assert set(monitor.fitted.at(3).ranks.values.tolist()) < rest
    guard = monitor.drift_guard(t=3)
    assert guard.observe(broken).n == 80


def test_at_the_horizon_everything_is_known() -> None:
    monitor, _ = fitted()
    found = monitor.outlook(6, np.zeros((3, 2)), [0.3, 0.2, math.nan], Target.at_least(0.3))
    assert found.p[:2].tolist() == [1.0, 0.0]
    assert found.status.tolist() == [Status.DONE, Status.DONE, Status.UNKNOWN]


def test_wider_target_never_lowers_probability() -> None:
    monitor, new = fitted()
    step = new.at(2)
    nested = [Target(-0.1 * k, 0.1 * k) for k in range(1, 12)]
    found = monitor.outlook(2, step.states, step.behavior, nested)
    for field in (found.p, found.low, found.high, found.plausibility, found.assurance):
        assert np.all(np.diff(field, axis=1) >= 0)


def test_interval_promise_and_band_hold_the_outcomes_they_promise() -> None:
    monitor = GoalMonitor(FOREST).fit(walks(1500, atoms=False), progress=False)
    new = walks(800, seed=4, atoms=False)
    step = new.at(2)
    interval = monitor.interval(2, step.states, step.behavior, 0.8)
    assert 0.74 < interval.contains(new.outcomes).mean() < 0.86
    promise = monitor.promise(2, step.states, step.behavior, 0.9)
    assert 0.86 < np.mean(new.outcomes >= promise) < 0.95
    held = np.ones(800, dtype=bool)
    for t in range(6):
        rows = new.at(t)
        held &= monitor.band(t, rows.states, rows.behavior, 0.8).contains(new.outcomes)
    assert 0.74 < held.mean() < 0.88


def test_band_holds_exactly_the_outcomes_that_stay_plausible() -> None:
    monitor, new = fitted()
    for t in (0, 3, 5):
        step = new.at(t)
        band = monitor.band(t, step.states, step.behavior, 0.8)
        points = snap(new.outcomes, monitor.fitted.grid)
        depth = np.sort(monitor.fitted.excess)
        k = math.ceil(0.8 * (depth.size + 1))
        for i in range(10):
            plausible = monitor.outlook(
                t, step.states[[i]], step.behavior[[i]], [Target(y, y) for y in points]
            ).plausibility[0]
            # d(y) <= M_(k) exactly when at least m + 1 - k of the M_i reach d(y).
            inside = np.rint(plausible * (depth.size + 1)) >= depth.size + 2 - k
            assert inside.tolist() == band_contains(band, i, points)


def band_contains(band, i: int, points) -> list[bool]:
    return ((points >= band.lower[i]) & (points <= band.upper[i])).tolist()


def test_pooled_models_read_the_step() -> None:
    monitor, _ = fitted(steps_per_model=3, window=1)
    assert monitor.fitted.reads_step
    assert monitor.fitted.models[1].n_features_in_ == 3
    paper = GoalMonitor(preset="paper").fit(walks(), progress=False)
    assert len(paper.fitted.blocks) == 6
    assert paper.fitted.models[4].n_features_in_ == 2


def test_row_order_of_the_recording_does_not_matter() -> None:
    episodes = walks(200)
    shuffled = episodes.take(np.random.default_rng(1).permutation(200))
    probe = walks(20, seed=5).at(1)
    found = [
        GoalMonitor(Marginal())
        .fit(runs, progress=False)
        .outlook(1, probe.states, probe.behavior, TARGETS)
        for runs in (episodes, shuffled)
    ]
    np.testing.assert_array_equal(found[0].p, found[1].p)
    np.testing.assert_array_equal(found[0].plausibility, found[1].plausibility)


def test_groups_are_calibrated_by_themselves() -> None:
    monitor, new = fitted(groups=3, group="group", n=600)
    step = new.at(1)
    found = monitor.outlook(1, step.states, step.behavior, TARGETS[0], groups=step.groups)
    assert found.n.tolist() == [40] * 40
    assert (monitor.fitted.learned >= 158).all()  # hardly any run is in every bag
    alone = monitor.outlook(1, step.states[:1], step.behavior[:1], TARGETS[0], groups=["0"])
    assert alone.p[0] == found.p[0]
    with refuses(GroupError, "group", "'0', '1', '2'", "got '7'"):
        monitor.watch(TARGETS[0], group="7")
    with refuses(GroupError, "group", "'0', '1', '2'", "got None"):
        monitor.watch(TARGETS[0])
    with refuses(GroupError, None, "'0'", "without groups"):
        fitted(Marginal())[0].watch(TARGETS[0], group="0")
    with refuses(GroupError, "group", "'team'", "'group'"):
        GoalMonitor(group="team").fit(walks(groups=2), progress=False)
    with refuses(GroupError, None, "group 0", "8 episodes", "min_calibration=20"):
        GoalMonitor(group="group").fit(walks(30, groups=3), progress=False)


@pytest.mark.parametrize(
    ("ask", "refusal"),
    [
        (
            lambda m: m.outlook(7, np.zeros((1, 2)), 0, TARGETS[0]),
            (InputError, "t", "horizon 6", "got 7"),
        ),
        (
            lambda m: m.outlook(0, np.zeros((1, 3)), 0, TARGETS[0]),
            (InputError, "states", "(runs, 2)", "(1, 3)"),
        ),
        (
            lambda m: m.outlook(0, np.zeros((1, 2)), [0, 1], TARGETS[0]),
            (InputError, "behavior", "of 1", "(2,)"),
        ),
        (
            lambda m: m.watch(TARGETS[0], alarm_below=2),
            (InputError, "alarm_below", "0 to 1", "got 2"),
        ),
        (
            lambda m: m.watch(TARGETS[0], alarm_below=0.5, false_alarm_rate=0.1),
            (InputError, "alarm_below", "`false_alarm_rate`"),
        ),
        (
            lambda m: m.watch(TARGETS[0], for_steps=0),
            (InputError, "for_steps", "got 0"),
        ),
        (
            lambda m: m.watch(60),
            (InputError, "target", "got 60;", "Target.at_least(60)"),
        ),
        (lambda m: m.evaluate(walks(20), "60:"), (InputError, "target", "got '60:'")),
        (
            lambda m: m.watch(TARGETS[0], false_alarm=0.1),
            (InputError, None, "'false_alarm'", "false_alarm_rate"),
        ),
        (
            lambda m: m.watch(TARGETS[0], clear_above=0.1),
            (InputError, "clear_above", 0.9, "got 0.1"),
        ),
        (
            lambda m: m.watch(TARGETS[0], on_bad="ignore"),
            (InputError, "on_bad", "'ignore'"),
        ),
        (
            lambda m: m.watch(TARGETS[0], false_alarm_rate=0.001),
            (FewEpisodesError, "false_alarm_rate", "=0.001", "999 assure"),
        ),
        (
            lambda m: m.interval(0, np.zeros((1, 2)), 0, 1.5),
            (InputError, "level", "got 1.5"),
        ),
        (lambda m: m.fleet(TARGETS[0], 0), (InputError, "agents", "got 0")),
        (lambda m: m.drift_guard(level=2), (InputError, "level", "got 2")),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, refusal: tuple) -> None:
    with refuses(*refusal):
        ask(MONITORS["sum"][0])


def test_an_unfitted_monitor_says_so() -> None:
    with refuses(UnfittedError, None, "not fitted"):
        GoalMonitor().watch(TARGETS[0])
    with refuses(InputError, "preset", "'best'"):
        GoalMonitor(preset="best")
    with refuses(InputError, "episodes", "`split`"):
        GoalMonitor().fit()


def test_an_episode_in_two_parts_of_a_split_is_refused() -> None:
    runs = walks(200, ragged=True)
    leaky = PaperSplit(runs.take(np.arange(80)), runs.take(np.arange(75, 200)), None, None)
    with refuses(CalibrationError, None, "5 episodes", "train", "calibrate"):
        GoalMonitor(Marginal()).fit(split=leaky, progress=False)


def test_other_recordings_may_number_their_episodes_alike() -> None:
    def recording(seed: int) -> Episodes:
        rng = np.random.default_rng(seed)
        return Episodes.from_arrays(np.zeros((60, 3, 1)), rng.integers(0, 2, size=(60, 3)))

    parts = PaperSplit(recording(0), recording(1), recording(2), None)
    with refuses(CalibrationError, None, "7 episodes", "train", "calibrate"):
        # Sixty runs of coin flips: some are the same by chance, and nobody could tell.
        GoalMonitor(Marginal()).fit(split=parts, progress=False)
    rng = np.random.default_rng(3)
    noisy = [
        Episodes.from_arrays(rng.normal(size=(60, 3, 1)), rng.integers(0, 2, size=(60, 3)))
        for _ in range(3)
    ]
    assert GoalMonitor(Marginal()).fit(split=PaperSplit(*noisy, None), progress=False).horizon == 3


def test_parts_of_a_split_need_to_be_alike() -> None:
    split = walks(100).split(train=0.4)._replace(calibrate=walks(50, horizon=4))
    with refuses(EpisodesError, None, "horizon", "6 and 4"):
        GoalMonitor(Marginal()).fit(split=split, progress=False)


def test_a_fit_that_could_say_nothing_is_refused() -> None:
    with refuses(FewEpisodesError, None, 16, "needs 20"):
        GoalMonitor(Marginal()).fit(walks(20), progress=False)
    monitor = GoalMonitor(Marginal(), min_calibration=12).fit(walks(20), progress=False)
    assert not monitor.fitted.unknown(0, 0)


def test_a_fit_says_how_far_p_may_be_off_and_with_what_confidence() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(300), progress=False)
    (line,) = [one for one in monitor.summary().splitlines() if one.startswith("accuracy")]
    assert "by chance" in line
    assert "points with 240 episodes (90 % confidence)" in line
    assert line.endswith("the model's own error is not included")


def test_a_fit_says_how_many_episodes_an_alarm_needs_to_meet_the_target() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(600), progress=False)
    (line,) = [one for one in monitor.summary().splitlines() if one.startswith("promises")]
    assert line.endswith("false alarms, if at least 99 of them meet your target")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("least", [1, 2, 20])
def test_too_few_episodes_are_fewer_than_a_step_needs(n: int, least: int) -> None:
    rewards = np.arange(3.0 * n).reshape(n, 3)
    few = Episodes.from_arrays(rewards[..., None], rewards)
    with pytest.raises(FewEpisodesError) as caught:
        GoalMonitor("marginal", min_calibration=least).fit(few, assure=0, progress=False)
    usable, needed = (int(one) for one in re.findall(r"\d+", str(caught.value))[:2])
    assert usable < needed == least
