"""Blocks of work over one pool of threads."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from ontarget import _threads
from ontarget._threads import run_blocks, threads_at_most
from ontarget.errors import InputError
from refusals import refuses


class CountingPool:
    """A pool that runs at once, and counts how many threads could have worked side by side."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, task, *arguments):
        self.submitted += 1
        done = Future()
        done.set_result(task(*arguments))
        return done


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> CountingPool:
    counting = CountingPool()
    monkeypatch.setenv("ONTARGET_THREADS", "8")
    monkeypatch.setattr(_threads, "_threads", lambda size: counting)
    return counting


def visits(n_items: int, block: int) -> np.ndarray:
    seen = np.zeros(n_items, dtype=int)

    def visit(start: int, stop: int) -> None:
        assert 0 < stop - start <= block
        seen[start:stop] += 1

    run_blocks(visit, n_items, block=block)
    return seen


@pytest.mark.parametrize(("n_items", "size"), [(100, 7), (512, 16), (1000, 20)])
def test_blocks_grow_until_threads_would_get_too_few(
    pool: CountingPool, n_items: int, size: int
) -> None:
    seen, sizes = np.zeros(n_items, dtype=int), []

    def visit(start: int, stop: int) -> None:
        sizes.append(stop - start)
        seen[start:stop] += 1

    run_blocks(visit, n_items, block=7, most=20)
    assert np.all(seen == 1)
    assert max(sizes) == size


@pytest.mark.parametrize(("limit", "threads"), [(None, 15), (-1, 15), (1, 0), (3, 3), (40, 15)])
def test_a_limit_bounds_the_threads_and_leaves_no_item_out(
    pool: CountingPool, limit: int | None, threads: int
) -> None:
    with threads_at_most(limit):
        assert np.all(visits(103, block=7) == 1)
    assert pool.submitted == threads


def test_a_limit_within_another_never_raises_it(pool: CountingPool) -> None:
    with threads_at_most(2), threads_at_most(None), threads_at_most(5):
        visits(103, block=7)
    assert pool.submitted == 2
    visits(103, block=7)
    assert pool.submitted == 2 + 15


@pytest.mark.parametrize("limit", [0, -2, 1.5, True])
def test_a_limit_that_is_no_number_of_threads_is_refused(limit: object) -> None:
    with refuses(InputError, "n_jobs", f"got {limit!r}"):
        threads_at_most(limit).__enter__()  # type: ignore[arg-type]
