from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget.paper.keeping import Keeper, Piece, commit, finish, missing_weight, plain
from ontarget.paper.progress import Clock


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "parts", {"seed": 0})
    assert keeper.arrays("a") is None
    assert keeper.table("a") is None
    keeper.keep_arrays("a", {"x": np.arange(3)})
    keeper.keep_table("a", {"y": 0.1})
    again = Keeper(tmp_path / "parts", {"seed": 0})
    found = again.arrays("a")
    assert found is not None
    assert np.array_equal(found["x"], np.arange(3))
    assert again.table("a") == {"y": 0.1}
    assert again.has("a", "npz")


def test_another_plan_finds_nothing(tmp_path: Path) -> None:
    Keeper(tmp_path, {"seed": 0}).keep_table("a", {"y": 1})
    assert Keeper(tmp_path, {"seed": 1}).table("a") is None


def test_a_damaged_file_counts_as_missing(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, {"seed": 0})
    keeper.keep_arrays("a", {"x": np.arange(3)})
    keeper.keep_table("a", {"y": 1})
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:5])
    assert keeper.arrays("a") is None
    assert keeper.table("a") is None


def test_plain_values_are_what_json_knows() -> None:
    values = {1: np.float64(0.5), "a": (np.nan, np.arange(2)), "b": True, "c": np.bool_(False)}
    assert plain(values) == {"1": 0.5, "a": [None, [0, 1]], "b": True, "c": False}


def test_the_commit_is_one_line() -> None:
    assert commit()
    assert "\n" not in commit()


@pytest.mark.parametrize("arrays", [False, True])
def test_a_piece_is_made_once_and_its_needs_are_not_its_time(tmp_path: Path, arrays: bool) -> None:
    made: list[str] = []

    def make(given: str) -> dict[str, list[int]]:
        made.append(given)
        return {"x": [1, 2]}

    piece = Piece("a", "work", "working", 3.0, lambda: "given", make, arrays=arrays)
    keeper, clock = Keeper(tmp_path, {}), Clock(3.0)
    assert missing_weight([piece], keeper) == 3.0
    for _ in range(2):
        assert np.array_equal(finish(piece, keeper, clock)["x"], [1, 2])
    assert made == ["given"]
    assert missing_weight([piece], keeper) == 0.0
    assert list(clock.account()["seconds"]) == ["work"]
