"""Runs the tasks of a fit: in this process, on an executor, or on Dask or Ray."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from ontarget._package import require
from ontarget._progress import progress_bar
from ontarget._threads import n_threads
from ontarget.errors import Argument, InputError

# The errors that executors, Dask and Ray raise if the worker of a task died.
_LOST = {
    "BrokenExecutor",
    "TerminatedWorkerError",
    "KilledWorker",
    "FutureCancelledError",
    "WorkerCrashedError",
    "NodeDiedError",
    "OutOfMemoryError",
    "ObjectLostError",
}


class Cluster(Protocol):
    """An executor that also says how many tasks it should be given at a time."""

    @property
    def in_flight(self) -> int:
        """How many tasks to start before waiting for the first result."""
        ...

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Start the call on some worker; return a future. Its ``result()`` waits for the call."""
        ...


def is_lost(error: BaseException) -> bool:
    """Whether the error means that a task's worker died, and not that the task itself failed."""
    return any(kind.__name__ in _LOST for kind in type(error).__mro__)


@contextmanager
def cluster_of(name: str, address: str | None = None) -> Iterator[Cluster]:
    """A context manager that gives a cluster: "dask" or "ray", at this address."""
    with _on_dask(address) if name == "dask" else _on_ray(address) as found:
        yield found


@dataclass(frozen=True)
class _Dask:
    client: Any
    in_flight: int

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        with warnings.catch_warnings():
            # Episodes that are not prepared are sent with the task; Dask warns about their size.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            return self.client.submit(function, *arguments, pure=False)


@contextmanager
def _on_dask(address: str | None) -> Iterator[_Dask]:
    distributed = require("distributed", extra="dask")
    client, own = None, True
    if address is None:
        try:
            client, own = distributed.get_client(), False
        except ValueError:  # there is none
            client = distributed.Client(dashboard_address=None)
    else:
        client = distributed.Client(address)
    try:
        yield _Dask(client, 2 * max(1, sum(client.nthreads().values())))
    finally:
        if own:
            client.close()


@dataclass(frozen=True)
class _RayFuture:
    ray: Any
    reference: Any

    def result(self) -> Any:
        return self.ray.get(self.reference)


@dataclass(frozen=True)
class _Ray:
    ray: Any
    in_flight: int

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> _RayFuture:
        # The caller repeats lost tasks, in the same way for all engines.
        remote = self.ray.remote(max_retries=0)(function)
        return _RayFuture(self.ray, remote.remote(*arguments))


@contextmanager
def _on_ray(address: str | None) -> Iterator[_Ray]:
    ray = require("ray", extra="ray")
    own = not ray.is_initialized()
    if own:
        ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    try:
        yield _Ray(ray, 2 * max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        if own:
            ray.shutdown()


Task = TypeVar("Task")
Result = TypeVar("Result")


class _Future(Protocol):
    def result(self) -> Any: ...


@runtime_checkable
class Executor(Protocol):
    """Anything with a ``submit`` method, such as an executor of ``concurrent.futures``."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> _Future:
        """Start the call ``function(*arguments)``."""
        ...


class Keeps(Protocol[Result]):
    """The interface of an object that stores finished results by task number."""

    def load(self, index: int) -> Result | None:
        """The stored result of this task, or None."""
        ...

    def save(self, index: int, result: Result) -> None:
        """Store the result of this task."""
        ...


Engine: TypeAlias = Literal["local", "dask", "ray"] | Executor | Callable[..., Any]
ENGINES: tuple[str, ...] = ("local", "dask", "ray")
_ATTEMPTS = 4  # how often a task is tried if its worker is lost


def run_tasks(
    function: Callable[[Task], Result],
    make: Callable[[int], Task],
    n_tasks: int,
    *,
    engine: Engine,
    checkpoint: Keeps[Result] | None,
    progress: bool,
    side_by_side: bool = False,
    doing: tuple[str, str] = ("fitting", "blocks of steps"),
) -> list[Result]:
    """The function's result for each task, in the order of the tasks."""
    run = _runner(engine, side_by_side)
    done: dict[int, Result] = {}
    bar = progress_bar(doing[0], n_tasks, unit=doing[1], shown=progress)
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


def check_engine(engine: str, address: str | None) -> None:
    """Raise an `InputError` if the engine is unknown, or if ``"local"`` is given an address."""
    if engine not in ENGINES:
        raise InputError(Argument("engine"), f" needs one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "local" and address is not None:
        raise InputError(Argument("address"), f" needs the engine dask or ray, got {engine!r}")


@contextmanager
def connected(engine: str, address: str | None = None) -> Iterator[Engine]:
    """A context manager that gives an engine: this process, or a connection to a cluster."""
    check_engine(engine, address)
    if engine == "local":
        yield "local"
        return
    with cluster_of(engine, address) as cluster:
        yield cluster


_Run: TypeAlias = Callable[
    [Callable[[Any], Any], Callable[[int], Any], Sequence[int]], Iterator[tuple[int, Any]]
]


def _runner(engine: Any, side_by_side: bool) -> _Run:
    if isinstance(engine, str):
        if engine not in ENGINES:
            raise InputError(
                Argument("engine"),
                f" needs one of {', '.join(ENGINES)}, an object with submit (as executors "
                f"have) or one called like joblib.Parallel, got {engine!r}",
            )
        if engine == "local":
            return _on_threads if side_by_side and n_threads() > 1 else _in_turn
        return _on_cluster(engine)
    if isinstance(engine, Executor):
        return _submitting(engine, in_flight=getattr(engine, "in_flight", None))
    if callable(engine):
        return _in_batches(engine)
    raise InputError(
        Argument("engine"),
        f" needs one of {', '.join(ENGINES)}, an object with submit (as executors have) or "
        f"one called like joblib.Parallel, got {engine!r}",
    )


def _in_turn(
    function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    return ((index, function(make(index))) for index in waiting)


def _on_threads(
    function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    """Run tasks in threads, to keep all cores busy while single-threaded parts of a task run."""
    executor = ThreadPoolExecutor(n_threads(), thread_name_prefix="ontarget-fit")
    try:
        yield from _submitting(executor, in_flight=n_threads())(function, make, waiting)
    finally:
        executor.shutdown(cancel_futures=True)


def _on_cluster(name: str) -> _Run:
    def run(
        function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        with cluster_of(name) as cluster:
            yield from _submitting(cluster, in_flight=cluster.in_flight)(function, make, waiting)

    return run


def _in_batches(parallel: Callable[..., Any]) -> _Run:
    """A function that runs tasks in batches with ``parallel``, a `joblib.Parallel`."""
    # Because of the batches, only a few tasks take memory at the same time.
    from joblib import delayed

    def run(
        function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        batch = max(1, 2 * n_threads())
        for start in range(0, len(waiting), batch):
            some = waiting[start : start + batch]
            found = parallel(delayed(function)(make(index)) for index in some)
            yield from zip(some, found, strict=True)

    return run


def _submitting(executor: Executor, in_flight: int | None = None) -> _Run:
    """A function that runs a few tasks at a time, and repeats a task whose worker was lost."""
    most = 2 * n_threads() if in_flight is None else in_flight

    def run(
        function: Callable[[Any], Any], make: Callable[[int], Any], waiting: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        def begun(index: int) -> _Future:
            try:
                return executor.submit(function, make(index))
            except Exception as error:
                if is_lost(error):
                    error.add_note(
                        "this executor takes no more tasks because it has lost a worker; make a "
                        "new executor, and resume with the same checkpoint="
                    )
                raise

        def awaited(index: int, future: _Future) -> tuple[int, Any]:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return index, future.result()
                except Exception as error:
                    if not is_lost(error):
                        raise
                    if attempt == _ATTEMPTS:
                        error.add_note(
                            f"the workers of task {index} were lost {attempt} times; check "
                            f"whether they run out of memory, and resume with the same checkpoint="
                        )
                        raise
                    future = begun(index)
            raise AssertionError("the last attempt returns or raises")

        flying: deque[tuple[int, _Future]] = deque()
        for index in waiting:
            flying.append((index, begun(index)))
            if len(flying) > most:
                yield awaited(*flying.popleft())
        while flying:
            yield awaited(*flying.popleft())

    return run
