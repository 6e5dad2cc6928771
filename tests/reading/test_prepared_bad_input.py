"""Files that do not fit together, and folders that somebody else wrote, are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.errors import EpisodesError, EpisodesFileError
from ontarget.reading import PreparedEpisodes, prepare
from ontarget.reading.prepared import _buckets, manifest, preparing
from refusals import refuses
from tests.prepared_logs import finished, halves, in_files, log, same


@pytest.fixture(autouse=True)
def many_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several buckets, and several files of steps."""
    monkeypatch.setattr(_buckets, "_BUCKET_ROWS", 200)
    monkeypatch.setattr(preparing, "_FILE_ROWS", 250)


def test_files_of_different_columns_are_told_apart(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    path = folder / "1.parquet"
    table = pl.read_parquet(path)
    table.drop("mode").write_parquet(path)
    with refuses(EpisodesError, None, "1.parquet", "'mode'", "0.parquet"):
        prepare(folder, tmp_path / "out", progress=False)
    table.with_columns(pl.col("speed").cast(pl.String)).write_parquet(path)
    with refuses(EpisodesError, None, "'speed'", "0.parquet", "1.parquet"):
        prepare(folder, tmp_path / "other", progress=False)


def test_a_step_in_two_files_names_both(tmp_path: Path) -> None:
    table = log()
    folder = in_files(tmp_path / "runs", table)
    own = pl.read_parquet(folder / "0.parquet").row(0, named=True)
    pl.concat([pl.read_parquet(folder / "2.parquet"), pl.DataFrame([own])]).write_parquet(
        folder / "2.parquet"
    )
    where = (f"episode {own['run']}", f"step {own['step']}", "0.parquet", "2.parquet")
    with refuses(EpisodesError, "file_column", *where):
        prepare(folder, tmp_path / "out", progress=False)


def test_files_that_number_their_episodes_alike_are_told_apart_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for i in range(2):
        log(20, seed=i).write_parquet(folder / f"{i}.parquet")
    with refuses(EpisodesError, "file_column", "0.parquet"):
        prepare(folder, tmp_path / "out", progress=False)
    options: Any = {"file_column": "file", "episode": ["file", "run"]}
    found = prepare(folder, tmp_path / "two", progress=False, **options)
    assert len(found) == 40


def test_rows_without_a_step_may_not_be_spread_over_files(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log().drop("step"))
    with refuses(EpisodesError, "file_column", "0.parquet, 1.parquet, 2.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            lambda a, b: (a, b.filter((pl.col("run") != 100) | (pl.col("step") != 2))),
            ("step", "episode 100", "b.parquet"),
        ),
        (lambda a, b: (a, pl.concat([b, b[-1:]])), ("episode", "twice", "b.parquet")),
        (
            lambda a, b: (a, b.with_columns(pl.col("run").replace(100, None))),
            (None, "'run'", "got none", "b.parquet"),
        ),
        (
            lambda a, b: (a, b.with_columns(pl.col("run").cast(pl.Float64))),
            (None, "'run'", "a.parquet", "b.parquet"),
        ),
        (
            lambda a, b: (a, b.with_columns(pl.concat_list("speed", "speed").alias("speed"))),
            (None, "'speed'", "lists", "b.parquet"),
        ),
        (lambda a, b: (a[:0], b[:0]), (None, "no rows")),
    ],
)
def test_what_is_wrong_in_one_of_two_files_names_it(
    change: Any, refusal: tuple, tmp_path: Path
) -> None:
    folder = halves(tmp_path / "runs", change)
    with refuses(EpisodesError, *refusal):
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
    with refuses(EpisodesError, None, "'speed'", "b.csv", "c.csv"):
        prepare(folder, tmp_path / "other", progress=False)


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        log(20, seed=ord(name)).write_parquet(tmp_path / "runs" / name / "1.parquet")
    with refuses(EpisodesError, "file_column", "x/1.parquet", "y/1.parquet"):
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
    with refuses(EpisodesFileError, None, "3.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_bad_value_names_its_file(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    table = pl.read_parquet(folder / "1.parquet")
    table.with_columns(pl.lit(np.nan).alias("reward")).write_parquet(folder / "1.parquet")
    with refuses(EpisodesError, None, "'reward'", "1.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_file_that_vanishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = in_files(tmp_path / "runs", log())
    true_scatter = _buckets.Buckets.scatter

    def scatter(self: Any, number: int) -> None:
        (folder / "2.parquet").unlink(missing_ok=True)
        true_scatter(self, number)

    monkeypatch.setattr(_buckets.Buckets, "scatter", scatter)
    with refuses(EpisodesFileError, None, "2.parquet"):
        prepare(folder, tmp_path / "out", progress=False)


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    out = prepare(in_files(tmp_path / "runs", log()), tmp_path / "out", progress=False).folder
    path = next((out / "part=learn").rglob("rows.parquet"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with refuses(EpisodesFileError, None, "rows.parquet", "changed"):
        PreparedEpisodes(out).check()
    path.unlink()
    with refuses(EpisodesFileError, None, "rows.parquet:"):
        PreparedEpisodes(out).check()
    text = (out / "manifest.json").read_text()
    for bad, refusal in (
        ("{", (EpisodesFileError, None, "manifest.json")),
        (
            text.replace('"format": 1', '"format": 9'),
            (EpisodesFileError, None, "manifest.json", "format is 9"),
        ),
        (
            text.replace("part=learn/episodes", "../episodes"),
            (EpisodesFileError, None, "manifest.json", "the folder"),
        ),
        (
            text.replace('"before"', '"after"'),
            (EpisodesFileError, None, "manifest.json", "columns", "'after'"),
        ),
    ):
        (out / "manifest.json").write_text(bad)
        with refuses(*refusal):
            PreparedEpisodes(out)
    assert manifest.is_prepared(out)


@pytest.mark.parametrize(
    ("forge", "refusal"),
    [
        (lambda m: m.update(horizon=10**12), ("`horizon`", 10**12)),
        (lambda m: m.update(horizon=True), ("`horizon`", True)),
        (lambda m: m.update(horizon=2), ("manifest.json", "7 steps", "got 2")),
        (lambda m: m.update(horizon_declared="no"), ("manifest.json", "horizon_declared", "'no'")),
        (lambda m: m.update(dropped=-1), ("manifest.json", "`dropped`", -1)),
        (lambda m: m.update(behavior="sum of it"), ("manifest.json", "'sum of it'")),
        (lambda m: m.update(features={}), ("manifest.json", "`features`")),
        (lambda m: m.update(features=[{"name": "speed"}] * 2), ("manifest.json", "'dtype'")),
        (lambda m: m.update(columns=["before", "before"]), ("manifest.json", "columns")),
        (lambda m: m.update(roles={"episode": ["run"]}), ("manifest.json", "roles", "['run']")),
        (lambda m: m.update(roles={"hero": "run"}), ("manifest.json", "'hero'")),
        (lambda m: m["parts"]["learn"].update(steps=[]), ("manifest.json", "a part")),
        (lambda m: m["parts"]["learn"].update(rows=1e400), ("manifest.json", "`rows`")),
        (lambda m: m["parts"]["learn"].update(episodes="all"), ("manifest.json", "`episodes`")),
        (
            lambda m: m["parts"]["learn"]["table"].update(path=""),
            ("manifest.json", "'' needs", "the folder"),
        ),
        (
            lambda m: m["parts"]["learn"]["table"].update(path="a\0b"),
            ("manifest.json", "the folder"),
        ),
        (
            lambda m: m["parts"]["learn"]["table"].update(path="/etc/passwd"),
            ("manifest.json", "/etc/passwd", "the folder"),
        ),
        (lambda m: m["parts"]["learn"]["steps"][0].update(start=1), ("manifest.json", "step 0")),
        (
            lambda m: m["parts"]["learn"]["steps"][-1].update(stop=10**15),
            ("manifest.json", "`stop`"),
        ),
        (lambda m: m.update(parts=[]), ("manifest.json", "'list'")),
        (
            lambda m: m.update(parts={"test": m["parts"]["learn"]}),
            ("manifest.json", "parts", "test"),
        ),
    ],
)
def test_a_hostile_manifest_is_refused(forge: Any, refusal: tuple, tmp_path: Path) -> None:
    source = finished(tmp_path)
    manifest = json.loads((source / "manifest.json").read_text())
    forge(manifest)
    (source / "manifest.json").write_text(json.dumps(manifest))
    with refuses(EpisodesFileError, None, *refusal):
        PreparedEpisodes(source)


def test_a_manifest_of_ten_thousand_brackets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with refuses(EpisodesFileError, None, "manifest.json", "nested"):
        PreparedEpisodes(tmp_path)


@pytest.mark.parametrize(
    ("forge", "refusal"),
    [
        (lambda t: t.with_columns(pl.lit(10**15).alias("length")), ("episodes.parquet", "1 to 7")),
        (
            lambda t: t.with_columns(pl.lit(None, dtype=pl.Int64).alias("length")),
            ("episodes.parquet", "1 to 7"),
        ),
        (
            lambda t: t.with_columns(pl.lit(np.nan).alias("outcome")),
            ("episodes.parquet", "outcome", 24),
        ),
        (
            lambda t: t.with_columns(pl.lit(None, dtype=pl.Float64).alias("outcome")),
            ("episodes.parquet", "outcome", 24),
        ),
        (
            lambda t: t.with_columns(pl.lit(1).alias("length")),
            ("episodes.parquet", "sum to", "got 24"),
        ),
        (lambda t: t.with_columns(pl.lit(7).alias("id")), ("episodes.parquet", "ids")),
        (
            lambda t: t.with_columns(pl.lit(0).alias("episode")),
            ("episodes.parquet", "from 0", "24 rows"),
        ),
        (lambda t: t.drop("outcome"), ("episodes.parquet", "outcome")),
    ],
)
def test_a_hostile_table_of_episodes_is_refused(forge: Any, refusal: tuple, tmp_path: Path) -> None:
    source = finished(tmp_path)
    path = source / "part=learn" / "episodes.parquet"
    forge(pl.read_parquet(path)).write_parquet(path)
    with refuses(EpisodesFileError, None, *refusal):
        _ = PreparedEpisodes(source).split
