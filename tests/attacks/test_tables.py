"""Hostile CSV and Parquet files: each is read rightly or refused with one clear message."""

from __future__ import annotations

import json
import os
import resource
import string
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget._text import plain
from ontarget.errors import EpisodesError, EpisodesFileError
from refusals import refuses

FAST, SLOW = 70, 700  # of each kind; Minari datasets and JSON lines have as many
SECONDS, MEGABYTES = 5.0, 400

VALUES: list[Any] = [
    *("", " ", "nan", "NaN", "inf", "-inf", "1e999", "-1e400", "null", "None", "true", "0x10"),
    *("1_000", "1,5", "²", "٣", "\x00", "\x1b[2J", "=1+1", "@x", "a" * 10_000, '"', '""', "'"),
    *("9" * 400, str(2**63), str(2**64), str(-(2**63) - 1), str(2**53 + 1), "1e-400", "5e-324"),
    *("-0", "2020-01-01", "\ufeff1", "\udc80", "[1,2]", "{}", "\r", "a\nb", "a,b", "🤖", "-1"),
]


def table(rng: np.random.Generator) -> pl.DataFrame:
    """A sound table of a few episodes."""
    lengths = rng.integers(1, 5, size=rng.integers(1, 6))
    rows = int(lengths.sum())
    return pl.DataFrame(
        {
            "episode": np.repeat(np.arange(lengths.size), lengths),
            "step": np.concatenate([np.arange(n) for n in lengths]),
            "reward": np.round(rng.normal(size=rows), 3),
            "speed": rng.normal(size=rows),
            "mode": rng.choice(["on", "off"], size=rows),
        }
    )


# A value replaced, quoted; a line cut, made longer; a field, a line repeated; a line left out; the
# separator changed; the lines shuffled.
_OFTEN = [0.25, 0.25, 0.05, 0.05, 0.1, 0.1, 0.1, 0.05, 0.05]


def hostile_csv(rng: np.random.Generator) -> bytes:
    """A sound file with a few things done to it."""
    lines = table(rng).write_csv().splitlines()
    for _ in range(rng.integers(1, 4)):
        at, kind = int(rng.integers(len(lines))), rng.choice(9, p=_OFTEN)
        fields = lines[at].split(",")
        place, value = int(rng.integers(len(fields))), str(VALUES[rng.integers(len(VALUES))])
        if kind == 0:
            fields[place] = value
        elif kind == 1:
            fields[place] = '"' + value.replace('"', '""') + '"'
        elif kind == 2:
            fields = fields[:place]
        elif kind == 3:
            fields += [value] * int(rng.integers(1, 4))
        elif kind == 4:
            fields[place] = fields[rng.integers(len(fields))]
        lines[at] = ",".join(fields)
        if kind == 5:
            lines.insert(at, lines[rng.integers(len(lines))])
        elif kind == 6 and len(lines) > 1:
            del lines[at]
        elif kind == 7:
            lines = [line.replace(",", ";" if rng.integers(2) else "\t") for line in lines]
        elif kind == 8:
            rng.shuffle(lines)
    text = ("\n", "\r\n", "\r")[rng.choice(3, p=[0.8, 0.1, 0.1])].join(lines)
    return _damaged(text.encode("utf-8", "surrogatepass"), rng)


def _damaged(data: bytes, rng: np.random.Generator) -> bytes:
    kind = rng.integers(10)
    at = int(rng.integers(len(data) + 1))
    noise = rng.integers(256, size=8, dtype=np.uint8).tobytes()
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + noise + data[at + 4 :]
    if kind == 2:
        return b"\xef\xbb\xbf" + data
    if kind == 3:
        return data.decode("utf-8", "replace").encode("utf-16")
    return data


def hostile_parquet(rng: np.random.Generator, path: Path) -> None:
    """A Parquet file whose types, values, description or bytes are not as they should be."""
    frame, kind = table(rng), rng.integers(4)
    dtypes: list[Any] = [
        *(pl.UInt64, pl.Int128, pl.UInt8, pl.Float32, pl.Boolean, pl.String, pl.Categorical),
        *(pl.Date, pl.Datetime("ns"), pl.Duration, pl.Binary, pl.Decimal(20, 2), pl.Null),
        *(pl.List(pl.Int64), pl.Struct({"a": pl.Int64}), pl.Time, pl.Array(pl.Int64, 2)),
    ]
    if kind == 0:
        name = frame.columns[rng.integers(frame.width)]
        dtype = dtypes[rng.integers(len(dtypes))]
        try:
            frame = frame.with_columns(frame[name].cast(dtype, strict=False))
        except pl.exceptions.PolarsError:
            frame = frame.with_columns(pl.Series(name, [None] * frame.height, dtype=dtype))
    elif kind == 1:
        name = frame.columns[rng.integers(4)]
        extremes = [2**53 + 1, 2**63 - 1, -(2**63), 0, 10**6]
        value = extremes[rng.integers(len(extremes))]
        values = frame[name].cast(pl.Int64).to_list()
        values[rng.integers(len(values))] = value
        frame = frame.with_columns(pl.Series(name, values, dtype=pl.Int64))
    described = {}
    if kind == 2:
        Episodes.from_frame(frame).write(path)
        described = {"ontarget": _forged(pl.read_parquet_metadata(path)["ontarget"], rng)}
    try:
        frame.write_parquet(path, metadata=described or None)
    except pl.exceptions.ComputeError:  # the oldest polars cannot write such integers
        frame.cast({pl.Int128: pl.Int64}).write_parquet(path, metadata=described or None)
    if kind == 3:
        path.write_bytes(_damaged(path.read_bytes(), rng))


def _forged(text: str, rng: np.random.Generator) -> str:
    """A description with one of its values replaced."""
    found = json.loads(text)
    values: list[str] = [
        *("1e999", "-1", "0", "1e308", str(10**30), "null", "true", '"x"', "[]", "{}", "NaN"),
        *("[" * 100_000, '{"a":' * 5_000, '"\\u0000\\ud800"', "2.5", str(2**31), '"column:mode"'),
        *('{"like": 1}', '{"first_step": -9223372036854775808}', '{"episode": 5}', "9" * 5_000),
        *('[{"name": "speed", "dtype": "text", "categories": ["a", "a"]}]', '[{"name": "speed"}]'),
    ]
    places: list[tuple[Any, Any]] = [(found, key) for key in found]
    places += [(found["roles"], key) for key in found["roles"]]
    places += [(one, key) for one in found["features"] for key in one]
    holder, key = places[rng.integers(len(places))]
    holder[key] = "@@"
    return json.dumps(found).replace('"@@"', values[rng.integers(len(values))], 1)


def ending(path: Path) -> str:
    """How reading a file ends: "read", or the kind of its refusal; anything else is a failure."""
    began = time.process_time()
    try:
        runs = Episodes.read(path)
    except EpisodesError as error:
        found, message = type(error).__name__, str(error)
        assert 10 < len(message) < 5_000, message
        assert message == plain(message, most=len(message))
    else:
        found = "read"
        assert np.isfinite(runs.outcomes).all()
        assert runs.lengths.min() >= 1
        assert runs.lengths.max() <= runs.horizon < 2**31
        assert not np.isinf(runs.at(0).states).any()
        runs.describe().encode()
    assert time.process_time() - began < SECONDS
    return found


def attack(kind: str, folder: Path, seeds: range) -> Counter[str]:
    """How reading so many hostile files ends, after a check of what it took in memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: Counter[str] = Counter()
    for seed in seeds:
        path, rng = folder / f"{seed}.{kind}", np.random.default_rng(seed)
        if kind == "csv":
            path.write_bytes(hostile_csv(rng))
        else:
            hostile_parquet(rng, path)
        try:
            found[ending(path)] += 1
        except BaseException as error:
            raise AssertionError(f"{kind} of seed {seed}: {error!r}") from error
        path.unlink()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MEGABYTES
    return found


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_hostile_table_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    found = attack(kind, tmp_path, range(FAST))
    assert found["read"] > 3, found
    assert found.total() - found["read"] > 10, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_many_hostile_tables_are_read_or_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attack(kind, tmp_path, range(FAST, FAST + SLOW))
    with capsys.disabled():
        sys.stdout.write(f"\n{SLOW:,} hostile {kind} files: {dict(found)}\n")
    assert found.total() == SLOW


def test_unsigned_columns_are_read_in_every_part(tmp_path: Path) -> None:
    frame = table(np.random.default_rng(0))
    wide = frame.with_columns(
        pl.col("episode", "step").cast(pl.UInt64), count=pl.lit(2**53, dtype=pl.UInt64)
    )
    runs = Episodes.from_frame(wide)
    assert runs.outcomes.tolist() == Episodes.from_frame(frame).outcomes.tolist()
    assert runs.at(0).states[0, -1] == 2.0**53
    path = tmp_path / "runs.parquet"
    runs.write(path)
    assert Episodes.read(path).to_frame()["count"].dtype == pl.UInt64
    for name in ("count", "step"):
        large = wide.with_columns(pl.lit(2**64 - 1, dtype=pl.UInt64).alias(name))
        with refuses(EpisodesError, None, f"'{name}'", "2**53"):
            Episodes.from_frame(large)
    names = wide.with_columns(pl.col("episode") + 2**63)
    assert Episodes.from_frame(names).ids[0] == 2**63


@pytest.mark.parametrize("place", ["version", "behavior", "horizon", "features", "roles"])
@pytest.mark.parametrize("value", ["1e999", "[" * 100_000, '{"a":' * 100_000, "9" * 5_000])
def test_a_description_of_endless_numbers_or_depth_is_refused(
    place: str, value: str, tmp_path: Path
) -> None:
    path, frame = tmp_path / "runs.parquet", table(np.random.default_rng(0))
    Episodes.from_frame(frame).write(path)
    found = json.loads(pl.read_parquet_metadata(path)["ontarget"]) | {place: "@@"}
    text = json.dumps(found).replace('"@@"', value)
    frame.write_parquet(path, metadata={"ontarget": text})
    with refuses(EpisodesFileError, None, "runs.parquet"):
        Episodes.read(path)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float32", "float16", "no type", ""])
def test_a_type_that_a_forged_description_names_changes_no_number(
    dtype: str, tmp_path: Path
) -> None:
    values, path = [1.5, -300.0, None, 0.1], tmp_path / "runs.parquet"
    frame = pl.DataFrame({"episode": [0] * 4, "step": range(4), "reward": 0.0, "x": values})
    Episodes.from_frame(frame).write(path)
    found = json.loads(pl.read_parquet_metadata(path)["ontarget"])
    found["features"][0]["dtype"] = dtype
    frame.write_parquet(path, metadata={"ontarget": json.dumps(found)})
    assert Episodes.read(path).to_frame()["x"].fill_nan(None).to_list() == values


def test_states_of_a_type_that_tables_lack_are_written_as_float64(tmp_path: Path) -> None:
    states = np.array([[[0.1, np.nan], [2.0, 3.0]]], dtype=np.float16)
    runs = Episodes.from_arrays(states, np.zeros((1, 2)))
    runs.write(tmp_path / "runs.parquet")
    again = Episodes.read(tmp_path / "runs.parquet")
    assert np.array_equal(again.at(0).states, states[:, 0].astype(float), equal_nan=True)


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"episode,step,reward\n\xe9,0,\x01\n", b"\x81,\x90\n"]
)
def test_bytes_that_are_no_text_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(data)
    with refuses(EpisodesFileError, None, "runs.csv", "encoding="):
        Episodes.read(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_twenty_thousand_columns_are_read_in_seconds(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"wide.{kind}"
    frame = pl.DataFrame({"episode": [0, 0], "step": [0, 1], "reward": [1.0, 2.0]}).hstack(
        [pl.Series(f"c{i}", [i, i + 1]) for i in range(20_000)]
    )
    getattr(frame, f"write_{kind}")(path)
    began = time.process_time()
    runs = Episodes.read(path)
    assert time.process_time() - began < 40.0  # it was quadratic: minutes
    assert runs.at(1).states[0, [0, -1]].tolist() == [1.0, 20_000.0]


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_a_pipe_is_refused_and_nobody_waits(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with refuses(EpisodesFileError, None, name, "pipe"):
        Episodes.read(tmp_path / name)


def test_text_that_a_spreadsheet_would_run_comes_back_as_it_was(tmp_path: Path) -> None:
    names = [f"{sign}{string.ascii_letters}" for sign in "=+-@\t'"]
    frame = pl.DataFrame(
        {"episode": names, "step": [0] * 6, "reward": [0.0] * 6, "mode": names[::-1]}
    )
    runs = Episodes.from_frame(frame)
    runs.write(tmp_path / "runs.csv")
    again = Episodes.read(tmp_path / "runs.csv")
    assert again.ids.tolist() == names
    assert again.schema.features[0].categories == runs.schema.features[0].categories
