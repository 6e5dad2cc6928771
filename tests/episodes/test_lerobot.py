from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ontarget import Episodes
from ontarget.errors import EpisodesFileError

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
    with pytest.raises(EpisodesFileError, match=r"neither next\.reward nor next\.success"):
        Episodes.read(dataset(tmp_path / "set"))
    folder = dataset(tmp_path / "other", **{"next.reward": [1.0] * 5})
    (folder / "meta" / "info.json").write_text("{")
    with pytest.raises(EpisodesFileError, match=r"other: meta.info.json is damaged"):
        Episodes.read(folder)
    (folder / "meta" / "info.json").write_text('{"features": {"observation.state": 3}}')
    with pytest.raises(EpisodesFileError, match=r"does not say the shape of 'observation.state'"):
        Episodes.read(folder)
    (folder / "data" / "chunk-000" / "file-000.parquet").write_text("no")
    with pytest.raises(EpisodesFileError, match="other"):
        Episodes.read(folder)
    (folder / "data" / "chunk-000" / "file-000.parquet").unlink()
    with pytest.raises(EpisodesFileError, match=r"needs data/\*/\*.parquet files"):
        Episodes.read(folder)
