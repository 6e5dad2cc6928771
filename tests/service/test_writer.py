"""One thread writes: together what waits together, and one request cannot spoil another."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ontarget.errors import StoreError
from ontarget.service._writer import BusyError, Writer
from refusals import refuses


class Engine:
    """Takes texts for steps; waits until it may begin."""

    def __init__(self) -> None:
        self.begin = threading.Event()
        self.batches: list[list[str]] = []

    def take(self, messages: Any) -> list[bytes]:
        self.begin.wait(10.0)
        self.batches.append(list(messages))
        if "poison" in messages:
            raise ValueError("poison")
        if "full" in messages:
            raise StoreError("full")
        return [one.encode() for one in messages]


@pytest.fixture
def engine() -> Engine:
    return Engine()


def writer(engine: Engine, **options: Any) -> Writer:
    return Writer(engine, committed=lambda: None, **{"most_waiting": 100, **options})  # type: ignore[arg-type]


def test_what_waits_together_is_written_together(engine: Engine) -> None:
    found = writer(engine)
    first = found.take(["a"])
    rest = [found.take(["b"]), found.take(["c", "d"])]
    engine.begin.set()
    assert first.result() == [b"a"]
    assert [one.result() for one in rest] == [[b"b"], [b"c", b"d"]]
    found.close()
    assert len(engine.batches) <= 2


def test_one_request_cannot_spoil_the_others(engine: Engine) -> None:
    found = writer(engine)
    waiting = [found.take([word]) for word in ("a", "b", "poison", "c")]
    engine.begin.set()
    assert [one.result() for one in (waiting[0], waiting[1], waiting[3])] == [
        [b"a"],
        [b"b"],
        [b"c"],
    ]
    with pytest.raises(ValueError, match="poison"):
        waiting[2].result()
    found.close()


def test_a_store_that_fails_is_told_to_all(engine: Engine) -> None:
    found = writer(engine)
    blocked = found.take(["first"])
    waiting = [found.take([word]) for word in ("a", "full")]
    engine.begin.set()
    blocked.exception()
    assert isinstance(waiting[1].exception(), StoreError)
    assert found.run(lambda: 7).result() == 7  # the thread lives on
    found.close()


def test_more_than_can_wait_is_refused(engine: Engine) -> None:
    found = writer(engine, most_waiting=2)
    found.take(["a", "b"])
    with refuses(BusyError, None, "2 steps"):
        found.take(["c"])
    engine.begin.set()
    found.close()
    with pytest.raises(BusyError, match="shutting down"):
        found.take(["d"])
