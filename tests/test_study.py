"""A study: a monitor beside a classifier, on logs whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget._typing import FloatArray
from ontarget.errors import EpisodesError, FewEpisodesError, InputError
from ontarget.evaluation import Difference, corrected_difference
from ontarget.models import Marginal
from ontarget.study import (
    BASELINE,
    OURS,
    Rows,
    Study,
    boosted,
    filled,
    rows_of,
    standing_of,
    study,
)
from refusals import refuses

HORIZON = 4
TARGET = Target.at_least(0.0)


def known_walks(n: int, seed: int = 0) -> Episodes:
    """Every step earns the episode's drift, which the state shows, and standard normal noise."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(size=n)
    states = np.repeat(drift[:, None, None], HORIZON, axis=1)
    rewards = drift[:, None] + rng.normal(size=(n, HORIZON))
    ids = [f"{seed}-{i}" for i in range(n)]
    return Episodes.from_arrays(states, rewards, ids=ids, features=["drift"])


def truth(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """The true probability: what is still to come is normal."""
    left = HORIZON - asked.t
    return ndtr((asked.b + left * asked.X[:, 0]) / np.sqrt(left))


def mixed_log() -> Episodes:
    """A log with numbers, categories, gaps and runs of two lengths."""
    rng, n, steps = np.random.default_rng(0), 240, 6
    drift, kind = rng.normal(size=n), rng.integers(0, 3, size=n)
    gaps = np.where(rng.uniform(size=(n, steps)) < 0.1, np.nan, rng.normal(size=(n, steps)))
    rows = [
        (
            i,
            t,
            drift[i],
            "abc"[kind[i]],
            None if np.isnan(gaps[i, t]) else gaps[i, t],
            drift[i] * 0.5 + kind[i] * 0.4 - 0.4 + rng.normal(),
        )
        for i in range(n)
        for t in range(steps if i % 4 else steps - 2)
    ]
    names = ["episode", "step", "drift", "kind", "gap", "reward"]
    return Episodes.from_frame(pl.DataFrame(rows, schema=names, orient="row"))


def two_behaviors() -> Episodes:
    """A log judged by what was earned and by the energy spent."""
    rng, n = np.random.default_rng(3), 200
    x = rng.normal(size=n)
    rows = [
        (i, t, x[i], x[i] + rng.normal(), rng.exponential() * (1.2 if x[i] > 0 else 1))
        for i in range(n)
        for t in range(5)
    ]
    names = ["episode", "step", "x", "reward", "energy"]
    return Episodes.from_frame(
        pl.DataFrame(rows, schema=names, orient="row"),
        behavior={"return": "sum", "energy": "total:energy"},
    )


@cache
def bad() -> Study:
    """A monitor that looks at no feature, beside the classifier."""
    monitor = GoalMonitor(Marginal())
    return study(known_walks(450), TARGET, monitor=monitor, splits=3, progress=False)


def test_scores_and_differences_are_as_kept() -> None:
    found = study(mixed_log(), Target.at_least(0.0), splits=3, seed=5, progress=False).to_json()
    kept = {
        "ontarget": (0.1426374, 0.4275593),
        "boosted classifier": (0.1556276, 0.4787152),
        "the past's rate": (0.2500945, 0.6933356),
    }
    for method, (brier, log_loss) in kept.items():
        own = {"brier": brier, "log_loss": log_loss, "unanswered": 0.0}
        assert found["scores"][method] == pytest.approx(own, abs=1e-4)  # as libraries differ


@pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning")  # by luck of a split
def test_scores_of_a_goal_are_as_kept() -> None:
    goal = Goal({"return": Target.at_least(0.0), "energy": Target.at_most(6.0)})
    found = study(two_behaviors(), goal, splits=2, progress=False).to_json()["scores"]
    kept = {"ontarget": 0.0987, "boosted classifier": 0.1149}
    assert {name: found[name]["brier"] for name in kept} == pytest.approx(kept, abs=2e-4)


def test_a_planted_bad_monitor_loses() -> None:
    assert bad().standing() == "worse"
    assert "use the classifier" in bad().verdict


def test_a_good_monitor_does_not_beat_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ontarget.study.boosted", truth)
    found = study(known_walks(450), TARGET, splits=3, progress=False)
    assert found.standing() != "better"
    assert found.difference().value > 0.0
    assert found.standing(BASELINE) == "better"


def test_differences_are_those_of_the_splits_and_corrected() -> None:
    drawn = np.subtract(bad().scores[OURS]["brier"], bad().scores[BASELINE]["brier"])
    assert len(set(drawn)) == 3
    assert bad().difference(BASELINE) == corrected_difference(drawn, n_past=300, n_new=150)


def test_the_text_has_a_row_per_method_and_ends_with_the_verdict() -> None:
    lines = str(bad()).splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == list(bad().scores)
    assert lines[-1] == f"verdict    {bad().verdict}"


def test_a_study_by_group_gives_the_group_to_the_classifiers() -> None:
    n, rng = 400, np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], size=n)
    runs = Episodes.from_arrays(
        rng.normal(size=(n, 2, 1)),
        sign[:, None] + 0.5 * rng.normal(size=(n, 2)),
        groups=np.where(sign > 0, "up", "down"),
    )
    monitor = GoalMonitor(Marginal(), group="group")
    found = study(runs, TARGET, monitor=monitor, splits=2, progress=False)
    assert max(found.scores["boosted classifier"]["brier"]) < 0.02


@pytest.mark.parametrize(
    ("n", "target", "argument", "shown"),
    [
        (40, TARGET, None, 40),
        (80, Target.at_least(1000), "target", "0 of 80"),
        (80, Target.at_least(-1000), "target", "80 of 80"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    n: int, target: Target, argument: str | None, shown: object
) -> None:
    with refuses(FewEpisodesError, argument, shown):
        study(known_walks(n), target, progress=False)


def test_a_study_without_features_is_refused() -> None:
    walked = known_walks(100).to_frame().drop("drift")
    with refuses(EpisodesError, "features"):
        study(Episodes.from_frame(walked), TARGET, progress=False)


def test_one_split_is_refused_for_it_has_no_error() -> None:
    with refuses(InputError, "splits", 1):
        study(known_walks(100), TARGET, splits=1, progress=False)


def rows(t: list[int], met: list[bool]) -> Rows:
    n = len(t)
    nothing = np.empty((n, 0))
    return Rows(nothing, np.empty(0, bool), np.array(t), np.zeros(n), np.array(met), np.arange(n))


def test_unanswered_rows_count_as_the_pasts_rate_at_their_step() -> None:
    learn = rows([0, 0, 1, 1], [True, True, True, False])
    asked = rows([0, 1, 7], [True, True, True])
    of_all = 3.5 / 5  # one more run, which met the target half
    found = filled(np.array([0.3, np.nan, np.nan]), learn, asked)
    np.testing.assert_allclose(found, [0.3, (1 + of_all) / 3, of_all])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_an_unanswered_row_is_never_scored_as_certain(seen: list[tuple[int, bool]]) -> None:
    learn = rows([t for t, _ in seen], [met for _, met in seen])
    told = filled(np.full(3, np.nan), learn, rows([0, 2, 6], [True, False, True]))
    assert ((told > 0.0) & (told < 1.0)).all()


def test_a_standing_needs_a_difference_that_shows_and_none_that_contradicts_it() -> None:
    lower, higher = Difference(-0.2, 0.1, -0.3, -0.1), Difference(0.2, 0.1, 0.1, 0.3)
    unclear = Difference(0.1, 0.1, -0.1, 0.3)
    assert standing_of([higher, unclear]) == "worse"
    assert standing_of([lower, higher]) == "mixed"
    assert standing_of([unclear, unclear]) == "no difference shown"


def walked(n: int = 800, seed: int = 0) -> Rows:
    return rows_of(known_walks(n, seed), TARGET)


def test_the_classifier_comes_near_the_truth() -> None:
    learn, asked = walked(), walked(400, seed=1)
    off = np.abs(boosted(learn, asked) - truth(learn, asked)).mean()
    assert off < 0.06  # a coin is off by 0.4


def test_the_classifier_reads_categories_as_names() -> None:
    # The target depends on a category in no order that its numbers have.
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 20, size=4_000).astype(float)
    met = np.isin(kind, [1, 4, 6, 11, 12, 17])
    n, code = kind.size, 1000.0 - 37.0 * kind
    t, b, episode = np.zeros(n, dtype=int), np.zeros(n), np.arange(n)
    made = Rows(code[:, None], np.array([True]), t, b, met, episode)
    p = boosted(made.take(slice(3_000)), made.take(slice(3_000, n)))
    assert np.abs(p - met[3_000:]).mean() < 0.1  # always saying the rate is off by 0.42


def test_the_classifier_takes_many_and_unseen_categories_and_empty_columns() -> None:
    learn, asked = walked(600), walked(100, seed=1)
    rng = np.random.default_rng(0)

    def wide(part: Rows, names: int) -> Rows:
        more = rng.integers(0, names, size=len(part)).astype(float)
        X = np.column_stack([part.X, more, np.full(len(part), np.nan)])
        return replace(part, X=X, categorical=np.array([False, True, False]))

    p = boosted(wide(learn, 1_000), wide(asked, 2_000))
    assert np.abs(p - truth(learn, asked)).mean() < 0.12


def test_a_past_of_one_kind_gives_its_rate() -> None:
    learn = walked(100)
    always = replace(learn, met=np.ones_like(learn.met))
    assert boosted(always, learn) == pytest.approx(101 / 102)


def test_boosting_stops_where_held_out_episodes_are_forecast_best() -> None:
    # Pure noise: more trees only learn it by heart.
    learn = walked(200)
    rng = np.random.default_rng(0)
    noise = replace(learn, X=rng.normal(size=(len(learn), 5)), categorical=np.zeros(5, bool))
    met = (rng.uniform(size=200) < 0.5)[learn.episode]
    p = boosted(replace(noise, met=met, b=np.zeros(len(learn))), noise)
    assert p.std() < 0.1


def log() -> Episodes:
    return Episodes.from_frame(
        pl.DataFrame(
            {
                "episode": ["a", "a", "b", "b", "b"],
                "step": [0, 1, 0, 1, 2],
                "reward": [0.1, 0.2, 0.1, 0.1, 0.1],
                "speed": [1.0, None, 3.0, 4.0, 5.0],
                "mode": ["on", "off", "on", "on", "on"],
                "group": ["x", "x", "y", "y", "y"],
            }
        )
    )


def test_rows_hold_what_is_known_before_acting_and_how_the_episode_ended() -> None:
    rows = rows_of(log(), Target(0.3, 0.3))  # decimals meet their bounds
    assert rows.t.tolist() == [0, 0, 1, 1, 2]
    assert rows.episode.tolist() == [0, 1, 0, 1, 1]
    assert np.allclose(rows.b, [0.0, 0.0, 0.1, 0.1, 0.2])
    assert rows.met.all()
    assert rows.categorical.tolist() == [False, True]
    assert np.array_equal(rows.X[:, 0], [1.0, 3.0, np.nan, 4.0, 5.0], equal_nan=True)
    assert (len(rows), rows.n_episodes) == (5, 2)
    assert not rows_of(log(), Target.at_least(0.4)).met.any()


def test_a_group_becomes_a_category_of_the_classifier() -> None:
    rows = rows_of(
        log(), Target.at_least(0.0), groups=np.array(["x", "y", "z"], log().groups.dtype)
    )
    assert rows.categorical.tolist() == [False, True, True]
    assert rows.X[:, 2].tolist() == [0.0, 1.0, 0.0, 1.0, 1.0]


def test_json_has_all_numbers_and_no_nan() -> None:
    found = json.loads(json.dumps(bad().to_json(), allow_nan=False))
    assert set(found) == {
        "target", "splits", "past", "new", "level", "scores", "differences", "standing", "verdict",
    }  # fmt: skip
    assert list(found["differences"]) == list(found["standing"]) == list(found["scores"])[1:]
    assert (found["splits"], found["past"], found["new"]) == (3, 300, 150)
