"""Whatever is generated from the API's own description, no call ends in an error 500."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from ontarget.service.contracts import ContractSpec
from ontarget.service.service import Limits, Service
from ontarget.service.web.api import create_app

EXAMPLES = 1_250  # of each endpoint


@pytest.mark.slow
def test_no_generated_call_is_an_error_500(model: Path, tmp_path: Path) -> None:
    spec = ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=0.2)
    service = Service(
        str(tmp_path / "one.db"), [spec], models=tmp_path / "models", limits=Limits(streams=0)
    )
    app = create_app(service)
    calls = 0
    with TestClient(app, base_url="http://127.0.0.1:8400") as client:
        described = client.get("/v1/openapi.json").json()
        schema = schemathesis.openapi.from_dict(described)
        for operation in schema.get_all_operations():
            calls += called(operation.ok(), client)
    assert calls >= 20_000  # an endpoint without parameters is called once


def called(operation: Any, client: TestClient) -> int:
    """How many calls of one endpoint were made; an error 500 fails the test."""
    made = 0

    @settings(
        max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck), deadline=None
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        nonlocal made
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8400")
        response = client.request(**{k: v for k, v in sent.items() if k != "cookies"})
        made += 1
        assert response.status_code != 500, (sent, response.text)

    call()
    return made
