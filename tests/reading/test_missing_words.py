"""Words for missing values in a CSV: missing among numbers, a category among other words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ontarget import Episodes, GoalMonitor
from ontarget.errors import EpisodesError
from ontarget.models import QuantileForest
from ontarget.reading import prepare
from ontarget.reading.prepared import _buckets
from refusals import refuses

WORDS = [
    "nan",
    "NaN",
    "NAN",
    "NA",
    "n/a",
    "N/A",
    "#N/A",
    "<NA>",
    "null",
    "NULL",
    "None",
    "-nan",
    "",
]


def csv(folder: Path, name: str = "runs.csv", *, end: str = "\n", **columns: list[object]) -> Path:
    n = 6
    columns = {
        "episode": [1, 1, 1, 2, 2, 2],
        "step": [0, 1, 2] * 2,
        "reward": [1.0] * n,
        "last": [0.5] * n,
    } | columns
    rows = [columns, *zip(*columns.values(), strict=True)]
    path = folder / name
    path.write_bytes(end.join(",".join(map(str, row)) for row in rows).encode() + end.encode())
    return path


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("column", ["speed", "last"])
def test_such_a_word_among_numbers_is_a_missing_number(
    tmp_path: Path, word: str, column: str
) -> None:
    values = [0.5, word, 2, 3, f" {word}", 5]
    runs = Episodes.read(csv(tmp_path, **{column: values}, end="\r\n"))
    feature = runs.schema.features[runs.schema.names.index(column)]
    assert feature.categories is None
    kept = runs.to_frame().sort("episode", "step")[column]
    assert kept.fill_nan(None).to_list() == [0.5, None, 2, 3, None, 5]


def test_whole_numbers_and_flags_keep_their_types(tmp_path: Path) -> None:
    path = csv(
        tmp_path, gear=[1, "NA", 3, 1, 2, 3], on=["true", "null", "False", "TRUE", "NA", "true"]
    )
    runs = Episodes.read(path)
    assert {one.name: one.dtype for one in runs.schema.features} == {
        "last": "float64",
        "gear": "int64",
        "on": "bool",
    }


def test_such_a_word_among_other_words_is_a_category(tmp_path: Path) -> None:
    runs = Episodes.read(csv(tmp_path, country=["NA", "US", "DE", "NA", "None", "US"]))
    assert runs.schema.features[1].categories == ("DE", "NA", "None", "US")
    again = csv(tmp_path, "new.csv", country=["NA"] * 6)
    assert Episodes.read(again, like=runs).schema.features[1].categories == (
        "DE",
        "NA",
        "None",
        "US",
    )
    assert Episodes.read(again, like=runs).at(0).states[:, 1].tolist() == [1.0, 1.0]


def test_a_column_of_such_words_alone_is_read_as_missing_numbers_like_a_monitor(
    tmp_path: Path,
) -> None:
    runs = Episodes.read(csv(tmp_path, speed=[1.5] * 6))
    for word in WORDS:
        path = csv(tmp_path, "new.csv", speed=[word] * 6)
        assert np.isnan(Episodes.read(path, like=runs).at(1).states[:, 1]).all()


@pytest.mark.parametrize("word", ["inf", "-inf", "Inf", "Infinity", "-INFINITY"])
def test_an_infinite_number_is_refused_and_never_a_category(tmp_path: Path, word: str) -> None:
    with refuses(EpisodesError, None, "'speed'", "inf"):
        Episodes.read(csv(tmp_path, speed=[1, 2, word, 4, 5, 6]))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("column", ["episode", "step", "reward"])
def test_it_is_refused_where_a_value_is_needed(tmp_path: Path, column: str, word: str) -> None:
    usual = {"episode": [1, 1, 1, 2, 2], "step": [0, 1, 2, 0, 1], "reward": [1.0] * 5}[column]
    with pytest.raises(EpisodesError, match=f"column {column!r}"):
        Episodes.read(csv(tmp_path, **{column: [*usual, word]}))


@pytest.mark.parametrize("word", WORDS[:-1])
def test_it_is_no_name_of_an_episode(tmp_path: Path, word: str) -> None:
    names = ["case-1"] * 3 + ["case-2"] * 2 + [word]
    for read in (Episodes.read, lambda path: prepare(path, tmp_path / "out", progress=False)):
        with refuses(EpisodesError, None, "'episode'", "row 5"):
            read(csv(tmp_path, episode=names, step=[0, 1, 2, 0, 1, 0]))


def test_decimal_commas_have_such_words_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("episode;step;speed;reward\n1;0;1,5;0,5\n1;1;NA;0,25\n2;0;nan;1,0\n2;1;2;3,5\n")
    runs = Episodes.read(path)
    assert np.array_equal(runs.at(0).states, [[1.5], [np.nan]], equal_nan=True)


@given(st.lists(st.sampled_from([*WORDS, "1", "2.5", "-3e2", "word", "7"]), min_size=6, max_size=6))
def test_a_prepared_folder_is_read_alike(tmp_path_factory, values: list[str]) -> None:
    folder = tmp_path_factory.mktemp("runs")
    path = csv(folder, speed=values)
    with pytest.MonkeyPatch.context() as patch:
        for largest in (1 << 28, 0):  # read as a whole, and in batches
            patch.setattr(_buckets, "_LARGEST_TEXT", largest)
            patch.setattr(_buckets, "_BATCH_ROWS", 2)
            try:
                runs = Episodes.read(path)
            except EpisodesError as error:
                with pytest.raises(type(error)):
                    prepare(path, folder / f"out{largest}", assure=0.5, progress=False)
                continue
            made = prepare(path, folder / f"out{largest}", assure=0.5, progress=False)
            parts = [made.part(name).compact().to_frame() for name in ("learn", "assure")]
            assert_frame_equal(
                pl.concat(parts).sort("episode", "step"),
                runs.to_frame().sort("episode", "step"),
                check_column_order=False,
            )


def test_a_file_without_numbers_fits_one_that_has_them(tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", speed=[1.0] * 6)
    csv(tmp_path, "b.csv", speed=["nan"] * 6, episode=[3, 3, 3, 4, 4, 4])
    made = prepare(tmp_path, tmp_path / "out", assure=0.5, progress=False)
    assert [one.categories for one in made.part("learn").schema.features] == [None, None]


def test_a_monitor_fitted_with_gaps_answers_them(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 200
    speed = rng.normal(size=n).round(3)
    lines = [
        f"{i},0,{'nan' if i % 9 == 0 else speed[i]},{speed[i] + rng.normal():.3f}" for i in range(n)
    ]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["episode,step,speed,reward", *lines]) + "\n")
    runs = Episodes.read(path)
    monitor = GoalMonitor(QuantileForest(n_trees=3)).fit(runs, progress=False)
    assert monitor.schema.features[0].categories is None
