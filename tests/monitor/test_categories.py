from __future__ import annotations

import math

import numpy as np
import polars as pl
from sklearn.linear_model import QuantileRegressor

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget.errors import CategoryError, InputError
from ontarget.models import Marginal, QuantileForest, RegressorQuantiles
from refusals import refuses

MODEL = QuantileForest(n_trees=3)
TARGET = Target.at_least(0.0)


def runs(modes: list[str | None], *, seed: int, like: object = None) -> Episodes:
    rng = np.random.default_rng(seed)
    n = len(modes)
    frame = pl.DataFrame(
        {
            "episode": np.repeat([f"{seed}-{i}" for i in range(n)], 2),
            "step": np.tile([0, 1], n),
            "mode": np.repeat(np.array(modes, dtype=object), 2).tolist(),
            "reward": rng.normal(size=2 * n),
        }
    )
    return Episodes.from_frame(frame, like=like)


def split_with_one_odd_run_in_each_part():
    recorded = runs(["b", "c"] * 60 + ["train", "a", "calibrate", "assure"], seed=1)
    index = np.arange(124)
    parts = [index[:40], index[40:80], index[80:120]]
    train, calibrate, assure = (np.append(part, 120 + k) for k, part in enumerate(parts))
    assure = np.append(assure, 123)
    take = recorded.take
    from ontarget.episodes import PaperSplit

    return PaperSplit(take(train), take(calibrate), take(assure), None), recorded


def test_the_dictionary_is_that_of_the_training_episodes_alone() -> None:
    split, _ = split_with_one_odd_run_in_each_part()
    monitor = GoalMonitor(MODEL).fit(split=split, progress=False)
    assert monitor.schema.features[0].categories == ("b", "c", "train")
    assert monitor.fitted.assure.unseen == 4
    assert monitor.fitted.counts.tolist() == [[41], [41]]


def test_an_unseen_category_is_answered_alike_live_in_batch_and_from_a_file(tmp_path) -> None:
    split, _ = split_with_one_odd_run_in_each_part()
    monitor = GoalMonitor(MODEL).fit(split=split, progress=False)
    monitor.save(tmp_path / "m.ontarget")
    new = runs(["b", "never", None], seed=2, like=monitor)
    assert new.unseen == 2
    assert "unseen     2 readings" in new.describe()
    batch = monitor.outlook(0, new.at(0).states, 0.0, TARGET)
    assert batch.p[1] == batch.p[2]
    for one in (monitor, GoalMonitor.load(tmp_path / "m.ontarget")):
        watch = one.watch(TARGET, alarm_below=0.9)
        for i, mode in enumerate(["b", "never", None]):
            watch.reset()
            assert watch.step({"mode": mode}).p == batch.p[i]
    own = runs(["b", "never", None], seed=2)
    assert np.array_equal(monitor.evaluate(own, TARGET).p[0], batch.p)


def test_a_live_answer_names_the_categories_that_count_as_missing() -> None:
    split, _ = split_with_one_odd_run_in_each_part()
    sessions = GoalMonitor(MODEL).fit(split=split, progress=False).sessions(TARGET)
    answers = [sessions.answer({"agent": m, "state": {"mode": m}}) for m in ("b", "never")]
    assert [one.get("unseen") for one in answers] == [None, {"mode": "never"}]
    assert answers[1]["p"] is not None
    assert "unseen" not in sessions.answer({"agent": "c", "state": {"other": "never"}})


def test_unseen_categories_are_refused_where_they_are_errors() -> None:
    split, _ = split_with_one_odd_run_in_each_part()
    linear = RegressorQuantiles(QuantileRegressor(alpha=0.0))  # which takes no missing values
    for monitor in (GoalMonitor(MODEL, unseen="error"), GoalMonitor(linear)):
        with refuses(CategoryError, None, "'mode'", "unseen='missing'"):
            monitor.fit(split=split, progress=False)
    strict = GoalMonitor(Marginal(), unseen="error").fit(runs(["b"] * 200, seed=3), progress=False)
    outlook = strict.watch(TARGET, alarm_below=0.9).step({"mode": "never"})
    assert outlook.status is Status.UNKNOWN
    assert math.isnan(outlook.p)
    with refuses(InputError, "unseen", "'guess'", "'missing'", "'error'"):
        GoalMonitor(unseen="guess")
