"""Databases of the service, one of each schema, as the version that had it wrote them.

python -m tests.service.kept     # after a change of the schema: keep one of the new schema
"""

from __future__ import annotations

import gzip
import itertools
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import StepMessage
from ontarget.service.service import Service
from ontarget.service.store import MIGRATIONS
from ontarget.service.webhooks import Hook

KEPT = Path(__file__).parent / "kept"
MODEL = KEPT / "walk.ontarget.gz"
# One run goes on, one raises an alarm that waits to be sent, one has ended, one has just begun.
SENT = (
    StepMessage(agent="a", run="1", step=0, state=[-0.3]),
    StepMessage(agent="b", run="1", step=0, state=[-1.1]),
    StepMessage(agent="a", run="1", step=1, state=[1.0], reward=0.9),
    StepMessage(agent="b", run="1", step=1, state=[0.3], reward=-50.0),
    StepMessage(agent="a", run="1", step=2, state=[1.3], reward=-1.3),
    StepMessage(agent="b", run="1", step=2, state=[0.9], reward=-50.0),
    StepMessage(agent="c", run="1", step=0, state=[0.1]),
    StepMessage(agent="c", run="1", step=1, state=[0.6], reward=0.3),
    StepMessage(agent="c", run="1", step=2, reward=9.0, end=True),
    StepMessage(agent="d", run="1", step=0, state=[-1.2]),
)


def path_of(schema: int) -> Path:
    """Where the database of a schema is kept."""
    return KEPT / f"schema{schema}.db.gz"


def main() -> None:
    """Keep a database of the present schema."""
    kept = path_of(len(MIGRATIONS))
    if kept.exists():
        sys.exit(f"{kept.name} is kept already; a database of a release is never written anew")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)  # the contract names its model by a path that is the same everywhere
        Path("walk.ontarget").write_bytes(gzip.decompress(MODEL.read_bytes()))
        spec = ContractSpec(name="walk", model="walk.ontarget", target="0:", false_alarm_rate=0.1)
        clock = map(float, itertools.count(1_000))
        service = Service(
            "kept.db",
            [spec],
            models=Path("models"),
            hooks=[Hook(name="ops", url="http://127.0.0.1:9/")],
            clock=lambda: next(clock),
        )
        for message in SENT:
            service.engine.take([message])
        service.close()
        with closing(sqlite3.connect("kept.db")) as database:
            database.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
            database.execute("VACUUM")
        kept.write_bytes(gzip.compress(Path("kept.db").read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
