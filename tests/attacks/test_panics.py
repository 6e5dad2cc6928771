"""Polars gives up inside on a hostile table: one message of ours, never a traceback.

Such a panic is a BaseException and no Exception, so what catches all errors does not catch it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest

from ontarget import Episodes
from ontarget.errors import EpisodesFileError
from ontarget.reading import prepare
from refusals import refuses
from tests.cli.river import call
from tests.reading.minari_folders import write_as_arrow, write_dataset
from tests.reading.test_lerobot import dataset

SAID = "index out of bounds: the len is 2\n  but the index is 9\x1b[2J"
TABLE = pl.DataFrame(
    {"episode": [0, 0, 1], "step": [0, 1, 0], "reward": [1.0, 2.0, 3.0], "x": [0.1, 0.2, 0.3]}
)


def csv(folder: Path) -> Path:
    TABLE.write_csv(folder / "runs.csv")
    return folder / "runs.csv"


def parquet(folder: Path) -> Path:
    TABLE.write_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


def lerobot(folder: Path) -> Path:
    return dataset(folder / "runs", **{"next.reward": [0.0] * 5})


def minari(folder: Path, ending: str) -> Path:
    write_as_arrow(folder / "runs", write_dataset(folder / "runs"), ending)
    return folder / "runs"


def arrow(folder: Path) -> Path:
    return minari(folder, "arrow")


def arrow_in_parquet(folder: Path) -> Path:
    return minari(folder, "parquet")


def panic(*_: Any, **__: Any) -> NoReturn:
    raise pl.exceptions.PanicException(SAID)


PLACES = [
    (csv, pl.LazyFrame, "collect"),
    (parquet, pl.LazyFrame, "collect"),
    (parquet, pl, "read_parquet_metadata"),
    (lerobot, pl.LazyFrame, "collect"),
    (arrow, pl, "read_ipc"),
    (arrow_in_parquet, pl, "read_parquet"),
]


def test_a_panic_is_no_exception() -> None:
    assert not issubclass(pl.exceptions.PanicException, Exception)


@pytest.mark.parametrize(("made", "owner", "name"), PLACES)
def test_a_panic_while_reading_is_one_message_that_names_the_file(
    made: Callable[[Path], Path],
    owner: Any,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = made(tmp_path)
    assert len(Episodes.read(path, censored="drop")) > 1
    monkeypatch.setattr(owner, name, panic)
    with refuses(EpisodesFileError, None, path.name, "index out") as found:
        Episodes.read(path)
    assert str(found.value).isprintable()
    for command in (["look", path], ["fit", path, "-o", tmp_path / "m.ontarget"]):
        ended = call(command)
        assert ended.exit_code == 1, ended.output
        assert ended.stderr.startswith(f"ontarget: {path.name} ")
        assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "m.ontarget").exists()


@pytest.mark.parametrize("made", [csv, parquet])
def test_a_panic_while_dividing_or_preparing_a_log_is_one_message(
    made: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path)
    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with refuses(EpisodesFileError, None, path.name, "damaged", "index out"):
        prepare(path, tmp_path / "prepared")
    monkeypatch.setattr(pl, "read_parquet", panic)
    divided = [tmp_path / f"{part}{path.suffix}" for part in ("old", "new")]
    ended = call(["split", path, "-o", *divided])
    assert ended.exit_code == 1, ended.output
    assert ended.stderr.startswith(f"ontarget: {path.name} ")
    assert "index out" in ended.stderr
    assert not any(one.exists() for one in divided)


@pytest.mark.parametrize("made", [csv, parquet])
def test_a_panic_while_writing_calls_no_file_damaged_and_leaves_none(
    made: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path)
    runs, before = Episodes.read(path), path.read_bytes()
    monkeypatch.setattr(pl.LazyFrame, f"sink_{path.suffix[1:]}", panic)
    with refuses(EpisodesFileError, None, path.name, "written", "index out"):
        runs.write(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["read_parquet_schema", "read_parquet"])
def test_a_panic_over_the_work_of_a_preparation_is_one_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pl, name, panic)
    with refuses(EpisodesFileError, None, "index out"):
        prepare(parquet(tmp_path), tmp_path / "prepared")
