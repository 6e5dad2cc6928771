"""The study of distances to the truth: cases, scores, what it keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget.errors import InputError
from ontarget.models import QuantileForest
from ontarget.paper import distance
from ontarget.paper.cases import CASES, Case, Plan, build_case
from ontarget.paper.processes import CartPole, Walk

SMALL = distance.Method(lambda: QuantileForest(n_trees=5, min_leaf=5), 5)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(distance, "N_TRAIN", 150)
    monkeypatch.setattr(distance, "N_CALIBRATE", 150)
    monkeypatch.setitem(CASES, "walk", Plan(Walk, (0, 3, 27), None, n_states=40))
    return build_case("walk", tmp_path, n_episodes=400)


def test_scores_are_distances_at_every_step_asked(case: Case) -> None:
    found = distance.score(SMALL, case, partition=0)
    assert found.steps == (0, 3, 27)
    assert found.excess[2] < 0.05  # nearly all is decided by then
    assert all(e <= a for e, a in zip(found.excess, found.absolute, strict=True))
    assert found.bytes_per_step > 0.0
    again = distance.score(SMALL, case, partition=0)
    assert again.absolute == found.absolute
    other = distance.score(SMALL, case, partition=1)
    assert other.absolute != found.absolute


def test_a_study_keeps_what_it_made(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(distance.METHODS, "small", SMALL)
    first = distance.study(case, ["small"], tmp_path, partitions=2)
    monkeypatch.setattr(distance, "score", None)
    assert distance.study(case, ["small"], tmp_path, partitions=2) == first
    text = distance.table(case, first)
    assert "small" in text
    assert f"{np.mean([np.mean(one.excess) for one in first['small']]):.5f}" in text


def test_truth_is_found_again_in_the_folder(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk, "probability", None)
    again = build_case("walk", tmp_path, n_episodes=400)
    assert all(np.array_equal(again.tests[t].p_true, case.tests[t].p_true) for t in case.tests)


def test_only_runs_that_are_not_over_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CASES, "cartpole", Plan(CartPole, (0, 90), 2, 200, (0.5, 1.0)))
    case = build_case("cartpole", tmp_path, n_episodes=200)
    assert case.tests[0].p_true.size == 200
    assert 50 < case.tests[90].p_true.size < 190
    assert np.array_equal(case.episodes.outcomes, case.episodes.lengths.astype(float))


def test_an_unknown_case_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="case needs one of tamarisk"):
        build_case("chess", tmp_path)
