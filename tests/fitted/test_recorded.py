"""What a fit keeps of the episodes that its models learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.errors import InputError
from ontarget.fitted.recorded import RecordedRuns
from ontarget.modelfile.file import fitted_bytes, fitted_from_bytes
from ontarget.models import QuantileForest, StackedForest
from refusals import refuses

rng = np.random.default_rng(5)
LENGTHS = rng.integers(1, 6, size=80)
WALKS = Episodes.from_arrays(
    [rng.normal(size=(n, 2)) for n in LENGTHS],
    [np.round(rng.normal(size=n), 1) for n in LENGTHS],
    ids=np.array([f"run {i}" for i in range(80)]),
    horizon=5,
)
FOREST = QuantileForest(n_trees=5)


def monitor(model: Any = FOREST, **options: Any) -> GoalMonitor:
    return GoalMonitor(model, steps_per_model=3, min_calibration=5).fit(
        WALKS, progress=False, **options
    )


@pytest.mark.parametrize("model", [FOREST, StackedForest(n_trees=5)], ids=["one", "two"])
def test_a_training_row_leads_to_the_run_that_was_recorded(model: Any) -> None:
    fitted = monitor(model).fitted
    runs = fitted.runs
    place = {name: i for i, name in enumerate(WALKS.ids.tolist())}
    known = np.array([place[name] for name in runs.ids.tolist()])
    assert np.array_equal(runs.outcomes, WALKS.outcomes[known])
    for block in fitted.blocks:
        found = fitted.models[block.index]
        arrays = found.to_arrays()
        outcome = np.repeat(arrays["support"], np.diff(arrays["row_start"]))
        episode, step = found.training_episodes_, found.training_steps_
        rest = runs.outcomes[episode] - runs.paths[episode, step]
        assert np.allclose(outcome, rest + fitted.pace * step, atol=1e-9)
        for e, t in zip(episode[:20].tolist(), step[:20].tolist(), strict=True):
            rows = WALKS.at(t)
            here = int(np.flatnonzero(rows.index == known[e])[0])
            assert runs.paths[e, t] == pytest.approx(rows.behavior[here])


def test_paths_stay_where_a_run_ended() -> None:
    runs = RecordedRuns.of(WALKS, precedents=False, paths=True)
    for i in range(len(WALKS)):
        assert (runs.paths[i, LENGTHS[i] :] == WALKS.outcomes[i]).all()
        assert runs.paths[i, 0] == 0.0


@pytest.mark.parametrize(
    "ids", [np.arange(80) - 3, np.array([f"Lauf ü {i}" for i in range(80)]), np.arange(80) + 0.5]
)
def test_runs_come_back_from_their_arrays(ids: Any) -> None:
    named = Episodes.from_arrays(
        [np.zeros((n, 1)) for n in LENGTHS], [np.ones(n) for n in LENGTHS], ids=ids
    )
    runs = RecordedRuns.of(named, precedents=True, paths=True)
    back = RecordedRuns.from_arrays(runs.to_arrays(), n=80, horizon=5)
    assert [str(one) for one in back.ids] == [str(one) for one in named.ids]
    assert np.array_equal(back.paths, runs.paths)


def test_a_file_keeps_the_runs() -> None:
    data = fitted_bytes(monitor().fitted)
    back = fitted_from_bytes(data)
    assert fitted_bytes(back) == data
    assert back.runs.ids.tolist() == monitor().fitted.runs.ids.tolist()


def test_what_is_left_out_is_not_in_the_file_and_says_so() -> None:
    runs = fitted_from_bytes(fitted_bytes(monitor(precedents=False, paths=False).fitted)).runs
    assert runs.to_arrays() == {}
    with refuses(InputError, "paths", "paths=True"):
        _ = runs.paths
    data = fitted_bytes(monitor(precedents=False).fitted)
    assert b"run 1" not in data


def test_very_many_steps_are_kept_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ontarget.fitting.fit._MOST_PATH_STEPS", 50)
    assert monitor().fitted.runs.before is None
    assert monitor(paths=True).fitted.runs.before is not None


def test_a_checkpoint_keeps_the_numbers_of_episodes(tmp_path: Any) -> None:
    first = fitted_bytes(monitor(checkpoint=tmp_path).fitted)
    assert fitted_bytes(monitor(checkpoint=tmp_path).fitted) == first
