"""Clusters of two worker processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def two_workers(engine: str) -> Iterator[str]:
    """The address of a cluster of two worker processes, which this process is connected to."""
    if engine == "dask":
        distributed = pytest.importorskip("distributed", reason="pip install 'ontarget[dask]'")
        two = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with two as cluster, distributed.Client(cluster):
            yield cluster.scheduler_address
    else:
        ray = pytest.importorskip("ray", reason="pip install 'ontarget[ray]'")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()
