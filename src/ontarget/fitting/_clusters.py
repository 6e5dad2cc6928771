"""Dask and Ray clusters, wrapped so that they have the ``submit`` method of an executor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ontarget._package import require

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
    """A context manager that gives a cluster: "dask" or "ray", at this address.

    Without an address, the cluster that this process is connected to is used. If there is none, a
    cluster is started on this machine.
    """
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
