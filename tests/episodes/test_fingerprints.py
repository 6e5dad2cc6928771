from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes
from ontarget.episodes.facts import fingerprints, seen_before
from tests.walks import walks


def test_an_episode_is_known_by_its_id_and_all_it_holds() -> None:
    runs = walks(50, ragged=True)
    words = fingerprints(runs)
    assert np.unique(words).size == 50
    assert fingerprints(runs.take([7, 3])).tolist() == [words[7], words[3]]
    table = runs.to_frame()
    renamed = Episodes.from_frame(table.with_columns(episode="x" + table["episode"]))
    assert not np.isin(fingerprints(renamed), words).any()
    rewards = table["reward"].to_numpy().copy()
    rewards[0] += 1.0
    repaired = Episodes.from_frame(table.with_columns(reward=rewards), horizon=runs.horizon)
    assert np.isin(fingerprints(repaired), words).sum() == 49


@pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning")
def test_fingerprints_survive_files(tmp_path: Path) -> None:
    runs = walks(30, ragged=True, atoms=False)
    for name in ("runs.parquet", "runs.csv"):
        runs.write(tmp_path / name)
        again = Episodes.read(tmp_path / name, horizon=runs.horizon)
        assert set(fingerprints(again).tolist()) == set(fingerprints(runs).tolist())


def test_some_known_episodes_among_new_ones_are_found() -> None:
    old, new = walks(200), walks(100, seed=1)
    assert seen_before(new, fingerprints(old)).size == 0
    assert seen_before(old, fingerprints(old.take([5, 9]))).tolist() == [5, 9]


def test_equal_runs_by_chance_raise_no_suspicion() -> None:
    rng = np.random.default_rng(0)
    one, other = (
        Episodes.from_arrays(np.zeros((400, 2, 1)), rng.integers(0, 2, size=(400, 2)).astype(float))
        for _ in range(2)
    )
    assert np.isin(fingerprints(other), fingerprints(one)).sum() > 50
    assert seen_before(other, fingerprints(one)).size == 0
