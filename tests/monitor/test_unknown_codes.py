"""Numbers that stand for no known category: one rule, live and in batch, for every answer."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.linear_model import QuantileRegressor

from ontarget import Episodes, Goal, GoalMonitor, Status, Target
from ontarget.episodes import Feature, PaperSplit, Schema
from ontarget.errors import CategoryError, EpisodesError
from ontarget.models import QuantileForest, RegressorQuantiles
from refusals import refuses

TARGET = Target.at_least(0.0)
MODES, GEARS = ("a", "b", "c"), (1, 2, 5)
CODES = st.one_of(
    st.floats(),
    st.integers(-5, 8).map(float),
    st.sampled_from([-1.0, -0.0, 1.5, 3.0, 1e300, 2.0**63, math.inf, -math.inf, math.nan]),
)


def frame(n: int, *, seed: int = 1, mode: object = None, gear: object = None) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    modes, gears = rng.choice(MODES, n).tolist(), rng.choice(GEARS, n).tolist()
    if mode is not None:
        modes[0] = modes[1] = mode
    if gear is not None:
        gears[0] = gears[1] = gear
    push = np.array([{"a": -1.0, "b": 0.0, "c": 1.0}.get(one, 0.0) for one in modes])
    return pl.DataFrame(
        {
            "episode": np.repeat([f"{seed}-{i}" for i in range(n)], 3),
            "step": np.tile([0, 1, 2], n),
            "speed": rng.normal(size=3 * n),
            "mode": np.repeat(np.array(modes), 3).tolist(),
            "gear": np.repeat(np.array(gears), 3),
            "reward": rng.normal(size=3 * n) + np.repeat(push, 3),
        }
    )


def runs(n: int = 240, *, like: object = None, **more: object) -> Episodes:
    return Episodes.from_frame(frame(n, **more), categorical=() if like else ["gear"], like=like)


@cache
def monitor(*, forest: bool = False, history: int = 0) -> GoalMonitor:
    model = QuantileForest(n_trees=5) if forest else None
    return GoalMonitor(model, history=history).fit(runs(), progress=False)


@cache
def goals() -> GoalMonitor:
    table = frame(240).with_columns(cost=pl.col("speed").abs())
    several = {"return": "sum", "cost": "sum:cost"}
    recorded = Episodes.from_frame(table, categorical=["gear"], behavior=several)
    return GoalMonitor(QuantileForest(n_trees=5)).fit(recorded, progress=False)


def known(code: float, of: int) -> bool:
    return code in (set(range(len(MODES))), set(GEARS))[of]


@given(mode=CODES, gear=CODES)
@example(mode=-1.0, gear=3.0)
@example(mode=1.5, gear=1.5)
@example(mode=math.inf, gear=-1.0)
@pytest.mark.parametrize("history", [0, 1])
def test_an_unknown_code_is_answered_live_and_in_batch_as_a_missing_one(
    mode: float, gear: float, history: int
) -> None:
    made = monitor(forest=bool(history), history=history)
    row = np.array([0.3, mode, gear])
    gaps = np.array([0.3] + [v if known(v, k) else math.nan for k, v in enumerate((mode, gear))])
    how = {"alarm_below": 0.5, "calibration": "common"}
    watch, same = made.watch(TARGET, **how), made.watch(TARGET, **how)
    fleet, sessions = made.fleet(TARGET, agents=["a", "b"], **how), made.sessions(TARGET, **how)
    for _ in range(2):
        wanted = same.step(gaps)
        live = watch.step(row)
        assert live.known
        assert live == wanted
        listed = sessions.step("a", row.tolist())
        assert listed == wanted
        assert fleet.step(np.array([row, gaps])).p.tolist() == [wanted.p] * 2
    if not history:
        batch = made.outlook(1, np.array([row, gaps]), 0.0, TARGET, calibration="common")
        assert batch.p.tolist() == [wanted.p] * 2
    strange = {
        name
        for k, (name, v) in enumerate([("mode", mode), ("gear", gear)])
        if not known(v, k) and v == v
    }
    assert set(made.fitted.schema.unseen_in(row.tolist())) == strange


@given(before=CODES, now=CODES)
@example(before=0.0, now=-1.0)
@example(before=1.5, now=2.0)
@example(before=1e300, now=1.0)
def test_an_explanation_never_shows_an_unknown_code_as_a_category(
    before: float, now: float
) -> None:
    made = monitor(forest=True)
    watch = made.watch(TARGET, alarm_below=0.5)
    watch.step(np.array([0.1, before, 1.0]))
    watch.step(np.array([0.2, now, 1.0]))
    asked = made.explain(1, [0.2, now, 1.0], 0.0, TARGET, before=([0.1, before, 1.0], 0.0))
    goal = goals().watch(Goal.parse("return >= 0 & cost <= 3"), alarm_below=0.5)
    goal.step(np.array([0.1, before, 1.0]), {"reward": 0.0, "cost": 0.0})
    goal.step(np.array([0.2, now, 1.0]), {"reward": 0.0, "cost": 0.1})
    for why in (watch.explain(), asked, goal.explain()):
        json.dumps(why.to_dict())
        assert str(why)
        told = {one.cause: (one.before, one.now) for one in why.contributions}
        alike = [v if known(v, 0) else None for v in (before, now)]
        assert ("mode" in told) == (alike[0] != alike[1])
        for code, shown in zip((before, now), told.get("mode", ()), strict=False):
            if known(code, 0):
                assert shown == MODES[int(code)]
            else:
                assert shown not in MODES
                assert (shown == "missing") == math.isnan(code)


@pytest.mark.parametrize("mode", ["Wait", "a\x1b[2J", "x" * 500])
def test_an_explanation_names_an_unknown_text(mode: str) -> None:
    watch = monitor(forest=True).watch(TARGET, alarm_below=0.5)
    watch.step({"speed": 0.1, "mode": "a", "gear": 1})
    watch.step({"speed": 0.1, "mode": mode, "gear": 1})
    shown = {one.cause: one.now for one in watch.explain().contributions}["mode"]
    assert mode[:20] in shown
    assert shown not in MODES
    assert "\x1b" not in str(watch.explain())


def test_numbers_without_names_are_codes_also_where_one_is_missing() -> None:
    schema = monitor().schema
    assert schema.encode([0.5, 1, 2]).tolist() == [0.5, 1.0, 2.0]
    assert np.array_equal(schema.encode([0.5, None, 2]), [0.5, math.nan, 2.0], equal_nan=True)
    mixed = Schema((Feature("lane", "text", ("x", "y")), *schema.features))
    assert np.array_equal(mixed.encode([None, 0.5, 1, 2]), [math.nan, 0.5, 1, 2], equal_nan=True)
    assert math.isnan(schema.encode(np.array([0.5, -1, 2], dtype=object))[1])
    named = schema.encode({"speed": 0.5, "mode": 1, "gear": 2})
    assert math.isnan(named[1])  # by name, it is the text "1"


def test_unknown_numbers_are_counted_and_named_by_column() -> None:
    made = monitor(forest=True)
    own = runs(60, seed=2, mode="Wait", gear=9)
    for episodes in (own, runs(60, seed=2, mode="Wait", gear=9, like=made)):
        found = made.evaluate(episodes, TARGET, resamples=2)
        assert found.episodes.unseen == 12
        assert {one.feature: one.values for one in found.episodes.strangers} == {
            "mode": (("Wait", 6),),
            "gear": (("9", 6),),
        }
        gaps = frame(60, seed=2, mode="Wait", gear=9).with_columns(
            mode=pl.col("mode").replace("Wait", None), gear=pl.col("gear").replace(9, None)
        )
        missing = made.evaluate(Episodes.from_frame(gaps, like=made), TARGET, resamples=2)
        assert np.array_equal(found.p, missing.p, equal_nan=True)


def test_a_million_different_values_leave_a_few_names() -> None:
    made = monitor(forest=True)
    table = frame(20_000, seed=3).with_columns(mode=pl.int_range(60_000).cast(pl.String))
    found = Episodes.from_frame(table, like=made).strangers
    assert [one.readings for one in found] == [60_000]
    assert len(found[0].values) < 10
    assert len(found[0].in_words) < 300


def test_unknown_numbers_are_refused_where_they_are_errors() -> None:
    strict = GoalMonitor(QuantileForest(n_trees=3), unseen="error").fit(runs(), progress=False)
    for row in ([0.1, -1.0, 1.0], [0.1, 1.5, 1.0], [0.1, 0.0, 3.0]):
        outlook = strict.watch(TARGET, alarm_below=0.5).step(np.array(row))
        assert outlook.status is Status.UNKNOWN
        listed = strict.sessions(TARGET, alarm_below=0.5).step("a", row)
        assert (listed.status, listed.reason) == (outlook.status, outlook.reason)
        batch = strict.outlook(0, [row, [0.1, 0.0, 1.0]], 0.0, TARGET)
        assert [math.isnan(p) for p in batch.p] == [True, False]
        agents = strict.fleet(TARGET, agents=["a"], alarm_below=0.5).step(np.array([row]))
        assert agents.status[0] == Status.UNKNOWN
    with pytest.raises(CategoryError):
        strict.evaluate(runs(60, seed=2, gear=9), TARGET)
    with pytest.raises(CategoryError):
        runs(60, seed=2, gear=9, like=strict)
    odd = pl.concat([frame(100), frame(200, seed=2).with_columns(gear=pl.lit(9, pl.Int64))])
    parts = Episodes.from_frame(odd, categorical=["gear"])
    split = PaperSplit(*(parts.take(np.arange(k, k + 100)) for k in (0, 100, 200)), None)
    with pytest.raises(CategoryError):
        GoalMonitor(RegressorQuantiles(QuantileRegressor())).fit(split=split, progress=False)


def test_known_numbers_are_kept_in_the_model_file(tmp_path) -> None:
    made = monitor(forest=True)
    made.save(tmp_path / "m.ontarget")
    again = GoalMonitor.load(tmp_path / "m.ontarget")
    assert again.schema == made.schema
    assert again.schema.features[2].known == (1.0, 2.0, 5.0)
    assert Schema.from_json(made.schema.to_json()) == made.schema


@pytest.mark.parametrize("known", [(2.0, 1.0), (math.nan,), (math.inf,), (1.0, 1.0)])
def test_known_numbers_are_ascending(known: tuple[float, ...]) -> None:
    with refuses(EpisodesError, None, "'gear'"):
        Feature("gear", categorical=True, known=known)


def test_a_state_as_numbers_lacks_a_category_where_it_is_missing_or_unknown() -> None:
    schema = Schema((Feature("x"), Feature("mode", "text", categories=MODES, unseen="missing")))
    for code, lacks in ((0.0, False), (2.0, False), (-1.0, True), (1.5, True), (math.nan, True)):
        row = np.array([0.5, code])
        assert schema.lacks_category(row) is lacks
        expected = [0.5, math.nan if lacks else code]
        np.testing.assert_array_equal(schema.settled_row(row), expected)
