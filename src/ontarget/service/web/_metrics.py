"""The service's metrics for Prometheus. No metric has an agent's name as a label."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class _Spread:
    """A histogram that takes little time to update, as is needed at every request."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        named = [*(str(float(one)) for one in self._bounds), "+Inf"]
        buckets = list(zip(named, accumulate(self._counts), strict=True))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum)


class _Counted(Collector):
    """The metrics of requests with steps, which are updated on the event loop."""

    def __init__(self) -> None:
        self.taken = self.refused = 0
        self.sizes = _Spread((1, 10, 100, 1_000, 10_000))
        self.seconds = _Spread((0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5))

    def collect(self) -> Iterable[Metric]:
        steps = CounterMetricFamily("ontarget_steps", "Steps by result.", labels=["result"])
        steps.add_metric(["taken"], self.taken)
        steps.add_metric(["refused"], self.refused)
        yield steps
        yield self.sizes.family("ontarget_request_steps", "Steps of one request.")
        yield self.seconds.family(
            "ontarget_request_seconds", "Seconds from a request with steps to its answer."
        )


class Metrics:
    """The counters of one service, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counted = _Counted()
        self.registry.register(self._counted)
        self.open_runs = Gauge(
            "ontarget_open_runs", "Runs that are not over.", registry=self.registry
        )
        self.open_alarms = Gauge(
            "ontarget_open_alarms", "Alarms that have not cleared.", registry=self.registry
        )
        self.deliveries = Gauge(
            "ontarget_deliveries", "Messages by state.", ["state"], registry=self.registry
        )
        self.ready = Gauge(
            "ontarget_ready", "Whether steps can be accepted.", registry=self.registry
        )
        self.health = Gauge(
            "ontarget_contract_health",
            "1 for the present verdict: calibrated, drifting, too few runs or closed.",
            ["contract", "health"],
            registry=self.registry,
        )

    def add(self, taken: int, refused: int, seconds: float) -> None:
        """Count a request: its accepted and refused steps, and how long it took."""
        counted = self._counted
        counted.taken += taken
        counted.refused += refused
        counted.sizes.add(taken + refused)
        counted.seconds.add(seconds)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)
