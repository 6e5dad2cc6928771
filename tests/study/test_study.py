from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import EpisodesError, FewEpisodesError, InputError
from ontarget.evaluation import corrected_difference
from ontarget.models import Marginal
from ontarget.study import Standing, Study, expected_seconds, run_study, study_beside
from tests.walks import walks

from .known_walks import TARGET, coin, known_walks, truth


@cache
def good() -> Study:
    """The default monitor beside the truth and beside a coin."""
    rivals = {"truth": truth, "coin": coin}
    return run_study(known_walks(450), TARGET, splits=3, rivals=rivals, progress=False)


@cache
def bad() -> Study:
    """A monitor that looks at no feature, beside the classifiers."""
    monitor = GoalMonitor(Marginal())
    return run_study(known_walks(450), TARGET, monitor=monitor, splits=3, progress=False)


def test_a_planted_bad_monitor_loses_with_the_right_words() -> None:
    for verdict in bad().verdicts:
        assert verdict.standing is Standing.WORSE
        text = str(verdict)
        assert text.startswith(f"the {verdict.rival} is better: Brier score lower by 0.")
        assert "use that classifier" in text
    assert "most of the difference comes from steps 0 to 1" in bad().verdicts[0].advice


def test_a_good_monitor_beats_a_coin_and_does_not_beat_the_truth() -> None:
    beside_truth, beside_coin = good().verdicts
    assert beside_coin.standing is Standing.BETTER
    assert beside_coin.reason.startswith("better than the coin: Brier score lower by 0.")
    assert not beside_coin.advice
    assert beside_truth.standing is not Standing.BETTER
    assert good().scores("truth").brier < good().scores("ontarget").brier


def test_differences_are_those_of_the_splits_and_corrected() -> None:
    found = good()
    drawn = [t.scores["ontarget"].brier - t.scores["coin"].brier for t in found.trials]
    assert len(set(drawn)) == 3
    by_hand = corrected_difference(drawn, n_past=300, n_new=150)
    assert found.difference("coin") == by_hand
    assert found.difference("coin", "log_loss").value < 0.0
    with pytest.raises(InputError, match="one of truth, coin"):
        found.difference("nobody")


def test_all_methods_are_asked_the_same_rows_of_whole_episodes() -> None:
    for trial in good().trials:
        assert (trial.n_past, trial.n_new) == (300, 150)
        assert {p.size for p in trial.p.values()} == {4 * 150}
        assert np.isfinite(list(trial.p.values())).all()
        assert (np.bincount(trial.episode) == 4).all()
    assert set(good().trials[0].ids) != set(good().trials[1].ids)


def test_by_step_scores_average_to_the_whole() -> None:
    found = good()
    by_step, counts = found.brier_by_step("ontarget"), found.forecasts_by_step
    assert counts.tolist() == [450] * 4
    assert by_step.mean() == pytest.approx(found.scores("ontarget").brier)
    assert by_step[0] > by_step[-1]  # later, more is known


def test_the_same_seed_gives_the_same_study() -> None:
    found = run_study(
        known_walks(450), TARGET, splits=3, rivals={"truth": truth, "coin": coin}, progress=False
    )
    assert found.to_json() == good().to_json()


def test_an_episode_that_several_splits_ask_about_counts_once() -> None:
    found = good().reliability("coin", bins=1)
    n = np.unique(np.concatenate([trial.ids for trial in good().trials])).size
    # A single bin of n episodes: the interval is as wide as n trials make it, not 12 times as many.
    assert found.high[0] - found.low[0] > 2 * 1.9 * np.sqrt(0.25 / n)


def test_json_has_all_numbers_and_no_nan() -> None:
    found = json.loads(json.dumps(bad().to_json(), allow_nan=False))
    assert found.keys() == {
        "target", "splits", "past", "new", "level", "scores", "differences", "brier_by_step",
        "verdicts",
    }  # fmt: skip
    methods = ["ontarget", "boosted classifier", "logistic regression", "the past's rate"]
    assert list(found["scores"]) == methods
    assert found["scores"]["ontarget"].keys() == {
        "brier", "log_loss", "ece", "ece_by_step", "sharpness", "unanswered",
    }  # fmt: skip
    assert list(found["differences"]) == methods[1:]
    for each in found["differences"].values():
        assert each["brier"].keys() == {"value", "error", "low", "high"}
    assert found["verdicts"]["boosted classifier"]["standing"] == "worse"
    assert found["verdicts"]["boosted classifier"].keys() == {
        "rival", "standing", "reason", "advice",
    }  # fmt: skip
    assert len(found["brier_by_step"]["ontarget"]) == 4


def test_the_summary_has_a_row_per_method_and_a_sentence_per_rival() -> None:
    lines = bad().summary().splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == list(bad().methods)
    assert [line.startswith("beside     the ") for line in lines[6:]] == [True, True]
    assert "2 × " not in repr(bad())
    assert "3 × 300 past and 150 new" in repr(bad())


def test_the_figure_names_every_method_once() -> None:
    figure = good().figure()
    left, right = figure.axes
    names = [text.get_text().split(":")[0] for text in figure.legends[0].get_texts()]
    assert names == list(good().methods)
    shown = right.lines[0].get_ydata()
    assert np.allclose(shown, good().brier_by_step("ontarget"))
    assert len(left.containers) == 3


def test_beside_an_evaluation_the_rivals_learn_from_the_past_alone() -> None:
    past, new = known_walks(300), known_walks(200, seed=1)
    found = GoalMonitor().fit(past, progress=False).evaluate(new, TARGET, resamples=2)
    study = study_beside(found, past, rivals={"truth": truth, "coin": coin})
    assert (study.n_past, study.n_new, len(study.trials)) == (300, 200, 1)
    assert study.scores("ontarget").brier == pytest.approx(found.brier().value)
    assert [one.standing for one in study.verdicts][1] is Standing.BETTER
    assert study.to_json()["differences"]["coin"]["ece"]["low"] is None  # one split cannot tell
    with pytest.raises(EpisodesError, match="200 of the 200 evaluated episodes are also past"):
        study_beside(found, new)


def test_a_study_by_group_gives_the_group_to_the_classifiers() -> None:
    n, rng = 400, np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], size=n)
    runs = Episodes.from_arrays(
        rng.normal(size=(n, 2, 1)),
        sign[:, None] + 0.5 * rng.normal(size=(n, 2)),
        groups=np.where(sign > 0, "up", "down"),
    )
    monitor = GoalMonitor(Marginal(), group="group")
    found = run_study(runs, TARGET, monitor=monitor, splits=2, progress=False)
    assert found.scores("boosted classifier").brier < 0.02


@pytest.mark.parametrize(
    ("n", "target", "message"),
    [
        (40, TARGET, "at least 60 episodes, got 40; record more"),
        (80, Target.at_least(1000), r"none of the 80 episodes met the target .* outcomes are -"),
        (80, Target.at_least(-1000), "none of the 80 episodes missed the target"),
        (80, Target.at_least(7.0), r"only \d of the 80 episodes met .* choose a target in between"),
    ],
)
def test_what_cannot_be_compared_is_refused(n: int, target: Target, message: str) -> None:
    with pytest.raises(FewEpisodesError, match=message):
        run_study(known_walks(n), target, progress=False)


def test_a_study_without_features_is_refused() -> None:
    walked = known_walks(100).to_frame().drop("drift")
    with pytest.raises(EpisodesError, match=r"no feature, so no method .* features=NAMES"):
        run_study(Episodes.from_frame(walked), TARGET, progress=False)


def test_one_split_is_refused_for_it_has_no_error() -> None:
    with pytest.raises(InputError, match="`splits` needs a whole number from 2 up, got 1"):
        run_study(known_walks(100), TARGET, splits=1, progress=False)


def test_a_longer_study_is_expected_to_take_longer() -> None:
    few, many = walks(50), walks(500)
    assert 0.0 < expected_seconds(few) < expected_seconds(many)
    assert expected_seconds(few, splits=10) == 2 * expected_seconds(few, splits=5)
