"""Prepared episodes are the episodes in memory, in the same order and to the last bit."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.errors import EpisodesError, EpisodesFileError, InputError
from ontarget.models import Marginal, QuantileForest
from ontarget.reading import PreparedEpisodes, prepare
from ontarget.reading.prepared import _buckets, preparing
from ontarget.target import Target
from refusals import refuses
from tests.prepared_logs import files_of, finished, in_files, log, same


@pytest.fixture(autouse=True)
def many_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several buckets, and several files of steps."""
    monkeypatch.setattr(_buckets, "_BUCKET_ROWS", 200)
    monkeypatch.setattr(preparing, "_FILE_ROWS", 250)


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
    with refuses(EpisodesFileError, None, "division", "'seed': 1"):
        prepare(folder, tmp_path / "out", seed=1, progress=False)
    log(5).write_parquet(folder / "1.parquet")
    with refuses(EpisodesFileError, None, "1.parquet"):
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
            with refuses(EpisodesFileError, None, "disk"):
                prepare(folder, out, progress=False)
            assert not (out / "manifest.json").exists()
    found = prepare(folder, out, progress=False)
    found.check()
    assert not list(out.rglob("*.part"))
    assert files_of(out) == files_of(prepare(folder, tmp_path / "other", progress=False).folder)


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")  # the fork
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_prepare_resumes_to_the_same_bytes(kills: int, tmp_path: Path) -> None:
    """A child is killed at a random call to the system, again and again, until it gets through."""
    folder, rng = in_files(tmp_path / "runs", log()), np.random.default_rng(kills)
    expected = files_of(prepare(folder, tmp_path / "whole", progress=False).folder)
    script = (
        "import os, signal, sys, random; random.seed(int(sys.argv[3]))\n"
        "from ontarget.reading.prepared import _buckets, preparing\n"
        "_buckets._BUCKET_ROWS, preparing._FILE_ROWS = 200, 250\n"
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


@pytest.mark.parametrize(
    ("column", "options", "given"),
    [
        (pl.col("run") % 3, {"group": "extra", "by_group": "stratify"}, {"group": "extra"}),
        ((pl.col("run") % 4 == 0) & (pl.col("step") > 2), {"intervened": "extra"}, {}),
        (
            (pl.col("run") % 5 == 0) & (pl.col("step") == pl.col("step").max().over("run")),
            {"truncated": "extra", "censored": "worst-case"},
            {},
        ),
        (pl.col("reward").sum().over("run"), {"outcome": "extra", "drop": ["reward"]}, {}),
    ],
)
def test_groups_interventions_cut_offs_and_outcomes_are_carried(
    column: pl.Expr, options: Any, given: Any, tmp_path: Path
) -> None:
    table = log(150).with_columns(column.alias("extra"))
    prepare(in_files(tmp_path / "runs", table), tmp_path / "out", progress=False, **options)
    files = []
    options.pop("by_group", None)
    for episodes in (Episodes.from_frame(table, **options), tmp_path / "out"):
        monitor = GoalMonitor(Marginal(), steps_per_model=3, min_calibration=2, **given)
        monitor.fit(episodes, progress=False).save(tmp_path / "model")
        files.append((tmp_path / "model").read_bytes())
    assert files[0] == files[1]


def test_what_is_not_prepared_is_refused(tmp_path: Path) -> None:
    source = finished(tmp_path)
    with refuses(EpisodesError, None, "sample(N)"):
        GoalMonitor(Marginal(), history=2).fit(source, progress=False)
    some = PreparedEpisodes(source).episodes.sample(20).compact()
    assert some.with_history(2).at(1).states.shape[1] > 2
    with refuses(EpisodesError, "target", "Episodes.read"):
        prepare(tmp_path / "runs", tmp_path / "other", target="speed", progress=False)


def test_what_is_settled_cannot_be_asked_again(tmp_path: Path) -> None:
    out = prepare(in_files(tmp_path / "runs", log()), tmp_path / "out", progress=False).folder
    with refuses(InputError, None, "split"):
        GoalMonitor().fit(out, assure=0.5, progress=False)
    with refuses(InputError, None, "max_learn"):
        GoalMonitor().fit(out, max_learn=10, progress=False)
    with refuses(EpisodesError, "reward", "out"):
        Episodes.read(out, reward="speed")
    with refuses(EpisodesError, None, "several"):
        prepare(out, tmp_path / "other", behavior={"a": "sum", "b": "max"}, progress=False)
    with refuses(EpisodesFileError, None, "nothing*"):
        prepare(tmp_path / "nothing*", tmp_path / "other", progress=False)
