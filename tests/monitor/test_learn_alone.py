"""What p depends on comes from the learn episodes alone, whatever the assure episodes are (M16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.episodes import PaperSplit, Split
from ontarget.fitted.paths.bands import PathBands
from ontarget.live.answering import answer_episodes
from ontarget.modelfile.container import Container
from ontarget.models import QuantileForest

# Here the assure episodes may differ from all others, of which a fit warns.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning"),
    pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning"),
]

TARGET = Target.at_least(0.0)
HELD_OUT = 1_000  # the first id of an episode that is not learned from
# What the assure episodes decide: promises, and what the file says about these episodes.
PROMISED = {"assure", "ranks", "episodes", "sizes"}


def log(n: int, first: int, seed: int, *, steps: int = 6, kinds: str = "ab", scale: float = 1.0):
    """n runs of 2 to ``steps`` steps; a few are flagged as cut off, most of these at the last."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(first, first + n):
        length, kind = int(rng.integers(2, steps + 1)), rng.choice(list(kinds))
        cut = rng.random() < (0.5 if length == steps else 0.1)
        for t in range(length):
            reward = round(float(np.clip(rng.normal(), -3, 3)) * scale, 3)
            last = cut and t == length - 1
            rows.append((i, t, float(rng.normal()), kind, "uv"[i % 2], reward, last))
    names = ["episode", "step", "x", "kind", "side", "reward", "truncated"]
    return pl.DataFrame(rows, schema=names, orient="row")


LEARN = log(120, 0, 0)
CALIBRATE = log(60, HELD_OUT // 2, 1, steps=8)


def divided(table: pl.DataFrame, options: dict[str, Any], *, paper: bool = False) -> Any:
    """A split that keeps `LEARN` (and `CALIBRATE`), and holds the other runs out."""
    fixed = pl.concat([LEARN, CALIBRATE]) if paper else LEARN
    whole = Episodes.from_frame(pl.concat([fixed, table]), **options)
    ids = whole.ids
    learn, assure = whole.take(ids < HELD_OUT // 2), whole.take(ids >= HELD_OUT)
    if paper:
        middle = (ids >= HELD_OUT // 2) & (ids < HELD_OUT)
        return PaperSplit(learn, whole.take(middle), assure, None)
    return Split(learn, assure, None)


def learned(monitor: GoalMonitor, folder: Path, *, paper: bool = False) -> dict[str, Any]:
    """Everything in the model file that does not come from the assure episodes."""
    monitor.save(folder / "model.ontarget")
    file = Container.open(folder / "model.ontarget", copy=True)
    promised = PROMISED - {"ranks"} if paper else PROMISED
    arrays = {one: file.section(one) for one in file.sections if one.split("/")[-1] not in promised}
    found = {f"{a}/{b}": one.tobytes() for a, own in arrays.items() for b, one in own.items()}
    return found | {name: one for name, one in file.header.items() if name not in promised}


PLAIN = {"truncated": None, "group": None, "features": ["x", "kind"]}
SETTINGS = {
    "sum": (PLAIN, {}),
    "max": (PLAIN | {"behavior": "max"}, {}),
    "mean": (PLAIN | {"behavior": "mean"}, {}),
    "history": (PLAIN, {"history": 2}),
    "groups": (PLAIN | {"group": "side"}, {"group": "side", "min_calibration": 5}),
    "cut off": (PLAIN | {"truncated": "truncated", "censored": "worst-case"}, {}),
    "one model per step": (PLAIN, {"steps_per_model": 1}),
    "default model": (PLAIN, {"model": None}),
}
OTHERS = {
    "longer": {"steps": 13},
    "shorter": {"steps": 3},
    "other kinds": {"kinds": "bcde"},
    "all at once": {"steps": 9, "kinds": "xyz"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_other_assure_episodes_change_nothing_that_is_learned(setting, tmp_path) -> None:
    options, parameters = SETTINGS[setting]
    parameters = {"model": QuantileForest(n_trees=8), **parameters}

    def fitted(table: pl.DataFrame) -> dict[str, Any]:
        monitor = GoalMonitor(**parameters).fit(split=divided(table, options), progress=False)
        return learned(monitor, tmp_path)

    expected = fitted(log(60, HELD_OUT, 7))
    for number, other in enumerate(OTHERS.values()):
        assert fitted(log(60, HELD_OUT, 8 + number, **other)) == expected, other


def test_with_the_papers_split_assure_episodes_change_no_answer(tmp_path) -> None:
    found = []
    for other in ({}, *OTHERS.values()):
        split = divided(log(60, HELD_OUT, 7, **other), PLAIN, paper=True)
        monitor = GoalMonitor(QuantileForest(n_trees=8), preset="paper")
        found.append(learned(monitor.fit(split=split, progress=False), tmp_path, paper=True))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(("seed", "steps", "scale"), [(1, 15, 1.0), (2, 2, 1e-3), (3, 7, 1e6)])
def test_p_is_the_same_bit_for_bit_whatever_the_assure_episodes_are(seed, steps, scale) -> None:
    own = Episodes.from_frame(LEARN, **PLAIN)
    states = np.linspace(-2, 2, 9)[:, None] * [1.0, 0.0]
    answers = []
    for table in (log(60, HELD_OUT, 7), log(60, HELD_OUT, seed, steps=steps, scale=scale)):
        split = Split(own, Episodes.from_frame(table, **PLAIN), None)
        monitor = GoalMonitor(QuantileForest(n_trees=8)).fit(split=split, progress=False)
        watch = monitor.watch(TARGET, alarm_below=0.2)
        live = [watch.step(states[t], 0.1 * (t > 0)).p for t in range(6)]
        asked = [monitor.outlook(t, states, 0.3, TARGET).p for t in range(6)]
        answers.append(np.concatenate([live, *asked]))
    assert np.array_equal(*answers, equal_nan=True)
    assert np.isfinite(answers[0]).mean() > 0.8


def test_p_of_a_goal_is_the_same_too() -> None:
    goal, found = Goal(total=TARGET, top=Target.at_most(2.0)), []
    for other in ({}, *OTHERS.values()):
        table = log(60, HELD_OUT, 7, **other)
        split = divided(table, PLAIN | {"behavior": {"total": "sum", "top": "max"}})
        monitor = GoalMonitor(QuantileForest(n_trees=8)).fit(split=split, progress=False)
        watch, state = monitor.watch(goal, alarm_below=0.2), {"x": 0.1, "kind": "a"}
        found.append([watch.step(state, {"reward": 0.3} if t else {}).p for t in range(5)])
    assert all(one == found[0] for one in found)


@pytest.fixture(scope="module")
def short() -> GoalMonitor:
    """A monitor whose longest learning run has 6 steps, and its longest assure run 13."""
    split = divided(log(60, HELD_OUT, 7, steps=13), PLAIN)
    return GoalMonitor(QuantileForest(n_trees=8)).fit(split=split, progress=False)


def test_assure_runs_past_the_horizon_are_judged_as_live_runs_are(short) -> None:
    fitted = short.fitted
    assert (short.horizon, int(fitted.observed.lengths.max())) == (6, 13)
    said = answer_episodes(short.contracts.asked(TARGET), [fitted.observed])
    watch = short.watch(TARGET, alarm_below=0.2, calibration="common")
    runs = log(60, HELD_OUT, 7, steps=13).group_by("episode", maintain_order=True)
    for i, (_, run) in enumerate(runs):
        watch.reset()
        rewards, lowest = [0.0, *run["reward"].to_list()], np.inf
        for t, row in enumerate(run.iter_rows(named=True)):
            seen = watch.step({"x": row["x"], "kind": row["kind"]}, rewards[t])
            assert np.isnan(seen.p) or t < 6
            lowest = min(lowest, np.nan_to_num(seen.p, nan=np.inf))
        assert watch.end(rewards[-1]).p == said.met[i]
        assert lowest == said.scores(1)[i]


def test_a_file_keeps_assure_runs_past_the_horizon(short, tmp_path) -> None:
    short.save(tmp_path / "short.ontarget")
    again = GoalMonitor.load(tmp_path / "short.ontarget")
    for one, other in zip(
        (short.alarm_curve(TARGET), short.fitted.excess, short.fitted.observed.lengths),
        (again.alarm_curve(TARGET), again.fitted.excess, again.fitted.observed.lengths),
        strict=True,
    ):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else str(one) == str(other)
    asked = (1, [[0.1, 0.0]], 0.2, 0.8)
    bands = [monitor.path_band(*asked, all_steps=True) for monitor in (short, again)]
    assert np.array_equal(bands[0].lower, bands[1].lower)


def test_a_path_that_goes_on_past_the_horizon_is_not_judged_by_its_outcome_there(short) -> None:
    observed = short.fitted.observed
    paths = PathBands(short.fitted)._paths
    assert paths.shape[1] == 7
    for i in np.flatnonzero(observed.lengths > 6).tolist():
        own = log(60, HELD_OUT, 7, steps=13).filter(pl.col("episode") == observed.ids[i])["reward"]
        assert paths[i, 6] == pytest.approx(own[:6].sum())


@pytest.mark.parametrize("renew_p", [False, True])
def test_recalibration_takes_runs_longer_than_any_learned_from(short, renew_p, tmp_path) -> None:
    new = Episodes.from_frame(log(80, 5_000, 3, steps=9), like=short, truncated=None)
    found = short.recalibrate(new, renew_p=renew_p)
    assert found.horizon == 6
    found.save(tmp_path / "new.ontarget")
    again = GoalMonitor.load(tmp_path / "new.ontarget")
    assert str(again.alarm_curve(TARGET)) == str(found.alarm_curve(TARGET))
    assert found.watch(TARGET, false_alarm_rate=0.2).trigger.threshold < 1.0


def test_a_run_cut_off_anywhere_but_at_the_horizon_counts_as_the_worst_case() -> None:
    options = PLAIN | {"truncated": "truncated", "censored": "worst-case"}
    split = divided(log(60, HELD_OUT, 7, steps=9), options)
    monitor = GoalMonitor(QuantileForest(n_trees=8)).fit(split=split, progress=False)
    assure = monitor.fitted.assure
    cut = assure.truncated & (assure.lengths != monitor.horizon)
    assert np.any(cut & (assure.lengths > monitor.horizon))
    assert np.array_equal(np.isinf(monitor.fitted.excess), cut)


def test_a_declared_horizon_is_kept_however_short_the_learn_runs_are() -> None:
    split = divided(log(60, HELD_OUT, 7, steps=9), PLAIN | {"horizon": 12})
    assert GoalMonitor(QuantileForest(n_trees=8)).fit(split=split, progress=False).horizon == 12
