"""Requests that come together are written together, and nobody waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ontarget.service._writer import BusyError, Replies
from ontarget.service.messages import StepMessage
from ontarget.service.web._steps import Gathering


class Writer:
    """Keeps what it is given until it is told to answer."""

    def __init__(self) -> None:
        self.groups: list[tuple[int, Callable[[list[Replies]], None]]] = []
        self.sizes: list[int] = []

    def admit(self, n: int) -> None:
        pass

    def submit(
        self, requests: Sequence[Sequence[StepMessage]], done: Callable[[list[Replies]], None]
    ) -> None:
        self.sizes.append(len(requests))
        self.groups.append((len(requests), done))

    def answer(self, reply: Any = (b"yes",)) -> None:
        n, done = self.groups.pop(0)
        done([reply] * n)


def steps(n: int = 1) -> list[StepMessage]:
    return [StepMessage(agent="a", run="1", step=0, state=[0.0])] * n


async def turns(n: int = 6) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def test_requests_of_one_turn_go_together_and_later_ones_wait_for_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow this machine is, the wait is longer.
    monkeypatch.setattr("ontarget.service.web._steps._SHARE", 1e9)
    monkeypatch.setattr("ontarget.service.web._steps._LONGEST", 600.0)

    async def main() -> None:
        writer = Writer()
        gathering = Gathering(writer)  # type: ignore[arg-type]
        first = [asyncio.ensure_future(gathering.take(steps())) for _ in range(3)]
        await turns()
        assert writer.sizes == [3]
        later = [asyncio.ensure_future(gathering.take(steps())) for _ in range(2)]
        await turns()
        assert writer.sizes == [3]  # it is busy
        writer.answer()
        assert await asyncio.gather(*first) == [(b"yes",)] * 3
        again = [asyncio.ensure_future(gathering.take(steps())) for _ in range(3)]
        await turns()
        assert writer.sizes == [3, 5]  # the two, with those that were just answered
        writer.answer()
        assert len(await asyncio.gather(*later, *again)) == 5

    asyncio.run(main())


def test_whoever_does_not_come_back_is_not_waited_for() -> None:
    async def main() -> None:
        writer = Writer()
        gathering = Gathering(writer)  # type: ignore[arg-type]
        both = [asyncio.ensure_future(gathering.take(steps())) for _ in range(2)]
        await turns()
        writer.answer()
        await asyncio.gather(*both)
        alone = asyncio.ensure_future(gathering.take(steps()))
        while len(writer.sizes) < 2:  # a few milliseconds at most
            await asyncio.sleep(0.001)
        writer.answer()
        await alone
        alone = asyncio.ensure_future(gathering.take(steps()))
        await turns()
        assert writer.sizes == [2, 1, 1]  # at once: nobody else was there
        writer.answer()
        await alone

    asyncio.run(main())


def test_a_large_request_does_not_wait_for_a_busy_writer() -> None:
    async def main() -> None:
        writer = Writer()
        gathering = Gathering(writer)  # type: ignore[arg-type]
        small = asyncio.ensure_future(gathering.take(steps()))
        await turns()
        waiting = asyncio.ensure_future(gathering.take(steps()))
        await turns()
        large = asyncio.ensure_future(gathering.take(steps(1_000)))
        await turns()
        assert writer.sizes == [1, 2]
        writer.answer()
        writer.answer(BusyError("full"))
        assert await small == (b"yes",)
        for one in (waiting, large):
            with pytest.raises(BusyError):
                await one

    asyncio.run(main())
