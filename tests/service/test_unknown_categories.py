"""The service counts readings of unknown categories by contract, column and value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from ontarget import Episodes, GoalMonitor, QuantileForest
from ontarget.service.contracts import ContractSpec
from ontarget.service.service import Service
from ontarget.service.web.api import create_app

LOCAL = "http://127.0.0.1:8400"
URL = "/v1/contracts/ticket/health"


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, n = np.random.default_rng(0), 200
    frame = pl.DataFrame(
        {
            "episode": np.repeat(np.arange(n), 3),
            "step": np.tile([0, 1, 2], n),
            "activity": rng.choice(["Check", "Decide"], 3 * n),
            "gear": rng.choice([1, 2, 3], 3 * n),
            "reward": rng.normal(size=3 * n),
        }
    )
    path = tmp_path_factory.mktemp("model") / "ticket.ontarget"
    recorded = Episodes.from_frame(frame, categorical=["gear"])
    GoalMonitor(QuantileForest(n_trees=5)).fit(recorded, progress=False).save(path)
    return path


@pytest.fixture
def client(tickets: Path, tmp_path: Path):
    spec = ContractSpec(name="ticket", model=str(tickets), target="0:", alarm_below=0.3)
    service = Service(str(tmp_path / "service.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as found:
        yield found


def step(number: int, state: object, agent: str = "a") -> dict[str, object]:
    return {"agent": agent, "run": "1", "step": number, "state": state}


def test_unknown_categories_are_answered_counted_and_named(client: TestClient) -> None:
    states = [
        {"activity": "Wait", "gear": 9},
        {"activity": "Check", "gear": -1},
        [-1, 1.5],
    ]
    sent = [step(t, one) for t, one in enumerate(states)]
    for _ in range(2):  # what is sent again is not counted again
        answers = client.post("/v1/steps", json=sent).json()
        assert [one.get("unseen") for one in answers] == [
            {"activity": "Wait", "gear": "9"},
            {"gear": "-1"},
            {"activity": "-1", "gear": "1.5"},
        ]
    gaps = [{"activity": None, "gear": None}, {"activity": "Check", "gear": None}, [None, None]]
    missing = [step(t, one, "b") for t, one in enumerate(gaps)]
    same = client.post("/v1/steps", json=missing).json()
    assert [one["p"] for one in same] == [one["p"] for one in answers]
    assert client.get(URL).json()["unknown_categories"] == [
        {"feature": "activity", "readings": 2, "values": {"-1": 1, "Wait": 1}},
        {"feature": "gear", "readings": 3, "values": {"-1": 1, "1.5": 1, "9": 1}},
    ]


def test_why_shows_an_unknown_category_by_its_own_name(client: TestClient) -> None:
    states = [{"activity": "Check", "gear": 1}, {"activity": "Wait", "gear": -1}]
    answers = client.post("/v1/steps", json=[step(t, one) for t, one in enumerate(states)]).json()
    why = client.get(f"/v1/runs/{answers[0]['id']}/why").json()
    shown = {one["cause"]: one["now"] for one in why["contributions"]}
    assert "Wait" in shown["activity"]
    assert "-1" in shown["gear"]


def test_many_different_values_leave_a_few_names(client: TestClient) -> None:
    for some in range(10):
        sent = [
            step(0, {"activity": "often" if i % 3 == 0 else f"{i}{'x' * 300}", "gear": 1}, f"{i}")
            | {"run": str(some)}
            for i in range(60)
        ]
        assert client.post("/v1/steps", json=sent).status_code == 200
    found = client.get(URL).json()["unknown_categories"]
    assert [one["readings"] for one in found] == [600]
    assert len(found[0]["values"]) < 10
    assert next(iter(found[0]["values"].items())) == ("often", 200)
