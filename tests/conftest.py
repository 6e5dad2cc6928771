"""How many examples Hypothesis tries: fewer, and always the same ones, in the fast suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.register_profile("fast", parent=settings.get_profile("ci"), max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """Choose before any test is imported; `make test-slow` tries Hypothesis' own 100 examples."""
    usual = "ci" if os.environ.get("CI") else "local"
    settings.load_profile("fast" if "not slow" in config.option.markexpr else usual)
