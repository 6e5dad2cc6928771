"""Where the tasks of a fit run: here, on a cluster, or on whatever a user brings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from ontarget._extras import require
from ontarget._progress import progress_bar
from ontarget._threads import n_threads
from ontarget.errors import InputError

__all__ = ["ENGINES", "Engine", "Executor", "Keeps", "run_tasks"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class _Future(Protocol):
    def result(self) -> Any: ...


@runtime_checkable
class Executor(Protocol):
    """What can run tasks: ``concurrent.futures`` executors, Dask clients, and your own."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> _Future:
        """Begin a call somewhere; what comes back gives its result when asked."""
        ...


class Keeps(Protocol[Result]):
    """What keeps finished results, so that a killed run resumes."""

    def load(self, index: int) -> Result | None:
        """The result kept earlier, if there is one."""
        ...

    def save(self, index: int, result: Result) -> None:
        """Keep a result."""
        ...


Engine: TypeAlias = Literal["local", "dask", "ray"] | Executor | Callable[..., Any]
ENGINES: tuple[str, ...] = ("local", "dask", "ray")


def run_tasks(
    function: Callable[[Task], Result],
    make: Callable[[int], Task],
    n_tasks: int,
    *,
    engine: Engine,
    checkpoint: Keeps[Result] | None,
    progress: bool,
    side_by_side: bool = False,
) -> list[Result]:
    """The function's result for each task, in order. Only this process writes.

    Parameters
    ----------
    function
        A pure function of one task.
    make
        Makes a task by its number, when it is about to run.
    n_tasks
        How many tasks there are.
    engine
        ``"local"``, in this process; ``"dask"`` or ``"ray"``; an object with ``submit``, as
        executors have; or one called like ``joblib.Parallel``.
    checkpoint
        Where finished results are kept and looked for.
    progress
        Whether to show a progress bar.
    side_by_side
        Whether tasks in this process may run in several threads at a time.
    """
    run = _runner(engine, side_by_side)
    done: dict[int, Result] = {}
    bar = progress_bar("fitting", n_tasks, unit="blocks of steps", shown=progress)
    with bar as reached:
        for index in range(n_tasks):
            kept = None if checkpoint is None else checkpoint.load(index)
            if kept is not None:
                done[index] = kept
        reached(len(done))
        waiting = [index for index in range(n_tasks) if index not in done]
        for index, result in run(function, make, waiting):
            if checkpoint is not None:
                checkpoint.save(index, result)
            done[index] = result
            reached(len(done))
    return [done[index] for index in range(n_tasks)]


_Run: TypeAlias = Callable[
    [Callable[[Any], Any], Callable[[int], Any], Sequence[int]], Iterator[tuple[int, Any]]
]


def _runner(engine: Any, side_by_side: bool) -> _Run:
    if isinstance(engine, str):
        if engine not in ENGINES:
            raise InputError(
                f"engine needs one of {', '.join(ENGINES)}, an object with submit (as executors "
                f"have) or one called like joblib.Parallel, got {engine!r}"
            )
        if engine == "local":
            return _on_threads if side_by_side and n_threads() > 1 else _in_turn
        return _on_cluster(engine)
    if isinstance(engine, Executor):
        return _submitting(engine)
    if callable(engine):
        return _in_batches(engine, nullcontext())
    raise InputError(
        f"engine needs one of {', '.join(ENGINES)}, an object with submit (as executors have) or "
        f"one called like joblib.Parallel, got {engine!r}"
    )


def _in_turn(
    function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    return ((index, function(make(index))) for index in waiting)


def _on_threads(
    function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    """Tasks in threads, so that what is not shared between threads within one is between two."""
    executor = ThreadPoolExecutor(n_threads(), thread_name_prefix="ontarget-fit")
    try:
        yield from _submitting(executor, in_flight=n_threads())(function, make, waiting)
    finally:
        executor.shutdown(cancel_futures=True)


def _on_cluster(name: str) -> _Run:
    from joblib import Parallel, parallel_config

    if name == "ray":
        require("ray.util.joblib", extra="ray").register_ray()
    else:
        require("distributed", extra="dask")
    backend = parallel_config(backend=name)
    return _in_batches(lambda calls: Parallel()(calls), backend)


def _in_batches(parallel: Callable[..., Any], within: AbstractContextManager[Any]) -> _Run:
    """Tasks by the batch, so that only some of them take memory at a time."""
    from joblib import delayed

    def run(
        function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        batch = max(1, 2 * n_threads())
        with within:
            for start in range(0, len(waiting), batch):
                some = waiting[start : start + batch]
                found = parallel(delayed(function)(make(index)) for index in some)
                yield from zip(some, found, strict=True)

    return run


def _submitting(executor: Executor, in_flight: int | None = None) -> _Run:
    """A few tasks in flight at a time, their results in order."""
    most = 2 * n_threads() if in_flight is None else in_flight

    def run(
        function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        flying: deque[tuple[int, _Future]] = deque()
        for index in waiting:
            flying.append((index, executor.submit(function, make(index))))
            if len(flying) > most:
                first, future = flying.popleft()
                yield first, future.result()
        for index, future in flying:
            yield index, future.result()

    return run
