"""Hostile Minari datasets (HDF5 and JSON): each is read rightly or refused in one clear message."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from shutil import rmtree
from typing import Any

import h5py
import numpy as np
import pytest

from ontarget import Episodes
from ontarget._text import plain
from ontarget.errors import EpisodesError, EpisodesFileError
from refusals import refuses
from tests.reading.minari_folders import BOX, GEAR, NESTED, write_dataset

FAST, SLOW = 50, 600
SECONDS, MEGABYTES = 5.0, 400

TOLD: list[str] = [
    *("null", "0", "-1", "2.5", "1e999", "NaN", "true", '"x"', "[]", "{}", "9" * 5_000),
    *('"{"', '"[]"', '"null"', '"1e999"', "[" * 100_000, '"\\u0000\\ud800"', str(2**70)),
    *(
        json.dumps(json.dumps(space))
        for space in (
            {"type": "Box", "dtype": "float32", "shape": [10**12]},
            {"type": "Box", "dtype": "float32", "shape": [-1]},
            {"type": "Box", "dtype": "object", "shape": [2]},
            {"type": "Box", "dtype": "os.abort", "shape": [2]},
            {"type": "Box", "dtype": "float32", "shape": "2"},
            {"type": "Discrete", "n": 10**30},
            {"type": "Tuple", "subspaces": []},
            {"type": "Dict", "subspaces": {"../..": BOX, "": GEAR}},
            {"type": "Text"},
            {"type": []},
            {"max_episode_steps": 10**30},
            {"max_episode_steps": "5"},
        )
    ),
    json.dumps('{"type": "Tuple", "subspaces": [' * 3_000),
]


def hostile(rng: np.random.Generator, path: Path) -> None:
    """A sound dataset with one to three things done to it."""
    space = [BOX, GEAR, NESTED][rng.integers(3)]
    write_dataset(path, space)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(3)
        if kind == 0:
            _forge_metadata(path / "data" / "metadata.json", rng)
        elif kind == 1:
            _forge_columns(path / "data" / "main_data.hdf5", rng)
    if rng.integers(4) == 0:
        name = ["main_data.hdf5", "metadata.json"][rng.integers(2)]
        file = path / "data" / name
        data, at = bytearray(file.read_bytes()), int(rng.integers(file.stat().st_size))
        data[at : at + 8] = rng.integers(256, size=8, dtype=np.uint8).tobytes()
        file.write_bytes(data[:at] if rng.integers(3) == 0 else data)


def _forge_metadata(file: Path, rng: np.random.Generator) -> None:
    try:
        told = json.loads(file.read_text())
    except (ValueError, RecursionError):
        return  # forged already
    keys = ["total_episodes", "observation_space", "env_spec"]
    told[keys[rng.integers(3)]] = "@@"
    file.write_text(json.dumps(told).replace('"@@"', TOLD[rng.integers(len(TOLD))]))


def _forge_columns(file: Path, rng: np.random.Generator) -> None:
    with h5py.File(file, "a") as opened:
        group = opened[f"episode_{rng.integers(3)}"]
        name = ["rewards", "terminations", "truncations", "observations"][rng.integers(4)]
        if name not in group:
            return
        del group[name]
        values: list[Any] = [
            *(np.zeros(0), np.zeros(3), np.zeros((3, 2)), np.full(3, np.nan), np.array(1.0)),
            *(np.array([b"a", b"b"]), np.zeros(3, dtype=complex), np.full(5, np.inf), np.arange(4)),
            *(np.full(3, 2**63, dtype=np.uint64), np.zeros((4, 2)), np.zeros(3, dtype="V4")),
        ]
        kind = rng.integers(7)
        if kind < 3:
            group[name] = values[rng.integers(len(values))]
        elif kind == 3:
            group[name] = h5py.SoftLink("/episode_1/rewards")
        elif kind == 4:
            group[name] = h5py.ExternalLink("/etc/passwd", "/")
        elif kind == 5:  # as large as it claims, and empty
            group.create_dataset(name, shape=(10**11,), chunks=(10**6,), dtype="f8")
        else:
            group.create_group(name)


def ending(path: Path) -> str:
    """How reading ends: "read", or the kind of its refusal; anything else is a failure."""
    began = time.process_time()
    try:
        runs = Episodes.read(path)
    except EpisodesError as error:
        found, message = type(error).__name__, str(error)
        assert message == plain(message, most=len(message))
        assert len(message) > 10
    else:
        found = "read"
        assert np.isfinite(runs.outcomes).all()
        assert runs.lengths.max() <= runs.horizon < 2**31
    assert time.process_time() - began < SECONDS
    return found


def attack(folder: Path, seeds: range) -> Counter[str]:
    """How reading so many hostile datasets ends, after a check of what it took in memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: Counter[str] = Counter()
    for seed in seeds:
        path = folder / str(seed)
        hostile(np.random.default_rng(seed), path)
        try:
            found[ending(path)] += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        rmtree(path)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEGABYTES
    return found


def test_a_hostile_dataset_is_read_or_refused(tmp_path: Path) -> None:
    found = attack(tmp_path, range(FAST))
    assert found["read"] > 3, found
    assert found.total() - found["read"] > 10, found


@pytest.mark.slow
def test_many_hostile_datasets_are_read_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attack(tmp_path, range(FAST, FAST + SLOW))
    with capsys.disabled():
        sys.stdout.write(f"\n{SLOW:,} hostile datasets in HDF5: {dict(found)}\n")
    assert found.total() == SLOW


def test_a_bomb_of_zeros_that_shrank_is_refused_unread(tmp_path: Path) -> None:
    write_dataset(tmp_path / "bomb")
    with h5py.File(tmp_path / "bomb" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
        file.create_dataset(
            "episode_0/rewards", shape=(10**10,), chunks=(10**6,), dtype="f8", compression="gzip"
        )
    with refuses(EpisodesFileError, None, "/episode_0/rewards", "80,000,000,000"):
        Episodes.read(tmp_path / "bomb")
