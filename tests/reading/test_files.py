from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from polars.testing import assert_frame_equal

from ontarget import Episodes
from ontarget.errors import EpisodesError, EpisodesFileError, EpisodesWarning
from ontarget.reading import prepare
from refusals import refuses
from tests.episodes.recordings import in_time_order, recordings

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@same_folder
@given(frame=recordings())
def test_frame_to_parquet_to_episodes_to_frame_is_exact(
    frame: pl.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "runs.parquet"
    frame.write_parquet(path)
    back = Episodes.read(path).to_frame().select(frame.columns)
    assert_frame_equal(back, in_time_order(frame), check_exact=True)


@same_folder
@given(frame=recordings())
def test_writing_and_reading_gives_the_same_episodes(frame: pl.DataFrame, tmp_path: Path) -> None:
    runs = Episodes.from_frame(frame, behavior="discounted:0.9", horizon=6)
    for ending, options in (
        (".parquet", {}),
        (".csv", {"behavior": "discounted:0.9", "horizon": 6}),
    ):
        path = tmp_path / f"runs{ending}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EpisodesWarning)
            runs.write(path)
        again = Episodes.read(path, **options)
        assert again.ids.tolist() == runs.ids.tolist()
        assert again.outcomes.tolist() == runs.outcomes.tolist()
        assert again.behavior == runs.behavior
        assert again.horizon == runs.horizon
        for t in range(6):
            np.testing.assert_array_equal(again.at(t).states, runs.at(t).states)
        if ending == ".parquet":
            assert again.schema == runs.schema
            assert_frame_equal(again.to_frame(), runs.to_frame())


def test_parquet_keeps_whether_the_horizon_was_declared(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    for horizon in (None, 5):
        Episodes.from_arrays(np.zeros((2, 5, 1)), np.ones((2, 5)), horizon=horizon).write(path)
        again = Episodes.read(path)
        assert (again.horizon, again.horizon_declared) == (5, horizon is not None)
    assert Episodes.read(path, horizon=7).horizon_declared
    # A file written before the flag existed says nothing, so nothing was declared.
    text = json.loads(pl.read_parquet_metadata(path)["ontarget"])
    del text["horizon_declared"]
    pl.read_parquet(path).write_parquet(path, metadata={"ontarget": json.dumps(text)})
    assert not Episodes.read(path).horizon_declared


def test_csv_says_that_it_loses_a_declared_horizon(tmp_path: Path) -> None:
    runs = Episodes.from_arrays(np.zeros((2, 5, 1)), np.ones((2, 5)), horizon=5)
    with pytest.warns(EpisodesWarning, match=r"runs\.csv.* 5"):
        runs.write(tmp_path / "runs.csv")
    assert not Episodes.read(tmp_path / "runs.csv").horizon_declared
    Episodes.from_arrays(np.zeros((2, 5, 1)), np.ones((2, 5))).write(tmp_path / "runs.csv")


def walk(tmp_path: Path, ending: str = ".parquet") -> tuple[Episodes, Path]:
    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(rng.normal(size=(9, 5, 2)), rng.normal(size=(9, 5)))
    path = tmp_path / f"walk{ending}"
    runs.write(path)
    return runs, path


def test_a_part_is_written_as_a_part(tmp_path: Path) -> None:
    runs, path = walk(tmp_path)
    runs.take([5, 2]).write(path)
    assert Episodes.read(path).ids.tolist() == [5, 2]


def test_parquet_keeps_dictionaries_and_roles(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"run": [1, 1, 2], "t": [1, 2, 1], "mode": ["a", "c", "b"], "gain": [1.0, 2.0, 3.0]}
    )
    options = {"episode": "run", "step": "t", "reward": "gain", "first_step": 1}
    runs = Episodes.from_frame(frame, **options)
    runs.take([1]).write(tmp_path / "part.parquet")
    part = Episodes.read(tmp_path / "part.parquet")
    assert part.schema.features[0].categories == ("a", "b", "c")
    assert part.roles == runs.roles
    assert part.horizon == 2


def test_options_overrule_what_a_file_says_of_itself(tmp_path: Path) -> None:
    _, path = walk(tmp_path)
    assert Episodes.read(path, behavior="max").behavior.spec == "max"
    assert Episodes.read(path, features=["x1"]).schema.names == ("x1",)


def test_rows_of_one_step_are_one_slice_of_the_file(tmp_path: Path) -> None:
    _, path = walk(tmp_path)
    assert pl.read_parquet(path)["step"].to_list() == sorted([*range(5)] * 9)


def test_no_half_written_file_is_left_behind(tmp_path: Path) -> None:
    runs, path = walk(tmp_path)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(EpisodesFileError):
        runs.write(tmp_path / "folder.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.parquet", path.name]
    with pytest.raises(EpisodesFileError):
        runs.write(tmp_path / "nowhere" / "runs.parquet")


def test_every_truncation_of_a_parquet_file_is_refused(tmp_path: Path) -> None:
    runs, path = walk(tmp_path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with refuses(EpisodesFileError, None, "walk.parquet"):
            Episodes.read(path)
    path.write_bytes(whole)
    assert Episodes.read(path).outcomes.tolist() == runs.outcomes.tolist()


def write_csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", (EpisodesFileError, None, "runs.csv", "empty")),
        ("episode,step,reward\n", (EpisodesError, None, "no rows")),
        (
            "episode,step,speed,reward\n1,0,2.0,1.0\n1,1,2.0\n",
            (EpisodesFileError, None, "line 3", "3 fields", "'1,1,2.0'"),
        ),
        (
            "episode,step,reward\n1,0,1.0\n1,1,2.0,7\n",
            (EpisodesFileError, None, "line 3", "4 fields"),
        ),
        (
            "episode,step,reward\n1,0,1.0\n1,1,\n",
            (EpisodesError, None, "'reward'", "nan", "episode 1, step 1"),
        ),
        (
            "episode,step,reward\n1,0,1.0\n1,1,x\n",
            (EpisodesError, None, "'reward'", "'x'", "episode 1, step 1"),
        ),
        (
            "episode,step,v,reward\n1,0,2,1\n1,1,-,2\n",
            (EpisodesError, "categorical", "'-'", "'v'", "episode 1, step 1"),
        ),
        ("1,0,1.5\n1,1,2.5\n", (EpisodesFileError, None, "runs.csv", "1, 0, 1.5")),
        ("1,1,0.5\n1,2,2.5\n", (EpisodesFileError, None, "runs.csv", "1, 1, 0.5")),
        ("episode:step:reward\n1:0:1.0\n", (EpisodesFileError, None, "'episode:step:reward'")),
        (
            " 1 1  -0.0007 100.0 \n 1 2  0.0019 99.5 \n",
            (EpisodesFileError, None, "runs.csv", "1, 1, -0.0007, 100.0"),
        ),
        ("FD001;1;0.5\nFD001;2;0.7\n", (EpisodesFileError, None, "runs.csv", "1, 0.5")),
        (
            "episode;step;reward\n1;0;1.0\n1;1\n",
            (EpisodesFileError, None, "line 3", "2 fields", "'1;1'"),
        ),
        (
            "episode;step;reward\n1;0;1.0\n1;1;2;7\n",
            (EpisodesFileError, None, "line 3", "4 fields"),
        ),
        ("a;b\n1;0\n", (EpisodesError, "episode", "a, b", "semicolons")),
        ("a,step,reward\n1,0,1.0\n", (EpisodesError, "episode", "a, step, reward")),
    ],
)
def test_bad_csv_files_are_refused(tmp_path: Path, text: str, refusal: tuple) -> None:
    with refuses(*refusal):
        Episodes.read(write_csv(tmp_path, text))


def test_quoted_commas_and_missing_last_fields_are_fine(tmp_path: Path) -> None:
    text = 'episode,step,reward,note,v\n1,0,1.0,"a,b",2\n1,1,2.0,"c",\n'
    runs = Episodes.read(write_csv(tmp_path, text))
    assert runs.schema.features[0].categories == ("a,b", "c")
    assert np.isnan(runs.at(1).states[0, 1])


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    runs, _ = walk(tmp_path)
    with refuses(EpisodesFileError, None, "none.parquet"):
        Episodes.read(tmp_path / "none.parquet")
    (tmp_path / "runs.xlsx").write_text("")
    with refuses(EpisodesFileError, None, "runs.xlsx", ".parquet", ".csv"):
        Episodes.read(tmp_path / "runs.xlsx")
    with refuses(EpisodesFileError, None, "runs.xlsx", ".parquet", ".csv"):
        runs.write(tmp_path / "runs.xlsx")
    (tmp_path / "text.parquet").write_text("hello")
    with refuses(EpisodesFileError, None, "text.parquet"):
        Episodes.read(tmp_path / "text.parquet")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}', json.dumps({"version": 99})])
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    _, path = walk(tmp_path)
    pl.read_parquet(path).lazy().sink_parquet(path, metadata={"ontarget": text})
    with refuses(EpisodesFileError, None, "walk.parquet"):
        Episodes.read(path)


ROWS = [["episode", "step", "größe", "reward"], ["a", "0", "1.5", "1"], ["a", "1", "2.5", "-1"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "   "])
def test_a_text_table_is_read_whatever_its_signs(
    tmp_path: Path, encoding: str, separator: str
) -> None:
    text = "\r\n".join(separator.join(row) for row in ROWS)
    (tmp_path / "runs.csv").write_bytes(f"{text}\r\n".encode(encoding))
    runs = Episodes.read(tmp_path / "runs.csv")
    assert runs.schema.names == ("größe",)
    assert runs.at(1).states.tolist() == [[2.5]]
    signs = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces", "   ": "spaces"}
    told = {"utf-16": "UTF-16", "latin-1": "not UTF-8", "cp1252": "not UTF-8"}
    assert len(runs.remarks) == (separator in signs) + (encoding in told)
    assert signs.get(separator, "") in "".join(runs.remarks)
    assert told.get(encoding, "") in "".join(runs.remarks)


def test_decimal_commas_are_read_and_told(tmp_path: Path) -> None:
    text = "episode;step;reward;note\n1;0;0,5;a,b\n1;1;-1,25;c\n"
    runs = Episodes.read(write_csv(tmp_path, text))
    assert runs.outcomes.tolist() == [-0.75]
    assert "decimal commas" in runs.remarks[-1]
    assert runs.schema.features[0].categories == ("a,b", "c")


def test_an_object_instead_of_a_path_is_refused_with_the_way_out() -> None:
    with refuses(EpisodesError, "path", "DataFrame"):
        Episodes.read(pl.DataFrame())


def test_tabs_need_no_other_ending_and_quoted_signs_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "runs.tsv").write_text("episode\tstep\treward\n1\t0\t2\n")
    assert Episodes.read(tmp_path / "runs.tsv").outcomes.tolist() == [2.0]
    text = 'episode;step;"reward, in euros"\n1;0;2.5\n'
    runs = Episodes.read(write_csv(tmp_path, text), reward="reward, in euros")
    assert runs.outcomes.tolist() == [2.5]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_carriage_returns_after_numbers_are_ignored_and_after_text_named(
    tmp_path: Path, line_end: str
) -> None:
    rows = [f"r{i},{t},{t}\r,a\r,1.5" for i in range(3) for t in range(2)]
    file = tmp_path / "log.csv"
    file.write_bytes(line_end.join(["run,step,hours,team,extra", *rows, ""]).encode())
    runs = Episodes.read(file, reward="hours")
    assert runs.outcomes.tolist() == [1.0] * 3
    [note] = [one for one in runs.remarks if "carriage" in one]
    assert "team" in note
    assert "hours" not in note
    file.write_bytes(file.read_bytes().replace(b"\r,", b","))
    assert not [one for one in Episodes.read(file, reward="hours").remarks if "carriage" in one]


@pytest.mark.parametrize("stem", ["a\0b", "x" * 5_000, "x/" * 3_000, "\ud800"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_name_that_no_file_can_have_is_refused(stem: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"{stem}{ending}"
    runs = Episodes.from_arrays(np.zeros((3, 2, 1)), np.ones((3, 2)))
    with pytest.raises(EpisodesFileError):
        Episodes.read(path)
    with pytest.raises(EpisodesFileError):
        runs.write(path)
    with pytest.raises(EpisodesFileError):
        prepare(path, tmp_path / "prepared")
    with pytest.raises(EpisodesFileError):
        prepare(tmp_path, path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no file has such a name")
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_name_that_polars_cannot_open_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a\udc80b{ending}"
    Episodes.from_arrays(np.zeros((3, 2, 1)), np.ones((3, 2))).write(tmp_path / f"a{ending}")
    (tmp_path / f"a{ending}").rename(path)
    with pytest.raises(EpisodesFileError):
        Episodes.read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names on Windows")
@pytest.mark.parametrize("name", ["runs.csv", "*.csv", "."])
def test_a_pipe_is_never_prepared(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in" / "runs.csv")
    with pytest.raises(EpisodesFileError):
        prepare(str(tmp_path / "in" / name), tmp_path / "prepared")
