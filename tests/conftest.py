"""What the fast suite leaves to CI, and how many examples Hypothesis tries there."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.register_profile("fast", parent=settings.get_profile("ci"), max_examples=30)

# Each test of these takes seconds: promises simulated many times, pages run, browsers, killed
# processes. `make check` runs them, `make test` leaves them out.
_THOROUGH = (
    "attacks/test_interrupted.py",
    "attacks/test_model_files.py",
    "cli/test_endings.py",
    "report/test_page.py",
    "service/test_browser.py",
    "test_docs.py::test_the_page_shows_the_true_output",
    "test_readme.py",
    "validity/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make check` runs."""
    for item in items:
        if any(f"tests/{part}" in item.nodeid for part in _THOROUGH):
            item.add_marker(pytest.mark.thorough)


def pytest_configure(config: pytest.Config) -> None:
    """Choose before any test is imported; `make test-slow` tries Hypothesis' own 100 examples."""
    usual = "ci" if os.environ.get("CI") else "local"
    settings.load_profile("fast" if "not slow" in config.option.markexpr else usual)
