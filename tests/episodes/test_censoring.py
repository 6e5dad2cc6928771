"""Cut-off episodes: kept apart, drawn at random, or followed up to a horizon; what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, Target
from ontarget.episodes import Split
from ontarget.errors import (
    CalibrationError,
    CensoredError,
    EpisodesError,
    FewEpisodesError,
    InputError,
    ModelFileError,
)
from ontarget.models import Marginal
from refusals import refuses

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

TARGET = Target.at_least(0.0)


def arrays(n: int = 200, seed: int = 0) -> tuple[list, list, np.ndarray]:
    """Walks of four steps, every twentieth of which is cut off after two."""
    rng = np.random.default_rng(seed)
    cut = np.arange(n) % 20 == 7
    lengths = np.where(cut, 2, 4).tolist()
    states = [rng.normal(size=(length, 1)) for length in lengths]
    return states, [rng.normal(size=length) for length in lengths], cut


def worst_case(n: int = 200) -> Episodes:
    states, rewards, cut = arrays(n)
    return Episodes.from_arrays(states, rewards, truncated=cut, censored="worst-case")


def test_cut_off_episodes_are_kept_apart_and_said() -> None:
    episodes = worst_case()
    assert (len(episodes), episodes.cut_off.sum(), episodes.dropped) == (200, 10, 0)
    assert episodes.take([0, 7]).cut_off.tolist() == [False, True]
    text = "10 cut off, and each counts as the worst case in what is promised"
    assert text in episodes.describe()
    assert episodes.censoring == "worst-case"


def test_a_worst_case_monitor_is_saved_and_loaded_alike(tmp_path) -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(worst_case(), progress=False)
    fitted = monitor.fitted
    assert fitted.trained.sizes["learn"] + fitted.trained.sizes["assure"] < 200
    assert fitted.stopped[0] == np.isinf(fitted.excess).sum() > 0
    monitor.save(tmp_path / "m.ontarget")
    loaded = GoalMonitor.load(tmp_path / "m.ontarget")
    assert loaded.fitted.stopped == fitted.stopped
    assert loaded.fitted.trained.censoring == "worst-case"
    for found in (monitor, loaded):
        watch = found.watch(TARGET, false_alarm_rate=0.5)
        assert watch.trigger.promised.stopped == fitted.stopped[0]
        one = watch.step([0.0])
        many = found.outlook(0, [[0.0]], 0.0, TARGET)
        assert (one.low, one.high, one.plausibility) == (
            many.low[0],
            many.high[0],
            many.plausibility[0],
        )
    loaded.save(tmp_path / "again.ontarget")
    same = (tmp_path / "m.ontarget").read_bytes() == (tmp_path / "again.ontarget").read_bytes()
    assert same


def test_a_stopped_run_widens_the_bounds_by_its_share() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(worst_case(), progress=False)
    fitted = monitor.fitted
    n, c = fitted.ranks.at(0, 0).n, fitted.stopped[0]
    found = monitor.outlook(0, [[0.0]], 0.0, TARGET)
    assert found.high[0] - found.low[0] == pytest.approx((c + 2 - 1) / (n + c + 1))
    assert found.spread[0, 0] < found.p[0] < found.spread[0, 1]


def test_what_needs_outcomes_refuses_cut_off_episodes() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(worst_case(), progress=False)
    with refuses(CensoredError, None, "5 of", "100 episodes"):
        monitor.evaluate(worst_case(100), TARGET, resamples=2)
    with refuses(CensoredError, None, "guard", "1 were"):
        monitor.drift_guard()
    parts = worst_case().split(train=0.4, calibrate=0.4, assure=0.2)
    with refuses(CensoredError, "censored", "worst-case", "train"):
        GoalMonitor(Marginal()).fit(split=parts, progress=False)


def test_assure_episodes_that_were_all_cut_off_promise_nothing() -> None:
    episodes = worst_case()
    cut, ended = episodes.take(episodes.cut_off), episodes.take(~episodes.cut_off)
    with refuses(FewEpisodesError, None, "all 10"):
        GoalMonitor(Marginal()).fit(split=Split(ended, cut, None), progress=False)
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(ended, progress=False)
    with refuses(FewEpisodesError, None, "10 of them"):
        monitor.recalibrate(cut)


def test_levels_out_of_reach_count_the_stopped_runs() -> None:

    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(worst_case(), progress=False)
    for ask in (monitor.interval, monitor.promise):
        with refuses(CalibrationError, "level", 0.97, "cut off"):
            ask(0, [[0.0]], 0.0, 0.97)
    band = monitor.band(0, [[0.0]], 0.0, 0.97)
    assert np.isinf(band.lower[0])
    assert np.isinf(band.upper[0])


def frame(**columns: object) -> pl.DataFrame:
    table = {
        "episode": [1, 1, 1, 2, 2, 3, 3, 3],
        "step": [0, 1, 2, 0, 1, 0, 1, 2],
        "x": [0.0] * 8,
        "reward": [1.0] * 8,
        "truncated": [0, 0, 0, 0, 1, 0, 0, 0],
    }
    return pl.DataFrame(table | columns)


def test_columns_of_a_log_say_how_runs_were_stopped() -> None:
    q = [0.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0]
    options = {"censored": "weights", "stop_probability": "q"}
    episodes = Episodes.from_frame(frame(q=q), **options, stop_bound=2.0)
    assert episodes.schema.names == ("x",)
    assert episodes.ids.tolist() == [1, 3]
    assert "1 left" in episodes.describe()
    due = [3, 3, 3, 2, 2, 5, 5, 5]
    episodes = Episodes.from_frame(frame(due=due), censored="horizon", cutoff="due", horizon=3)
    assert (episodes.ids.tolist(), episodes.horizon) == ([1, 3], 3)
    short = Episodes.from_frame(frame(due=due), censored="horizon", cutoff="due", horizon=2)
    assert short.outcomes.tolist() == [2.0, 2.0, 2.0]
    assert "earlier cut-off" in episodes.describe()


@pytest.mark.parametrize("wrong", [-0.1, 1.0, 1.5, float("nan")])
def test_a_stop_probability_needs_0_to_below_1(wrong: float) -> None:
    q = [0.0] * 6 + [wrong, 0.0]
    with refuses(EpisodesError, "stop_probability", f"got {wrong:g} ", "episode 3, step 1"):
        Episodes.from_frame(frame(q=q), censored="weights", stop_probability="q", stop_bound=2.0)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (
            {"censored": "weights"},
            (CensoredError, "censored", "'weights'", "stop_probability=NAME", "stop_bound=B"),
        ),
        (
            {"censored": "weights", "stop_probability": "p", "stop_bound": 2.0},
            (EpisodesError, "stop_probability", "'p'"),
        ),
        ({"censored": "horizon", "cutoff": "p", "horizon": 2}, (EpisodesError, "cutoff", "'p'")),
        (
            {"censored": "horizon", "horizon": 2},
            (CensoredError, "censored", "censored='horizon'", "cutoff=NAME", "horizon=N"),
        ),
        (
            {"censored": "horizon", "cutoff": "due"},
            (CensoredError, "censored", "censored='horizon'", "cutoff=NAME"),
        ),
        (
            {"censored": "horizon", "cutoff": "due", "horizon": 9},
            (CensoredError, "horizon", "of 9", "is 5"),
        ),
        (
            {"censored": "weights", "stop_probability": "q", "stop_bound": 1.5},
            (EpisodesError, "stop_bound", 1.5, "weight of 2", "episode 1"),
        ),
        (
            {"censored": "weights", "stop_probability": "q", "stop_bound": -1.0},
            (EpisodesError, "stop_bound", -1.0),
        ),
        ({"censored": "drop", "cutoff": "due"}, (CensoredError, "cutoff", "censored='horizon'")),
        ({"stop_probability": "q"}, (CensoredError, "stop_probability", "censored='weights'")),
        ({"censored": "keep"}, (EpisodesError, "censored", "'keep'", "'refuse'", "'drop'")),
    ],
)
def test_a_way_that_lacks_something_says_what(options: dict, refusal: tuple) -> None:
    q = [0.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0]
    table = frame(q=q, due=[3, 3, 3, 2, 2, 5, 5, 5])
    with refuses(*refusal):
        Episodes.from_frame(table, **options)


def test_a_cut_off_that_a_run_did_not_keep_to_is_refused() -> None:
    for due, refusal in (
        ([2] * 8, (EpisodesError, "cutoff", "got 2", "episode 1", "3 steps")),
        ([9] * 8, (CensoredError, "cutoff", "episode 2", "2 steps", "of 9")),
    ):
        with refuses(*refusal):
            Episodes.from_frame(frame(due=due), censored="horizon", cutoff="due", horizon=2)


@pytest.mark.parametrize(
    ("ratios", "bound", "refusal"),
    [
        (np.full((4, 2), 3.0), 8.0, (EpisodesError, "bound", "got 8", "weight of 9", "episode 0")),
        (np.full((4, 2), -1.0), 8.0, (InputError, "ratios", -1.0, "episode 0")),
        (np.full(4, -1.0), 8.0, (InputError, "ratios", "product", -1.0, "episode 0")),
        (np.full(4, np.inf), 8.0, (InputError, "ratios", "product", "inf", "episode 0")),
        (np.full(4, np.nan), 8.0, (InputError, "ratios", "product", "nan", "episode 0")),
        (np.ones((3, 2)), 8.0, (InputError, "ratios", "each of 4", "got 3")),
        (np.ones((4, 3)), 8.0, (InputError, "ratios", "2 steps", "(3,)")),
        (np.ones(4), 0.0, (EpisodesError, "bound", 0.0)),
        (np.ones(4), np.inf, (EpisodesError, "bound", "inf")),
        (np.zeros(4), 1.0, (EpisodesError, None, "the 4 episodes")),
    ],
)
def test_thinning_says_what_is_wrong(ratios: np.ndarray, bound: float, refusal: tuple) -> None:
    episodes = Episodes.from_arrays(np.zeros((4, 2, 1)), np.ones((4, 2)))
    with refuses(*refusal):
        episodes.thinned(ratios, bound)


chances = st.integers(0, 9_999).map(lambda tenths: Fraction(tenths, 10_000))


def left_alone(chance: list[Fraction], bound: float) -> Episodes:
    """Two runs that nobody stopped, with these chances of a stop at their steps."""
    q = np.array([[float(one) for one in chance]] * 2)
    options = {"stop_probability": q, "stop_bound": bound}
    return Episodes.from_arrays(
        np.zeros((*q.shape, 1)), np.zeros(q.shape), censored="weights", **options
    )


@given(st.lists(chances, min_size=1, max_size=3), st.integers(0, 200))
def test_the_documented_stop_bound_is_accepted_and_a_lower_one_refused(chance, more) -> None:
    exact = math.prod(1 / (1 - one) for one in chance)
    steps = [*chance, *[Fraction(0)] * more]
    assert len(left_alone(steps, float(exact))) == 2  # every run is kept: its weight is the bound
    with refuses(EpisodesError, "stop_bound", "episode 0"):
        left_alone(steps, float(exact) * (1 - 1e-6))


@pytest.mark.parametrize(("chance", "bound"), [("0.8", 5), ("0.9", 10), ("0.999", 1_000)])
def test_a_stop_bound_may_be_typed(chance, bound) -> None:
    assert len(left_alone([Fraction(chance)], bound)) == 2


@given(st.floats(0.5, 4.0), st.integers(1, 60))
def test_a_power_of_the_ratio_is_a_bound_for_thinning(ratio, steps) -> None:
    episodes = Episodes.from_arrays(np.zeros((4, steps, 1)), np.ones((4, steps)))
    assert len(episodes.thinned(np.full((4, steps), ratio), ratio**steps)) == 4
    assert len(episodes.thinned(np.full(4, ratio**steps), ratio**steps)) == 4
    with refuses(EpisodesError, "bound", "episode 0"):
        episodes.thinned(np.full((4, steps), ratio), ratio**steps * (1 - 1e-9))


def test_a_forged_excess_is_refused(tmp_path) -> None:
    from dataclasses import replace

    from ontarget.modelfile.file import fitted_bytes, fitted_from_bytes

    fitted = GoalMonitor(Marginal()).fit(worst_case(), progress=False).fitted
    for wrong in (-np.inf, np.nan, 0.7):
        forged = replace(fitted, excess=np.where(np.isinf(fitted.excess), wrong, fitted.excess))
        with refuses(ModelFileError, None, "'excess'", 0.5):
            fitted_from_bytes(fitted_bytes(forged))
