from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.errors import EpisodesFileError
from ontarget.reading import prepare
from refusals import refuses

FEATURES: dict[str, Any] = {
    "observation.state": {"dtype": "float32", "shape": [2], "names": {"motors": ["arm", "wrist"]}},
    "observation.force": {"dtype": "float32", "shape": [1], "names": None},
    "observation.images.top": {"dtype": "video", "shape": [480, 640, 3]},
    "action": {"dtype": "float32", "shape": [2]},
}


def dataset(folder: Path, *, version: int = 3, fixed: bool = False, **late: list[Any]) -> Path:
    """Two episodes of 3 and 2 frames; version 3 has them in one file, version 2 in two."""
    kind = pl.Array(pl.Float32, 2) if fixed else pl.List(pl.Float32)
    table = pl.DataFrame(
        {
            "episode_index": [0, 0, 0, 1, 1],
            "frame_index": [0, 1, 2, 0, 1],
            "timestamp": [0.0, 0.1, 0.2, 0.0, 0.1],
            "index": range(5),
            "observation.state": pl.Series([[float(i), -float(i)] for i in range(5)], dtype=kind),
            "observation.force": [[0.5 * i] for i in range(5)],
            "action": [[9.0, 9.0]] * 5,
            **late,
        }
    )
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"features": FEATURES}))
    data = folder / "data" / "chunk-000"
    data.mkdir(parents=True)
    if version == 3:
        table.write_parquet(data / "file-000.parquet")
    else:
        for i in (0, 1):
            part = table.filter(pl.col("episode_index") == i)
            part.write_parquet(data / f"episode_00000{i}.parquet")
    return folder


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("fixed", [False, True])
def test_observed_numbers_are_the_state(tmp_path: Path, version: int, fixed: bool) -> None:
    rewards = [[1.0], [2.0], [3.0], [4.0], [5.0]]
    folder = dataset(tmp_path / "set", version=version, fixed=fixed, **{"next.reward": rewards})
    runs = Episodes.read(folder)
    names = ("observation.state.arm", "observation.state.wrist", "observation.force.0")
    assert runs.schema.names == names
    assert runs.at(1).states.tolist() == [[1.0, -1.0, 0.5], [4.0, -4.0, 2.0]]
    assert runs.outcomes.tolist() == [6.0, 9.0]
    assert runs.lengths.tolist() == [3, 2]
    assert runs.remarks == ()
    assert Episodes.read(folder, drop=["observation.force.0"]).schema.names == names[:2]


def test_a_run_without_rewards_is_judged_by_its_success(tmp_path: Path) -> None:
    success = {"next.success": [False, False, True, False, False]}
    runs = Episodes.read(dataset(tmp_path / "set", **success))
    assert (runs.outcomes.tolist(), runs.behavior.spec) == ([1.0, 0.0], "max")
    both = dataset(tmp_path / "both", **success, **{"next.reward": [0.0, 1.0, 1.0, 2.0, 0.0]})
    assert Episodes.read(both).outcomes.tolist() == [2.0, 2.0]
    again = Episodes.read(tmp_path / "set", like=runs)
    assert again.outcomes.tolist() == runs.outcomes.tolist()


def test_an_image_inside_the_table_is_left_out(tmp_path: Path) -> None:
    image = {"observation.image": [{"bytes": b"png", "path": "x"}] * 5, "next.reward": [1.0] * 5}
    assert len(Episodes.read(dataset(tmp_path / "set", **image)).schema) == 3


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with refuses(EpisodesFileError, None, "next.reward", "next.success"):
        Episodes.read(dataset(tmp_path / "set"))
    folder = dataset(tmp_path / "other", **{"next.reward": [1.0] * 5})
    (folder / "meta" / "info.json").write_text("{")
    with refuses(EpisodesFileError, None, "other", "meta/info.json"):
        Episodes.read(folder)
    (folder / "meta" / "info.json").write_text('{"features": {"observation.state": 3}}')
    with refuses(EpisodesFileError, None, "'observation.state'"):
        Episodes.read(folder)
    (folder / "data" / "chunk-000" / "file-000.parquet").write_text("no")
    with refuses(EpisodesFileError, None, "other"):
        Episodes.read(folder)
    (folder / "data" / "chunk-000" / "file-000.parquet").unlink()
    with refuses(EpisodesFileError, None, "data/*/*.parquet"):
        Episodes.read(folder)


def described(folder: Path, **features: Any) -> Path:
    (folder / "meta" / "info.json").write_text(json.dumps({"features": {**FEATURES, **features}}))
    return folder


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("names", [["arm"], ["arm", "wrist", "hand"], None])
@pytest.mark.parametrize("shape", [1, 3])
def test_lists_longer_or_shorter_than_described_are_refused(
    tmp_path: Path, names: list[str] | None, shape: int, fixed: bool
) -> None:
    folder = dataset(tmp_path / "set", fixed=fixed, **{"next.reward": [1.0] * 5})
    described(folder, **{"observation.state": {"shape": [shape], "names": names}})
    with refuses(EpisodesFileError, None, "'observation.state'", f"{shape} number"):
        Episodes.read(folder)


@pytest.mark.parametrize("names", [["arm", "wrist", "hand"], {"motors": ["a", "b", "c", "d"]}])
def test_as_many_names_as_numbers_are_needed(tmp_path: Path, names: Any) -> None:
    folder = dataset(tmp_path / "set", **{"next.reward": [1.0] * 5})
    described(folder, **{"observation.state": {"shape": [2], "names": names}})
    with refuses(EpisodesFileError, None, "'observation.state'", "2 numbers", "names"):
        Episodes.read(folder)
    described(folder, **{"observation.state": {"shape": [2], "names": ["state"]}})
    assert "observation.state.1" in Episodes.read(folder).schema.names


@pytest.mark.parametrize("odd", [[], [1.0, 2.0, 3.0], [1.0]])
def test_one_list_of_another_length_is_refused(tmp_path: Path, odd: list[float]) -> None:
    folder = dataset(tmp_path / "set", version=2, **{"next.reward": [1.0] * 5})
    path = folder / "data" / "chunk-000" / "episode_000001.parquet"
    lists = pl.Series("observation.state", [[1.0, 2.0], odd], dtype=pl.List(pl.Float32))
    pl.read_parquet(path).with_columns(lists).write_parquet(path)
    with refuses(EpisodesFileError, None, "'observation.state'", "2 numbers", f"one of {len(odd)}"):
        Episodes.read(folder)


def test_a_list_that_is_missing_counts_as_missing_numbers(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "set", **{"next.reward": [1.0] * 5})
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    gap = pl.Series("observation.state", [[1.0, 2.0], None] * 2 + [[3.0, 4.0]])
    pl.read_parquet(path).with_columns(gap).write_parquet(path)
    assert np.isnan(Episodes.read(folder).at(1).states[:, :2]).any()


def test_a_reward_of_several_numbers_is_refused(tmp_path: Path) -> None:
    reward = {"next.reward": [[1.0, 2.0]] * 5}
    with refuses(EpisodesFileError, None, "'next.reward'"):
        Episodes.read(dataset(tmp_path / "set", **reward))
    one = {"next.reward": [[1.0]] * 5}
    assert Episodes.read(dataset(tmp_path / "one", **one)).outcomes.tolist() == [3.0, 2.0]


def special(path: Path, kind: str) -> None:
    """Put a pipe, a socket or a link to a device at this path."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize(
    "name", ["meta/info.json", "data/chunk-000/file-000.parquet", "data/chunk-000/more.parquet"]
)
def test_a_pipe_socket_or_device_is_refused_without_opening_it(
    tmp_path: Path, name: str, kind: str
) -> None:
    folder = dataset(tmp_path / "set", **{"next.reward": [1.0] * 5})
    special(folder / name, kind)
    for read in (Episodes.read, lambda path: prepare(path, tmp_path / "out", progress=False)):
        with refuses(EpisodesFileError, None, Path(name).name):
            read(folder)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_a_special_file_is_not_prepared(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "logs").mkdir()
    special(tmp_path / "logs" / name, kind)
    for source in (tmp_path / "logs", tmp_path / "logs" / name, str(tmp_path / "logs" / "*")):
        with refuses(EpisodesFileError, None, name):
            prepare(source, tmp_path / "out", progress=False)
    with refuses(EpisodesFileError, None, name):
        Episodes.read(tmp_path / "logs" / name)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize(
    "name", ["data/main_data.hdf5", "data/metadata.json", "data/0/one.parquet"]
)
def test_a_special_file_in_a_minari_folder_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "set"
    (folder / "data" / "0").mkdir(parents=True)
    box = json.dumps({"type": "Box", "shape": [1], "dtype": "float64", "low": [0], "high": [1]})
    told = {"data_format": "parquet", "total_episodes": 1, "observation_space": box}
    (folder / "data" / "metadata.json").write_text(json.dumps(told))
    special(folder / name, kind)
    with refuses(EpisodesFileError, None, Path(name).name):
        Episodes.read(folder)
