"""Weights of assure episodes and of new runs: what they change, and what is refused (M25)."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, RuledOut, Target
from ontarget._kernel import kernel
from ontarget.conformal._kernels import weighted_row
from ontarget.errors import CalibrationError, FewEpisodesError, InputError, ModelFileError
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted.guarantee import promised_threshold
from ontarget.fitted.question import Question
from ontarget.modelfile.file import fitted_bytes, fitted_from_bytes
from ontarget.models import Marginal
from tests.walks import walks

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

TARGET = Target.at_least(0.0)
STATE = np.zeros(2)
RUNS = walks()
WEIGHTS = np.exp(RUNS.at(0).states[:, 0])


def fitted(weights: np.ndarray | None) -> GoalMonitor:
    return GoalMonitor(Marginal(), min_calibration=5).fit(RUNS, weights=weights, progress=False)


MONITOR, PLAIN, EQUAL = fitted(WEIGHTS), fitted(None), fitted(np.full(len(RUNS), 2.0))


@kernel
def _row(ranks, upto, own, minus, plus, out):
    out[0], out[1] = weighted_row(ranks, upto, own, minus, plus)


numbers = st.integers(0, 8).map(lambda k: k / 8)


@given(
    st.lists(st.tuples(numbers, st.floats(0.1, 5.0)), min_size=1, max_size=8),
    st.floats(0.1, 5.0),
    numbers | st.just(-np.inf),
    numbers | st.just(np.inf),
)
def test_low_and_high_are_the_weighted_shares(pairs, own, minus, plus) -> None:
    if minus > plus:
        minus, plus = plus, minus
    pairs.sort()
    ranks, weights = np.array(pairs).T
    total = weights.sum() + own

    def ends(a: float) -> tuple[float, float]:
        if np.isinf(a):
            return (0.0, 0.0) if a < 0 else (1.0, 1.0)
        return weights[ranks < a].sum() / total, (weights[ranks <= a].sum() + own) / total

    out = np.empty(2)
    _row(ranks, np.cumsum(weights), own, np.array([minus]), np.array([plus]), out)
    low = max(0.0, ends(plus)[0] - ends(minus)[1])
    high = 1.0 - ends(minus)[0] - max(0.0, 1.0 - ends(plus)[1])
    assert out == pytest.approx([low, high], abs=1e-12)


@pytest.mark.parametrize("rate", ["0.05", "0.1", "0.29", "1/3", "0.5"])
def test_equal_weights_change_nothing(rate: str) -> None:
    plain = PLAIN.watch(TARGET, false_alarm_rate=rate)
    equal = EQUAL.watch(TARGET, false_alarm_rate=rate, weight=2.0)
    assert equal.trigger.threshold == plain.trigger.threshold
    for reward in (0.0, -1.0, 0.5):
        one, other = plain.step(STATE, reward), equal.step(STATE, reward)
        assert (one.p, one.alarm) == (other.p, other.alarm)
        for name in ("low", "high", "plausibility", "assurance"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12)
        assert np.isnan(other.spread).all()
    assert EQUAL.fitted.n_eff == pytest.approx(60.0)
    assert MONITOR.fitted.n_eff < 55.0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=3, max_size=30),
    st.integers(1, 5),
    st.sampled_from(["0.1", "0.25", "0.3", "0.5"]),
)
def test_the_threshold_is_where_the_weighted_share_passes_the_rate(pairs, own, rate) -> None:
    scores, weights = np.array(pairs, dtype=float).T / [[10.0], [1.0]]
    met, total = np.ones(scores.size, dtype=bool), weights.sum() + own
    allowed = float(rate) * total + 1e-9

    def alarms(p: float) -> bool:
        return bool(own + weights[scores <= p].sum() <= allowed)

    if own > allowed:
        with pytest.raises(FewEpisodesError, match=f"for a run of weight {own}: "):
            promised_threshold(scores, met, rate, weights=weights, weight=float(own))
        return
    found = promised_threshold(scores, met, rate, weights=weights, weight=float(own))
    for p in (-0.05, *np.unique(scores), *(np.unique(scores) + 0.05)):
        assert (p < found.value) == alarms(p)
    with pytest.raises(CalibrationError, match="spread of a false-alarm rate cannot be computed"):
        found.spread()


def test_plausibility_is_the_weighted_share_of_the_runs_as_far_out_at_any_step() -> None:
    runs = walks(ragged=True)  # few are alive late, yet all of them count
    weights = np.exp(runs.at(0).states[:, 0])
    monitor = GoalMonitor(Marginal(), min_calibration=2).fit(runs, weights=weights, progress=False)
    fitted, own = monitor.fitted, 1.5
    excess, upto = fitted.sorted_excess[0], fitted.excess_weights[0]
    assert fitted.weights is not None
    each, total = np.diff(upto, prepend=0.0), fitted.weights.sum() + own
    for t in (0, 5):
        law = fitted.at(t)
        for lower in (-1.0, 0.5, 1.5, 3.0):
            target = Target.at_least(lower)
            left, _ = law.limits_at(STATE[None], np.zeros(1), Question.of([target], fitted.grid))
            away = max(0.0, float(np.interp(left[0, 0], KNOTS, law.curve)) - 0.5)
            expected = (own + each[excess >= away - 1e-9].sum()) / total
            found = monitor.outlook(t, [STATE], 0.0, target, weights=[own])
            assert found.plausibility[0] == pytest.approx(expected, abs=1e-12)


def test_live_and_batch_agree_and_a_run_can_be_resumed() -> None:
    watch = MONITOR.watch(TARGET, false_alarm_rate=0.2, weight=1.5)
    now = watch.step(STATE)
    many = MONITOR.outlook(0, [STATE, STATE], 0.0, TARGET, weights=[1.5, 4.0])
    assert (now.low, now.high, now.plausibility) == (
        many.low[0],
        many.high[0],
        many.plausibility[0],
    )
    assert many.high[1] - many.low[1] > many.high[0] - many.low[0]  # a heavier run knows less
    again = pickle.loads(pickle.dumps(watch))
    assert again.run_state == watch.run_state
    assert again.run_state.weight == 1.5
    assert again.trigger == watch.trigger
    one, other = again.step(STATE, -0.3), watch.step(STATE, -0.3)
    assert (one.p, one.low, one.plausibility) == (other.p, other.low, other.plausibility)
    light = watch.trigger.threshold
    watch.reset(weight=8.0)
    assert watch.trigger.threshold < light


def test_a_file_keeps_the_weights(tmp_path) -> None:
    MONITOR.save(tmp_path / "m.ontarget")
    loaded = GoalMonitor.load(tmp_path / "m.ontarget")
    assert loaded.fitted.n_eff == MONITOR.fitted.n_eff
    rules = [m.watch(TARGET, alarm=RuledOut(0.2), weight=2.0) for m in (MONITOR, loaded)]
    one, other = (watch.step(STATE) for watch in rules)
    assert (one.p, one.low, one.plausibility) == (other.p, other.low, other.plausibility)
    ranks = MONITOR.fitted.ranks
    for wrong in (0.0, -1.0, np.inf, np.nan):
        forged = replace(ranks, weights=np.full(ranks.weights.size, wrong))
        with pytest.raises(ModelFileError, match="one finite weight above 0"):
            fitted_from_bytes(fitted_bytes(replace(MONITOR.fitted, ranks=forged)))
    bare = fitted_bytes(replace(PLAIN.fitted, ranks=replace(ranks)))
    assert not fitted_from_bytes(bare).is_weighted
    with pytest.raises(InputError, match="ranks need weights"):
        replace(MONITOR.fitted, ranks=PLAIN.fitted.ranks)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, np.nan])
def test_a_weight_needs_a_finite_number_above_0(wrong: float) -> None:
    weights = np.ones(len(RUNS))
    weights[3] = wrong
    with pytest.raises(InputError, match=f"above 0, got {wrong} for episode run-0-3"):
        RUNS.weighted(weights)
    with pytest.raises(InputError, match="`weight` needs a finite number above 0"):
        MONITOR.watch(TARGET, weight=wrong)
    with pytest.raises(InputError, match="`weight` needs a finite number above 0"):
        MONITOR.outlook(0, [STATE], 0.0, TARGET, weights=[wrong])


def test_a_weight_that_is_text_is_refused_like_any_other() -> None:
    with pytest.raises(InputError, match="`weight` needs a finite number above 0, got 'heavy'"):
        MONITOR.watch(TARGET, weight="heavy")
    with pytest.raises(InputError, match="`weights` need one number for each episode, got text"):
        RUNS.weighted(["heavy"] * len(RUNS))


def test_what_has_no_meaning_with_weights_says_so() -> None:
    asked = {
        "a new run needs one too; pass `weight`": lambda: MONITOR.watch(TARGET),
        "make a watch for each": lambda: MONITOR.fleet(TARGET, 2),
        "no common alarm for many runs": lambda: MONITOR.sessions(TARGET),
        "no drift guard": MONITOR.drift_guard,
        "no interval, promise or band; read low, high and": lambda: MONITOR.interval(
            0, [STATE], 0.0, 0.9
        ),
        "no interval, promise or band": lambda: MONITOR.band(0, [STATE], 0.0, 0.9),
        "no drift guard; guard": lambda: MONITOR.drift(walks(30, seed=3), TARGET),
        "no alarm curve": lambda: MONITOR.alarm_curve(TARGET),
        "no evaluation": lambda: MONITOR.evaluate(RUNS, TARGET),
        "this one's have none": lambda: PLAIN.watch(TARGET, weight=1.0),
        "`confidence` needs assure episodes without weights": lambda: MONITOR.watch(
            TARGET, false_alarm_rate=0.2, confidence=0.9, weight=1.0
        ),
        r"pass `weights` with episodes": lambda: GoalMonitor().fit(
            split=RUNS.split(), weights=[1.0]
        ),
        "`weights` need a split into learn and assure": lambda: GoalMonitor(Marginal()).fit(
            split=RUNS.weighted(WEIGHTS).split(train=0.4, calibrate=0.4, assure=0.2), progress=False
        ),
        "`weights` need one number for each of 300": lambda: RUNS.weighted([1.0]),
    }
    for message, ask in asked.items():
        with pytest.raises(InputError, match=message):
            ask()
    for options in ({"false_alarm_rate": 0.1}, {"alarm": RuledOut(0.1)}):
        with pytest.raises(FewEpisodesError, match=r"cannot be promised for a run of weight"):
            MONITOR.watch(TARGET, weight=100.0, **options)
    assert "assure episodes with weights, which are worth" in MONITOR.summary()


def test_cut_off_runs_cannot_have_weights() -> None:
    cut = Episodes.from_arrays(
        [np.zeros((2, 1)), np.zeros((3, 1))] * 30,
        [np.ones(2), np.ones(3)] * 30,
        truncated=[True, False] * 30,
        censored="worst-case",
    )
    with pytest.raises(InputError, match="`weights` need episodes that were not cut off"):
        GoalMonitor(Marginal()).fit(cut, weights=np.ones(60), progress=False)
