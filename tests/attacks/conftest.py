"""What the attacks on model files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.monitors import write_all


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small monitor of every kind, fitted once for all processes of a test run."""
    import fcntl  # not on Windows, where these attacks are left out

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, written = shared / "monitors", shared / "monitors.written"
    with (shared / "monitors.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not written.exists():
            folder.mkdir()
            write_all(folder)
            written.touch()
    return folder
