"""The service's metrics for Prometheus. No metric has an agent's name as a label."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

_SIZES = (1, 10, 100, 1_000, 10_000)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one service, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        steps = Counter("ontarget_steps", "Steps by result.", ["result"], registry=self.registry)
        self._taken, self._refused = steps.labels("taken"), steps.labels("refused")
        self._sizes = Histogram(
            "ontarget_request_steps",
            "Steps of one request.",
            buckets=_SIZES,
            registry=self.registry,
        )
        self._seconds = Histogram(
            "ontarget_request_seconds",
            "Seconds from a request with steps to its answer.",
            buckets=_SECONDS,
            registry=self.registry,
        )
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
        self._taken.inc(taken)
        self._refused.inc(refused)
        self._sizes.observe(taken + refused)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)
