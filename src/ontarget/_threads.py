"""The thread pool that runs kernels in parallel, which works because kernels release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

from ontarget._arguments import whole_number
from ontarget.errors import InputError

_BLOCKS_A_THREAD = 4  # at least, before blocks grow: a thread that is done early takes another

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_limit: ContextVar[int | None] = ContextVar("threads_at_most", default=None)


def n_threads() -> int:
    """The number of threads: ONTARGET_THREADS if it is set, or the cores this process may use."""
    asked = os.environ.get("ONTARGET_THREADS")
    if asked is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not asked.isdecimal() or int(asked) < 1:
        raise InputError(f"ONTARGET_THREADS needs a whole number from 1 up, got {asked!r}")
    return int(asked)


@contextmanager
def threads_at_most(n_jobs: int | None) -> Iterator[None]:
    """A context in which `run_blocks` uses at most this many threads; None and -1 set no limit."""
    limit = _limit.get()
    if n_jobs is not None and n_jobs != -1:
        asked = whole_number("n_jobs", n_jobs, least=1)
        limit = asked if limit is None else min(asked, limit)
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def run_blocks(
    task: Callable[[int, int], object], n_items: int, *, block: int, most: int = 0
) -> None:
    """Call ``task(start, stop)`` for blocks of items that together cover ``range(n_items)``.

    A block has ``block`` items. It has more, up to ``most``, if every thread still gets several
    blocks. The result must not depend on how the items are divided, so each item writes its own
    part of the output. The task must not call `run_blocks` itself, because it would wait for its
    own thread.
    """
    if n_items <= block:  # one live row: nothing to ask, nothing to wake
        if n_items > 0:
            task(0, n_items)
        return
    threads, limit = n_threads(), _limit.get()
    block = max(1, block, min(most, n_items // (_BLOCKS_A_THREAD * threads)))
    starts = range(0, n_items, block)

    def run(some: range) -> None:
        for start in some:
            task(start, min(start + block, n_items))

    if threads == 1 or limit == 1:
        run(starts)
        return
    lanes = len(starts) if limit is None else min(limit, len(starts))
    pool = _threads(threads)
    futures = [pool.submit(run, starts[lane::lanes]) for lane in range(lanes)]
    for future in futures:
        future.result()


def _threads(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size != size:
        if _pool is not None:
            _pool.shutdown(wait=False)
        _pool = ThreadPoolExecutor(size, thread_name_prefix="ontarget")
        _pool_size = size
    return _pool


def _forget_pool() -> None:
    """Drop the thread pool in a forked child process, where the parent's threads do not exist."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
