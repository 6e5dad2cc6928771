"""What the service counts, for Prometheus. No label names an agent."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.steps = Counter(
            "ontarget_steps", "Steps by result.", ["result"], registry=self.registry
        )
        self.taken, self.refused = self.steps.labels("taken"), self.steps.labels("refused")
        self.batch = Histogram(
            "ontarget_request_steps",
            "Steps of one request.",
            buckets=(1, 10, 100, 1_000, 10_000),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "ontarget_request_seconds",
            "Seconds from a request with steps to its answer.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
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
        self.ready = Gauge("ontarget_ready", "Whether steps can be taken.", registry=self.registry)
        self.health = Gauge(
            "ontarget_contract_health",
            "1 for what is so: calibrated, drifting or too few runs.",
            ["contract", "health"],
            registry=self.registry,
        )

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)
