from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, Target
from ontarget.cli.mistakes import as_option
from ontarget.domains import simulate
from ontarget.reading._cautions import determined, linear_share, separated
from ontarget.reading.look import histogram
from tests.episodes.recordings import recordings

from .planted import LEAKS, clean_log, planted


def kinds(runs: Episodes, target: Target | None = None) -> list[str]:
    return [caution.kind for caution in runs.look(target).cautions]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found_and_nothing_else(leak: str) -> None:
    kind, runs = planted(leak, clean_log())
    (caution,) = runs.look().cautions
    assert caution.kind == kind
    if kind not in ("order", "id"):
        assert "leak" in caution.columns
        assert "drop=['leak'" in str(caution)


@pytest.mark.parametrize("leak", [name for name, (kind, _) in LEAKS.items() if kind != "length"])
def test_a_planted_leak_is_found_in_runs_of_one_length(leak: str) -> None:
    kind, runs = planted(leak, clean_log(seed=3, ragged=False))
    assert kinds(runs) == [kind]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [31, 60, 400])
def test_a_clean_log_raises_no_caution(n: int, seed: int) -> None:
    log = clean_log(n, seed=seed, ragged=bool(seed % 2))
    assert kinds(Episodes.from_frame(log), Target.at_least(0.0)) == []


@pytest.mark.parametrize("domain", ["tamarisk", "skirmish"])
def test_the_domains_raise_no_caution(domain: str) -> None:
    runs = simulate(domain, 300, progress=False)
    assert kinds(runs, Target.at_least(float(np.median(runs.outcomes)))) == []


@pytest.mark.parametrize("behavior", ["max", "min", "mean", "last", "discounted:0.9"])
def test_a_leak_is_found_whatever_a_run_is_judged_by(behavior: str) -> None:
    clean = Episodes.from_frame(clean_log(), behavior=behavior)
    assert kinds(clean) == []
    ends = pl.DataFrame({"episode": clean.ids, "leak": clean.outcomes})
    leaky = clean_log().join(ends, on="episode")
    assert kinds(Episodes.from_frame(leaky, behavior=behavior)) == ["outcome"]


def test_a_behavior_column_that_is_also_a_feature_is_a_leak() -> None:
    log = clean_log().with_columns(height=pl.col("so_far") + pl.col("reward")).drop("reward")
    assert kinds(Episodes.from_frame(log, behavior="height")) == []
    told = log.with_columns(altitude=0.3 * pl.col("height"))
    (caution,) = Episodes.from_frame(told, behavior="height").look().cautions
    assert caution.columns == ("altitude",)


def test_a_column_that_only_tells_the_target_is_found_once_it_is_named() -> None:
    log = clean_log(400)
    total = pl.col("reward").sum().over("episode")
    rng = np.random.default_rng(0)
    shade = pl.Series(rng.normal(size=400)).gather(log["episode"])
    log = log.with_columns(hint=(total.abs() < 1.0).cast(pl.Float64) * 5 + shade.abs())
    runs = Episodes.from_frame(log)
    assert kinds(runs) == []
    assert "the target" in str(runs.look(Target(-1.0, 1.0)).cautions[0])


def test_an_honest_forecast_of_a_few_results_is_no_leak() -> None:
    # A game of 12 rounds: who leads late in the game wins nearly always.
    rng = np.random.default_rng(0)
    lead = np.cumsum(rng.normal(size=(600, 12)), axis=1)
    before = np.concatenate([np.zeros((600, 1)), lead[:, :-1]], axis=1)
    rewards = np.zeros((600, 12))
    rewards[:, -1] = lead[:, -1] > 0.0
    states = np.stack([before, before > 0.0], axis=2).astype(float)
    runs = Episodes.from_arrays(states, rewards, features=["lead", "leads"])
    assert kinds(runs) == []
    won = np.repeat(rewards[:, -1:], 12, axis=1)
    won[:, 0] = np.nan
    leaky = np.concatenate([states, won[:, :, None]], axis=2)
    assert kinds(Episodes.from_arrays(leaky, rewards, horizon=12)) == ["outcome"]


def test_one_extreme_run_makes_no_leak() -> None:
    log = clean_log(300)
    wild = pl.when(pl.col("episode") == 7).then(1e4).otherwise(pl.col("reward"))
    size = pl.when(pl.col("episode") == 7).then(1e4).otherwise(pl.col("skill"))
    assert kinds(Episodes.from_frame(log.with_columns(reward=wild, size=size))) == []


def test_too_few_episodes_are_not_judged() -> None:
    _, runs = planted("the outcome itself", clean_log(29))
    assert runs.look().cautions == ()
    assert "30 episodes" in str(runs.look())


def test_the_sample_does_not_depend_on_the_order_of_rows() -> None:
    _, runs = planted("a noisy copy", clean_log(2500))
    shuffled = Episodes.from_frame(runs.to_frame().sample(fraction=1.0, shuffle=True, seed=1))
    assert str(shuffled.look().cautions[0]) == str(runs.look().cautions[0])


def test_facts_about_columns_count_rows_and_episodes() -> None:
    log = clean_log(40).with_columns(
        site=pl.lit("A"),
        speed=pl.when(pl.col("step") > 0).then(1.0 * pl.col("step")),
        crew=pl.when(pl.col("episode") == 3).then(pl.lit("odd")).otherwise(pl.lit("usual")),
        serial=7000 + pl.col("episode"),
        empty=pl.lit(None, dtype=pl.Float64),
    )
    facts = {one.name: one for one in Episodes.from_frame(log).look().columns}
    assert facts["speed"].missing == pytest.approx(40 / log.height)
    assert [name for name, one in facts.items() if one.constant] == ["site", "empty"]
    assert [name for name, one in facts.items() if one.like_an_id] == ["serial"]
    assert facts["crew"].seen_once == ("odd",)
    assert facts["mode"].seen_once == ()


def test_facts_are_of_the_episodes_that_were_taken() -> None:
    log = clean_log(40).with_columns(site=pl.when(pl.col("episode") < 5).then(1.0))
    runs = Episodes.from_frame(log)
    facts = {one.name: one for one in runs.take(range(5)).look().columns}
    assert (facts["site"].missing, facts["site"].constant) == (0.0, True)


def test_the_order_of_the_file_is_told() -> None:
    runs = Episodes.from_frame(clean_log(60).with_columns(season=pl.col("episode") // 20))
    assert runs.look().order.sorted_by == ("season",)
    assert runs.look().order.share < 0.5


def test_the_look_shows_and_exports_the_same() -> None:
    _, runs = planted("won or lost", clean_log())
    looked = runs.look(Target.at_least(0.0))
    found = looked.to_json()
    met = int((runs.outcomes >= 0.0).sum())
    assert found["met"] == looked.met == met
    assert f"{met} of 200" in str(looked)
    assert sum(bar["episodes"] for bar in found["histogram"]) == 200
    assert found["cautions"][0]["message"] in str(looked)
    assert looked.head() in str(looked)


@given(frame=recordings())
def test_any_log_can_be_looked_at(frame: pl.DataFrame) -> None:
    runs = Episodes.from_frame(frame)
    assert str(runs.look()).startswith(runs.describe())


@given(
    values=st.lists(
        st.floats(-1e150, 1e150) | st.sampled_from([0.0, 1e-300, float("nan")]),
        min_size=90,
        max_size=90,
    )
)
def test_numbers_of_any_size_can_be_looked_at(values: list[float]) -> None:
    states = np.array(values).reshape(45, 2, 1)
    runs = Episodes.from_arrays(states, np.nan_to_num(states[:, :, 0]) / 2)
    assert isinstance(str(runs.look(Target.at_least(0.0))), str)


def test_a_function_is_determined_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    assert determined(x, np.exp(x)) > 0.99
    assert determined(x, np.abs(x) > 1.0) > 0.95
    assert determined(x, rng.normal(size=500)) < 0.1
    assert determined(np.arange(500.0), rng.normal(size=500)) < 0.1  # unique values explain nothing
    assert determined(np.full(500, 2.0), x) == 0.0
    assert determined(x, np.full(500, 2.0)) == 0.0


def test_ranges_are_separated_and_mixtures_are_not() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=500)
    assert separated((y > 1.0).astype(float), y) == pytest.approx(1.0)
    assert separated(np.digitize(y, [-1.0, 0.0, 1.0]).astype(float), y) == pytest.approx(1.0)
    assert separated((y + rng.normal(size=500) > 1.0).astype(float), y) < 0.8
    assert separated(rng.integers(0, 3, size=500).astype(float), y) == 0.0
    assert separated(np.arange(500.0), y) == 0.0


def test_a_linear_share_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=200)
    whole = np.column_stack([np.ones(200), X])
    rest = y - whole @ np.linalg.lstsq(whole, y)[0]
    assert linear_share(X, y) == pytest.approx(1.0 - rest.var() / y.var())
    assert linear_share(1e300 * X, 1e-300 * y) == pytest.approx(linear_share(X, y))


def test_a_histogram_counts_every_value_in_round_ranges() -> None:
    found = histogram(np.random.default_rng(0).normal(100.0, 15.0, size=1000))
    assert found.counts.sum() == 1000
    assert found.labels[0] == "below 70"
    assert found.labels[1:3] == ("70 to 80", "80 to 90")
    lines = str(found).splitlines()
    assert len({len(line) for line in lines}) == 1


def cases(seed: int = 0, hours_per_unit: float = 24.0) -> pl.DataFrame:
    """Forty cases whose events come after waits of any length, with the time until the next."""
    rng = np.random.default_rng(seed)
    rows = []
    for case in range(40):
        waits = rng.exponential(5.0, size=6) * 24.0
        times = np.concatenate([[0.0], np.cumsum(waits)])
        for time, wait in zip(times, [*waits, 0.0], strict=True):
            begun = datetime(2025, 1, 1) + timedelta(hours=float(time))
            rows.append((case, begun, wait / hours_per_unit, time / 24.0, rng.normal()))
    names = ["case", "time", "wait", "days_so_far", "x"]
    return pl.DataFrame(rows, schema=names, orient="row")


@pytest.mark.parametrize("unit", [24.0, 1.0, -24.0], ids=["days", "hours", "days lost"])
def test_a_wait_for_the_next_row_on_a_clock_is_a_leak(unit: float) -> None:
    log = cases(hours_per_unit=unit).drop("days_so_far")
    options = {"episode": "case", "step": "time", "reward": "wait"}
    [caution] = Episodes.from_frame(log, every="1d", **options).look().cautions
    assert caution.kind == "wait"
    assert "'wait' looks" in str(caution)
    assert "every 1d" in str(caution)
    assert "--behavior NAME" in caution.told(as_option)
    assert "leave out --every" in caution.told(as_option)
    # Row by row it is no leak: the next row comes when the wait is over.
    rows = Episodes.from_frame(log.drop("time"), episode="case", step=None, reward="wait")
    assert not rows.look().cautions


def test_what_is_no_wait_is_no_leak_on_a_clock() -> None:
    log, rng = cases(), np.random.default_rng(1)
    options = {"episode": "case", "step": "time", "every": "1d"}
    kept = log.drop("wait", "days_so_far")
    earned = {
        "luck": rng.exponential(5.0, size=log.height),
        "one each": np.ones(log.height),
        "the wait before": log["wait"].shift(1).fill_null(0.0),
        "half of it by luck": log["wait"] * rng.uniform(0.2, 1.8, size=log.height),
    }
    for name, reward in earned.items():
        one = kept.with_columns(pl.Series("reward", reward))
        found = Episodes.from_frame(one, **options).look().cautions
        assert not [c for c in found if c.kind == "wait"], name


def test_the_remedy_for_a_wait_keeps_the_outcome_and_is_no_leak() -> None:
    log, options = cases(), {"episode": "case", "step": "time", "every": "1d"}
    leaking = Episodes.from_frame(log.drop("days_so_far"), reward="wait", **options)
    cured = Episodes.from_frame(log.drop("wait"), behavior="days_so_far", **options)
    assert np.allclose(cured.outcomes, leaking.outcomes)
    assert not cured.look().cautions
    # At a tick, no more has passed than the clock says; with the reward, whole waits to come.
    for t in (1, 4, 9):
        assert (cured.at(t).behavior <= t + 1e-9).all()
        assert (leaking.at(t).behavior > t + 1.0).mean() > 0.5
