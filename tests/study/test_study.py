from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.errors import EpisodesError, FewEpisodesError, InputError
from ontarget.evaluation import Difference, corrected_difference
from ontarget.models import Marginal
from ontarget.study import Study, comparison, study
from ontarget.study._rows import Rows
from ontarget.study.comparison import filled, standing_of
from refusals import refuses

from .known_walks import TARGET, coin, known_walks, truth


@pytest.fixture(scope="module")
def good() -> Study:
    """The default monitor beside the truth and beside a coin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "RIVALS", {"truth": truth, "coin": coin})
        return study(known_walks(450), TARGET, splits=3, progress=False)


@pytest.fixture(scope="module")
def bad() -> Study:
    """A monitor that looks at no feature, beside the classifiers."""
    monitor = GoalMonitor(Marginal())
    return study(known_walks(450), TARGET, monitor=monitor, splits=3, progress=False)


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


def test_scores_and_differences_are_as_kept() -> None:
    found = study(mixed_log(), Target.at_least(0.0), splits=3, seed=5, progress=False).to_json()
    kept = {
        "ontarget": (0.1405229, 0.4252183),
        "boosted classifier": (0.1556276, 0.4787152),
        "logistic regression": (0.1434324, 0.4336485),
        "the past's rate": (0.2500945, 0.6933356),
    }
    for method, (brier, log_loss) in kept.items():
        own = {"brier": brier, "log_loss": log_loss, "unanswered": 0.0}
        assert found["scores"][method] == pytest.approx(own, abs=1e-4)  # as libraries differ
    assert found["differences"]["logistic regression"]["brier"] == pytest.approx(
        {"value": -0.0029095, "error": 0.0071674, "low": -0.0337482, "high": 0.0279292}, abs=1e-4
    )


def test_scores_of_a_goal_are_as_kept() -> None:
    goal = Goal({"return": Target.at_least(0.0), "energy": Target.at_most(6.0)})
    found = study(two_behaviors(), goal, splits=2, progress=False).to_json()["scores"]
    kept = {"ontarget": 0.0988, "boosted classifier": 0.1149, "logistic regression": 0.0923}
    assert {name: found[name]["brier"] for name in kept} == pytest.approx(kept, abs=2e-4)


def test_a_planted_bad_monitor_loses(bad: Study) -> None:
    assert bad.standing("boosted classifier") == bad.standing("logistic regression") == "worse"
    both = "the boosted classifier and the logistic regression"
    assert bad.verdict.startswith(f"ontarget is worse than {both}; ")
    assert bad.verdict.endswith("use the classifier")


def test_a_good_monitor_beats_a_coin_and_does_not_beat_the_truth(good: Study) -> None:
    assert good.standing("coin") == "better"
    assert good.standing("truth") != "better"
    assert good.difference("truth").value > 0.0


def test_differences_are_those_of_the_splits_and_corrected(good: Study) -> None:
    ours, theirs = good.scores["ontarget"]["brier"], good.scores["coin"]["brier"]
    drawn = np.subtract(ours, theirs)
    assert len(set(drawn)) == 3
    assert good.difference("coin") == corrected_difference(drawn, n_past=300, n_new=150)
    assert good.difference("coin", "log_loss").value < 0.0


def test_the_same_seed_gives_the_same_study(bad: Study) -> None:
    monitor = GoalMonitor(Marginal())
    again = study(known_walks(450), TARGET, monitor=monitor, splits=3, progress=False)
    assert again == bad


def test_json_has_all_numbers_and_no_nan(bad: Study) -> None:
    found = json.loads(json.dumps(bad.to_json(), allow_nan=False))
    assert found.keys() == {
        "target", "splits", "past", "new", "level", "scores", "differences", "standing", "verdict",
    }  # fmt: skip
    methods = ["ontarget", "boosted classifier", "logistic regression", "the past's rate"]
    assert list(found["scores"]) == methods
    assert list(found["differences"]) == list(found["standing"]) == methods[1:]
    for each in found["differences"].values():
        assert each["brier"].keys() == {"value", "error", "low", "high"}
    assert (found["splits"], found["past"], found["new"]) == (3, 300, 150)


def test_the_text_has_a_row_per_method_and_ends_with_the_verdict(bad: Study) -> None:
    lines = str(bad).splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == list(bad.scores)
    assert lines[-1] == f"verdict    {bad.verdict}"
    assert max(map(len, lines[:5])) <= 80


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
