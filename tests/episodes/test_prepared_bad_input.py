"""Files that do not fit together, and folders that somebody else wrote, are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.episodes import PreparedEpisodes, prepare
from ontarget.episodes.prepared import _manifest, _scattering, preparing
from ontarget.errors import EpisodesError, EpisodesFileError
from tests.prepared_logs import finished, halves, in_files, log, same


@pytest.fixture(autouse=True)
def many_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several buckets, and several files of steps."""
    monkeypatch.setattr(_scattering, "_BUCKET_ROWS", 200)
    monkeypatch.setattr(preparing, "_FILE_ROWS", 250)


def test_files_of_different_columns_are_told_apart(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    path = folder / "1.parquet"
    table = pl.read_parquet(path)
    table.drop("mode").write_parquet(path)
    with pytest.raises(EpisodesError, match=r"1\.parquet has no column 'mode', which 0\.parquet"):
        prepare(folder, tmp_path / "out", progress=False)
    table.with_columns(pl.col("speed").cast(pl.String)).write_parquet(path)
    words = r"'speed' has numbers in 0\.parquet and text in 1\.parquet"
    with pytest.raises(EpisodesError, match=words):
        prepare(folder, tmp_path / "other", progress=False)


def test_a_step_in_two_files_names_both(tmp_path: Path) -> None:
    table = log()
    folder = in_files(tmp_path / "runs", table)
    own = pl.read_parquet(folder / "0.parquet").row(0, named=True)
    pl.concat([pl.read_parquet(folder / "2.parquet"), pl.DataFrame([own])]).write_parquet(
        folder / "2.parquet"
    )
    words = rf"episode {own['run']} has step {own['step']} both in 0\.parquet and in 2\.parquet"
    with pytest.raises(EpisodesError, match=words):
        prepare(folder, tmp_path / "out", progress=False)


def test_files_that_number_their_episodes_alike_are_told_apart_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for i in range(2):
        log(20, seed=i).write_parquet(folder / f"{i}.parquet")
    with pytest.raises(EpisodesError, match="file_column"):
        prepare(folder, tmp_path / "out", progress=False)
    options: Any = {"file_column": "file", "episode": ["file", "run"]}
    found = prepare(folder, tmp_path / "two", progress=False, **options)
    assert len(found) == 40


def test_rows_without_a_step_may_not_be_spread_over_files(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log().drop("step"))
    with pytest.raises(EpisodesError, match=r"has rows in \d\.parquet and \d\.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda a, b: (a, b.filter((pl.col("run") != 100) | (pl.col("step") != 2))),
            r"episode 100 lacks step .* \(in b\.parquet\)",
        ),
        (lambda a, b: (a, pl.concat([b, b[-1:]])), r"has step \d twice.* \(in b\.parquet\)"),
        (
            lambda a, b: (a, b.with_columns(pl.col("run").replace(100, None))),
            r"'run'\) needs a value in every row, got none in row \d+ of b\.parquet",
        ),
        (
            lambda a, b: (a, b.with_columns(pl.col("run").cast(pl.Float64))),
            r"'run' has whole numbers in a\.parquet and fractional numbers in b\.parquet",
        ),
        (
            lambda a, b: (a, b.with_columns(pl.concat_list("speed", "speed").alias("speed"))),
            r"'speed' has numbers in a\.parquet and lists in b\.parquet",
        ),
        (lambda a, b: (a[:0], b[:0]), "the files have no row"),
    ],
)
def test_what_is_wrong_in_one_of_two_files_names_it(
    change: Any, words: str, tmp_path: Path
) -> None:
    folder = halves(tmp_path / "runs", change)
    with pytest.raises(EpisodesError, match=words):
        prepare(folder, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b: (a, b.select(b.columns[::-1])),
        lambda a, b: (a[:0], pl.concat([a, b])),
        lambda a, b: (a.with_columns(pl.lit(None).alias("mode")), b),
        lambda a, b: (a, b.with_columns(pl.lit(None).alias("speed"))),
        lambda a, b: (a.with_columns(pl.col("run").cast(pl.UInt64)), b),
    ],
)
def test_files_may_differ_in_what_does_not_matter(change: Any, tmp_path: Path) -> None:
    folder = halves(tmp_path / "runs", change)
    tables = [pl.read_parquet(path) for path in sorted(folder.glob("*"))]
    alike = [one.select(tables[0].columns).cast({"run": pl.Int64}) for one in tables]
    found = prepare(folder, tmp_path / "out", progress=False)
    whole = Episodes.from_frame(pl.concat(alike, how="vertical_relaxed"))
    same(whole.split().learn, found.split.learn)


def test_a_column_that_a_text_file_leaves_empty_is_missing_there(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    table = log().sort("run", "step").with_columns(pl.col("speed").fill_nan(None))
    first = table[:300].with_columns(pl.lit(None, dtype=pl.Float64).alias("speed"))
    first.write_csv(folder / "a.csv")
    table[300:].write_csv(folder / "b.csv")
    found = prepare(folder, tmp_path / "out", progress=False)
    same(Episodes.from_frame(pl.concat([first, table[300:]])).split().learn, found.split.learn)
    table[:9].with_columns(pl.lit("fast").alias("speed")).write_csv(folder / "c.csv")
    with pytest.raises(EpisodesError, match=r"has numbers in b\.csv and text in c\.csv"):
        prepare(folder, tmp_path / "other", progress=False)


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        log(20, seed=ord(name)).write_parquet(tmp_path / "runs" / name / "1.parquet")
    with pytest.raises(EpisodesError, match=r"both in x/1\.parquet and in y/1\.parquet"):
        prepare(tmp_path / "runs", tmp_path / "out", progress=False)
    options: Any = {"file_column": "file", "episode": ["file", "run"]}
    assert len(prepare(tmp_path / "runs", tmp_path / "two", progress=False, **options)) == 40


def test_the_output_may_lie_among_the_files(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    first = prepare(folder, folder / "prepared", progress=False)
    again = prepare(folder, folder / "prepared", progress=False)
    assert len(first) == len(again) == 120


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    (folder / "3.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(EpisodesFileError, match=r"3\.parquet: no such file"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_bad_value_names_its_file(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    table = pl.read_parquet(folder / "1.parquet")
    table.with_columns(pl.lit(np.nan).alias("reward")).write_parquet(folder / "1.parquet")
    with pytest.raises(EpisodesError, match=r"reward.*1\.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_file_that_vanishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = in_files(tmp_path / "runs", log())
    true_scatter = _scattering.Buckets.scatter

    def scatter(self: Any, number: int) -> None:
        (folder / "2.parquet").unlink(missing_ok=True)
        true_scatter(self, number)

    monkeypatch.setattr(_scattering.Buckets, "scatter", scatter)
    with pytest.raises(EpisodesFileError, match=r"2\.parquet: no such file"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    out = prepare(in_files(tmp_path / "runs", log()), tmp_path / "out", progress=False).folder
    path = next((out / "part=learn").rglob("rows.parquet"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(EpisodesFileError, match="has changed since it was prepared"):
        PreparedEpisodes(out).check()
    path.unlink()
    with pytest.raises(EpisodesFileError, match="no such file"):
        PreparedEpisodes(out).check()
    text = (out / "manifest.json").read_text()
    for bad, words in (
        ("{", "cannot be read"),
        (text.replace('"format": 1', '"format": 9'), "its format is 9"),
        (text.replace("part=learn/episodes", "../episodes"), "below the folder"),
        (text.replace('"before"', '"after"'), "columns needs before"),
    ):
        (out / "manifest.json").write_text(bad)
        with pytest.raises(EpisodesFileError, match=words):
            PreparedEpisodes(out)
    assert _manifest.is_prepared(out)


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda m: m.update(horizon=10**12), "`horizon` needs a whole number"),
        (lambda m: m.update(horizon=True), "`horizon` needs a whole number"),
        (lambda m: m.update(horizon=2), "horizon needs the 7 steps of the files, got 2"),
        (lambda m: m.update(horizon_declared="no"), "horizon_declared needs true or false"),
        (lambda m: m.update(dropped=-1), "`dropped` needs a whole number"),
        (lambda m: m.update(behavior="sum of it"), "sum of it"),
        (lambda m: m.update(features={}), "`features` needs a list"),
        (lambda m: m.update(features=[{"name": "speed"}] * 2), "cannot be read"),
        (lambda m: m.update(columns=["before", "before"]), "columns needs before"),
        (lambda m: m.update(roles={"episode": ["run"]}), "roles needs the name of a column"),
        (lambda m: m.update(roles={"hero": "run"}), "hero"),
        (lambda m: m["parts"]["learn"].update(steps=[]), "at least one file of rows"),
        (lambda m: m["parts"]["learn"].update(rows=1e400), "`rows` needs a whole number"),
        (lambda m: m["parts"]["learn"].update(episodes="all"), "`episodes` needs a whole number"),
        (lambda m: m["parts"]["learn"]["table"].update(path=""), "path below the folder"),
        (lambda m: m["parts"]["learn"]["table"].update(path="a\0b"), "path below the folder"),
        (lambda m: m["parts"]["learn"]["table"].update(path="/etc/passwd"), "below the folder"),
        (lambda m: m["parts"]["learn"]["steps"][0].update(start=1), "needs to begin with step"),
        (lambda m: m["parts"]["learn"]["steps"][-1].update(stop=10**15), "`stop` needs a whole"),
        (lambda m: m.update(parts=[]), "cannot be read"),
        (lambda m: m.update(parts={"test": m["parts"]["learn"]}), "parts needs one or more of"),
    ],
)
def test_a_hostile_manifest_is_refused(forge: Any, words: str, tmp_path: Path) -> None:
    source = finished(tmp_path)
    manifest = json.loads((source / "manifest.json").read_text())
    forge(manifest)
    (source / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(EpisodesFileError, match=words):
        PreparedEpisodes(source)


def test_a_manifest_of_ten_thousand_brackets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(EpisodesFileError, match="nested too deeply"):
        PreparedEpisodes(tmp_path)


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda t: t.with_columns(pl.lit(10**15).alias("length")), "a length of 1 to 7 steps"),
        (lambda t: t.with_columns(pl.lit(None, dtype=pl.Int64).alias("length")), "1 to 7 steps"),
        (lambda t: t.with_columns(pl.lit(np.nan).alias("outcome")), "a finite outcome"),
        (lambda t: t.with_columns(pl.lit(None, dtype=pl.Float64).alias("outcome")), "finite"),
        (lambda t: t.with_columns(pl.lit(1).alias("length")), "lengths that sum to .* steps"),
        (lambda t: t.with_columns(pl.lit(7).alias("id")), "needs different ids"),
        (lambda t: t.with_columns(pl.lit(0).alias("episode")), "numbered from 0"),
        (lambda t: t.drop("outcome"), "cannot be read"),
    ],
)
def test_a_hostile_table_of_episodes_is_refused(forge: Any, words: str, tmp_path: Path) -> None:
    source = finished(tmp_path)
    path = source / "part=learn" / "episodes.parquet"
    forge(pl.read_parquet(path)).write_parquet(path)
    with pytest.raises(EpisodesFileError, match=words):
        _ = PreparedEpisodes(source).split
