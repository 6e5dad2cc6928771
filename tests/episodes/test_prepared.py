"""Prepared episodes are the episodes in memory, in the same order and to the last bit."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.episodes import PreparedEpisodes, prepare
from ontarget.episodes.prepared import _manifest, _scattering, preparing
from ontarget.errors import EpisodesError, EpisodesFileError, InputError
from ontarget.models import QuantileForest
from ontarget.target import Target


@pytest.fixture(autouse=True)
def many_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several buckets, and several files of steps."""
    monkeypatch.setattr(_scattering, "_BUCKET_ROWS", 200)
    monkeypatch.setattr(preparing, "_FILE_ROWS", 250)


def log(n: int = 120, seed: int = 0) -> pl.DataFrame:
    """Rows of runs of different lengths, in disorder, with text and gaps."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 8, n)
    names = np.repeat(rng.permutation(n), lengths)
    size = names.size
    return pl.DataFrame(
        {
            "run": names,
            "step": np.concatenate([np.arange(length) for length in lengths]) + 1,
            "speed": np.where(rng.random(size) < 0.05, np.nan, rng.normal(size=size)),
            "mode": rng.choice(["low", "mid", "high"], size),
            "reward": np.round(rng.normal(size=size), 1),
        }
    ).sample(fraction=1.0, shuffle=True, seed=seed)


def in_files(folder: Path, table: pl.DataFrame, n: int = 3) -> Path:
    """The table spread over files in the order of its rows."""
    folder.mkdir()
    edges = np.linspace(0, table.height, n + 1).astype(int).tolist()
    for i, (a, b) in enumerate(pairwise(edges)):
        table[a:b].write_parquet(folder / f"{i}.parquet")
    return folder


def same(one: Episodes, other: Episodes) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert one.schema == other.schema
    assert one.grid == other.grid
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
    for t in range(one.horizon):
        here, there = one.at(t), other.at(t)
        for name in ("states", "behavior", "remaining", "index", "keys"):
            np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
        np.testing.assert_array_equal(one.rewards_at(t), other.rewards_at(t))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("behavior", ["sum", "max"])
def test_parts_are_those_of_the_same_table_in_memory(
    kind: str, behavior: str, tmp_path: Path
) -> None:
    table = log().with_columns(pl.col("speed").fill_nan(None))
    folder = in_files(tmp_path / "runs", table)
    if kind == "csv":
        for path in folder.glob("*.parquet"):
            pl.read_parquet(path).write_csv(path.with_suffix(".csv"))
            path.unlink()
    found = prepare(folder, tmp_path / "out", behavior=behavior, progress=False)
    whole = Episodes.from_frame(table, behavior=behavior)
    assert whole.remarks == found.episodes.remarks
    for own, theirs in zip(found.split, whole.split(), strict=True):
        if theirs is not None:
            same(theirs, own)
            same(theirs.compact(), own.compact())
    assert found.episodes.is_prepared
    assert not found.episodes.compact().is_prepared
    found.check()


def test_a_fit_from_the_folder_gives_the_bytes_of_a_fit_in_memory(tmp_path: Path) -> None:
    table = log(150)
    prepare(in_files(tmp_path / "runs", table), tmp_path / "out", progress=False)

    def file_of(episodes: Any, name: str) -> bytes:
        monitor = GoalMonitor(QuantileForest(n_trees=5), steps_per_model=3)
        monitor.fit(episodes, progress=False).save(tmp_path / name)
        return (tmp_path / name).read_bytes()

    expected = file_of(Episodes.from_frame(table), "memory")
    assert file_of(tmp_path / "out", "path") == expected
    assert file_of(PreparedEpisodes(tmp_path / "out"), "prepared") == expected


def test_new_episodes_may_be_prepared_too(tmp_path: Path) -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=5), steps_per_model=3)
    monitor.fit(Episodes.from_frame(log(150)), progress=False)
    new = log(90, seed=5).with_columns(pl.col("run") + 1000)
    folder = in_files(tmp_path / "new", new)
    prepare(folder, tmp_path / "out", like=monitor, progress=False)
    whole, found = Episodes.from_frame(new, like=monitor), Episodes.read(tmp_path / "out")
    order = np.argsort(found.ids), np.argsort(whole.ids)
    target = Target.at_least(0.0)
    p, q = (monitor.evaluate(one, target).p for one in (found, whole))
    np.testing.assert_array_equal(p[:, order[0]], q[:, order[1]])
    assert str(monitor.drift(found, target)) == str(monitor.drift(whole, target))
    one, other = monitor.recalibrate(found), monitor.recalibrate(whole)
    np.testing.assert_array_equal(one.fitted.ranks.values, other.fitted.ranks.values)


def test_a_pickle_names_the_folder_alone(tmp_path: Path) -> None:
    found = prepare(in_files(tmp_path / "runs", log(600)), tmp_path / "out", progress=False)
    assure = found.split.assure
    assert assure is not None
    _ = assure.keys, assure.outcomes
    sent = pickle.dumps(assure)
    assert len(sent) < 1000
    same(assure, pickle.loads(sent))


def test_the_second_call_does_nothing_and_another_is_refused(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    prepare(folder, tmp_path / "out", progress=False)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    prepare(folder, tmp_path / "out", progress=False)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    with pytest.raises(EpisodesFileError, match="other files or options"):
        prepare(folder, tmp_path / "out", seed=1, progress=False)
    log(5).write_parquet(folder / "1.parquet")
    with pytest.raises(EpisodesFileError, match=r"1\.parquet has changed"):
        prepare(folder, tmp_path / "out", progress=False)


def test_files_of_different_columns_are_told_apart(tmp_path: Path) -> None:
    folder = in_files(tmp_path / "runs", log())
    path = folder / "1.parquet"
    table = pl.read_parquet(path)
    table.drop("mode").write_parquet(path)
    with pytest.raises(EpisodesError, match=r"1\.parquet has no column 'mode', which 0\.parquet"):
        prepare(folder, tmp_path / "out", progress=False)
    table.with_columns(pl.col("speed").cast(pl.String)).write_parquet(path)
    words = r"'speed' holds numbers in 0\.parquet and text in 1\.parquet"
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


def test_a_full_disk_is_said_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = in_files(tmp_path / "runs", log()), tmp_path / "out"
    true_write, left = pl.DataFrame.write_parquet, [4]

    def write(self: Any, path: Any, **options: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            Path(path).write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        true_write(self, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", write)
        for more in (4, 9, 3):
            left[0] = more
            with pytest.raises(EpisodesFileError, match="the disk is full; make room"):
                prepare(folder, out, progress=False)
            assert not (out / "manifest.json").exists()
    found = prepare(folder, out, progress=False)
    found.check()
    assert not list(out.rglob("*.part"))
    assert files_of(out) == files_of(prepare(folder, tmp_path / "other", progress=False).folder)


def files_of(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")  # the fork
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_prepare_resumes_to_the_same_bytes(kills: int, tmp_path: Path) -> None:
    """A child is killed at a random call to the system, again and again, until it gets through."""
    folder, rng = in_files(tmp_path / "runs", log()), np.random.default_rng(kills)
    expected = files_of(prepare(folder, tmp_path / "whole", progress=False).folder)
    script = (
        "import os, signal, sys, random; random.seed(int(sys.argv[3]))\n"
        "from ontarget.episodes.prepared import _scattering, preparing\n"
        "_scattering._BUCKET_ROWS, preparing._FILE_ROWS = 200, 250\n"
        "left = [int(sys.argv[3])]\n"
        "def hook(event, _):\n"
        "    left[0] -= event.split('.')[0] in ('open', 'os', 'shutil', 'pathlib')\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(hook)\n"
        "preparing.prepare(sys.argv[1], sys.argv[2], progress=False)\n"
    )
    out, done = tmp_path / "killed", 0
    while done < kills:
        at = int(rng.integers(5, 120))
        status = os.spawnv(
            os.P_WAIT,
            sys.executable,
            [sys.executable, "-c", script, str(folder), str(out), str(at)],
        )
        assert status in (0, -signal.SIGKILL)
        done += 1
        if status == 0:
            assert files_of(out) == expected
            out = tmp_path / f"killed-{done}"
    prepare(folder, out, progress=False)
    assert files_of(out) == expected


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


def test_what_is_settled_cannot_be_asked_again(tmp_path: Path) -> None:
    out = prepare(in_files(tmp_path / "runs", log()), tmp_path / "out", progress=False).folder
    with pytest.raises(InputError, match="divided already"):
        GoalMonitor().fit(out, assure=0.5, progress=False)
    with pytest.raises(EpisodesError, match="columns are settled"):
        Episodes.read(out, reward="speed")
    with pytest.raises(EpisodesError, match="single behavior"):
        prepare(out, tmp_path / "other", behavior={"a": "sum", "b": "max"}, progress=False)
    with pytest.raises(EpisodesFileError, match="no such file or folder"):
        prepare(tmp_path / "nothing*", tmp_path / "other", progress=False)
