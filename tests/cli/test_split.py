"""A log divided into older and newer runs: whole runs, and rows as they were."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Episodes
from ontarget.reading.dividing import divided_log
from tests.walks import walks

from .river import call, told

DAYS = ["2025-01-05", "2025-01-01", "2025-02-01", "2025-01-20", "2025-02-01"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five runs of two rows each, side by side, with values that a reader might spoil."""
    rows = [f'{i:03d},{step},1.50,"{DAYS[i]}","a, ""b""",\n' for step in (1, 2) for i in range(5)]
    (tmp_path / "log.csv").write_text("case,step,reward,started,note,empty\n" + "".join(rows))
    return tmp_path / "log.csv"


def parts(folder: Path, suffix: str = ".csv") -> tuple[Path, Path]:
    return folder / f"old{suffix}", folder / f"new{suffix}"


def test_runs_are_divided_at_a_date_and_rows_stay_as_they_are(log: Path) -> None:
    old, new = parts(log.parent)
    text = told(["split", log, "--by", "started", "--at", "2025-01-20", "-o", old, new])
    header, *rows = log.read_text().splitlines()
    later = [row for row in rows if row[:3] in ("002", "003", "004")]
    assert new.read_text().splitlines() == [
        header,
        *(
            row.replace('"2025-02-01"', "2025-02-01").replace('"2025-01-20"', "2025-01-20")
            for row in later
        ),
    ]
    assert pl.read_csv(old, infer_schema=False)["case"].to_list() == ["000", "001"] * 2
    assert "old.csv: 2 runs, 4 rows, started from 2025-01-01 00:00:00 to 2025-01-05" in text
    assert "new.csv: 3 runs, 6 rows" in text
    assert "--order started" in text


def test_a_share_is_taken_in_the_order_of_time_and_ties_stay_together(log: Path) -> None:
    old, new = parts(log.parent)
    found = json.loads(told(["split", log, "--by", "started", "-o", old, new, "--json"]))
    # Four of five would be old, but the last two started on the same day.
    assert (found["old"]["runs"], found["new"]["runs"]) == (3, 2)
    assert found["new"]["first"] == found["new"]["last"] == "2025-02-01 00:00:00"


def test_by_lot_the_order_of_the_file_plays_no_part(log: Path, tmp_path: Path) -> None:
    header, *rows = log.read_text().splitlines()
    (tmp_path / "turned.csv").write_text("\n".join([header, *rows[::-1]]) + "\n")
    drawn = [
        set(divided_log(tmp_path / name, share=0.6)[1].table["case"])
        for name in ("log.csv", "turned.csv")
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 2
    seeds = [set(divided_log(log, share=0.6, seed=k)[1].table["case"]) for k in range(8)]
    assert any(one != drawn[0] for one in seeds)


def test_a_written_file_keeps_its_description(tmp_path: Path) -> None:
    walks(40).write(tmp_path / "log.parquet")
    old, new = parts(tmp_path, ".parquet")
    told(["split", tmp_path / "log.parquet", "-o", old, new])
    whole, parts_ = Episodes.read(tmp_path / "log.parquet"), [Episodes.read(p) for p in (old, new)]
    assert [len(one) for one in parts_] == [32, 8]
    assert sorted(id_ for one in parts_ for id_ in one.ids.tolist()) == sorted(whole.ids.tolist())
    assert all(one.horizon == whole.horizon for one in parts_)
    assert all(one.schema == whole.schema for one in parts_)
    table = pl.read_parquet(tmp_path / "log.parquet")
    assert pl.read_parquet(old).schema == table.schema


def test_separators_and_several_key_columns_are_kept(tmp_path: Path) -> None:
    rows = [f"{site};{n};{n + 10 * (site == 'b')},5" for site in "ab" for n in range(3)]
    (tmp_path / "log.csv").write_text("\n".join(["site;case;reward", *rows]) + "\n")
    old, new = parts(tmp_path)
    asked = ["split", tmp_path / "log.csv", "--episode", "site,case", "--by", "reward"]
    told([*asked, "--at", "10", "-o", old, new])
    assert new.read_text() == "\n".join(["site;case;reward", *rows[3:]]) + "\n"


@settings(max_examples=25, deadline=None)
@given(
    starts=st.lists(st.integers(0, 9), min_size=2, max_size=12).filter(
        lambda one: len(set(one)) > 1
    ),
    share=st.floats(0.05, 0.95),
    data=st.data(),
)
def test_no_run_is_ever_torn_apart_or_lost(
    starts: list[int], share: float, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [(i, start, k) for i, start in enumerate(starts) for k in range(1 + i % 3)]
    rows = data.draw(st.permutations(rows))
    path = tmp_path_factory.mktemp("runs") / "log.parquet"
    pl.DataFrame(rows, schema=["run", "started", "k"], orient="row").write_parquet(path)
    old, new = (part.table for part in divided_log(path, by="started", share=share))
    assert not set(old["run"]) & set(new["run"])
    assert old.height + new.height == len(rows)
    assert old["started"].max() < new["started"].min()
    assert old.rows() == [row for row in rows if row[0] in set(old["run"])]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "2025-01-20"], "--at needs --by"),
        (["--by", "started", "--at", "2025-01-20", "--share", "0.5"], "not both"),
        (["--share", "1.5"], "strictly between 0 and 1, got 1.5"),
        (["--by", "begun"], "--by needs a column of the log, got 'begun'; it has case, step"),
        (["--by", "started", "--at", "noon"], "--at needs a date or time such as 2026-01-31"),
        (["--by", "case", "--at", "noon"], "--at needs a number, like the values of the"),
        (["--by", "started", "--at", "2030-01-01"], "none of these 5 runs starts at or after"),
        (["--by", "started", "--at", "2020-01-01"], "none of these 5 runs starts before"),
        (["--by", "reward"], "all 5 runs start at 1.5, so --by cannot divide them"),
        (["--by", "empty"], "has none that can be read"),
        (["--episode", "id"], "no episode column 'id'"),
    ],
)
def test_what_cannot_divide_the_runs_is_refused(log: Path, options: list[str], said: str) -> None:
    old, new = parts(log.parent)
    found = call(["split", log, "-o", old, new, *options])
    assert found.exit_code in (1, 2)
    assert said in found.output
    assert not old.exists()


def test_a_log_is_never_written_over(log: Path) -> None:
    found = call(["split", log, "-o", log, log.parent / "new.csv"])
    assert found.exit_code == 1
    assert "three different files" in found.output
