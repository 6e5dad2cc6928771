"""One pool of threads for serial kernels that release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ontarget.errors import InputError

__all__ = ["n_threads", "run_blocks"]

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def n_threads() -> int:
    """How many threads run kernels: ONTARGET_THREADS, or the cores this process may use."""
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


def run_blocks(task: Callable[[int, int], object], n_items: int, *, block: int) -> None:
    """Call ``task(start, stop)`` over blocks that cover ``range(n_items)``.

    The task must give the same result whatever the blocks: each item owns its part of the output.
    It must not call `run_blocks` itself: it would wait for the threads it stands on.
    """
    if n_items <= block:  # one live row: nothing to ask, nothing to wake
        if n_items > 0:
            task(0, n_items)
        return
    starts = range(0, n_items, max(1, block))
    threads = n_threads()
    if threads == 1:
        for start in starts:
            task(start, min(start + block, n_items))
        return
    pool = _threads(threads)
    futures = [pool.submit(task, start, min(start + block, n_items)) for start in starts]
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
    """A forked child has none of its parent's threads: it starts a pool of its own."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
