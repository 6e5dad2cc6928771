"""A contract whose model is of a kind that is gone takes no steps, and keeps its runs readable."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from ontarget.cli import app
from ontarget.errors import ModelFileError
from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import run_id
from ontarget.service.service import Service, let_go, listen_for_silence
from ontarget.service.store import open_store
from ontarget.service.web.api import create_app
from refusals import refuses
from tests.modelfile.test_kept import KEPT

LOCAL = "http://127.0.0.1:8400"
BOOSTED = gzip.decompress((KEPT / "0.2.0" / "boosted.ontarget.gz").read_bytes())
REASON = "fit the monitor again, or use ontarget 0.2"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def step(number: int, agent: str = "a", **more: Any) -> dict[str, Any]:
    return {"agent": agent, "run": "1", "step": number, "state": [0.1 * number, -0.2], **more}


def opened(url: str, folder: Path, **more: Any) -> Service:
    """A service with a contract about ``walk.ontarget``, and another about ``other.ontarget``."""
    specs = [
        ContractSpec(
            name=name, model=str(folder / f"{name}.ontarget"), target="0:", alarm_below=0.2,
            silent_after=60.0,
        )
        for name in ("walk", "other")
    ]  # fmt: skip
    return Service(url, specs, models=folder / "models", **more)


def client_of(service: Service) -> TestClient:
    return TestClient(create_app(service), base_url=LOCAL)


@pytest.fixture
def folder(url: str, model: Path, tmp_path: Path) -> Path:
    """The files of a service: a/1 has ended, b/1 is under way, and their model is gone since."""
    for name in ("walk", "other"):
        shutil.copyfile(model, tmp_path / f"{name}.ontarget")
    with client_of(opened(url, tmp_path)) as client:
        for number in range(6):
            sent = [step(number, one, contract="walk", reward=0.5) for one in "ab"]
            assert client.post("/v1/steps", json=sent).status_code == 200
        end = {"agent": "a", "run": "1", "step": 6, "reward": 0.5, "end": True}
        assert client.post("/v1/steps", json=end).json()["status"] == "DONE"
    (tmp_path / "walk.ontarget").write_bytes(BOOSTED)
    old, new = digest(model), digest(tmp_path / "walk.ontarget")
    (tmp_path / "models" / f"{new}.ontarget").write_bytes(BOOSTED)
    store = open_store(url)
    with store.database.write() as writing:
        writing.run(
            "UPDATE contracts SET spec = REPLACE(spec, ?, ?) WHERE name = ?", (old, new, "walk")
        )
    store.close()
    return tmp_path


@pytest.fixture
def service(url: str, folder: Path) -> Service:
    return opened(url, folder, keep_seconds=1e-3, export=folder / "old")


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as found:
        yield found


def test_the_service_starts_and_shows_why_the_contract_is_closed(client: TestClient) -> None:
    assert client.get("/readyz").status_code == 200
    walk, other = client.get("/v1/contracts").json()
    assert REASON in walk["closed"]
    assert (walk["features"], walk["horizon"], walk["thresholds"]) == (["x0", "x1"], 5, [])
    assert other["closed"] == ""
    health = client.get("/v1/contracts/walk/health").json()
    assert (health["verdict"], health["closed"]) == ("closed", walk["closed"])
    assert (health["runs"], health["met"]) == (1, 1)
    metric = 'ontarget_contract_health{contract="walk",health="closed"} 1'
    assert metric in client.get("/metrics").text


def test_serve_says_which_contract_is_closed(url: str, folder: Path) -> None:
    asked = ["serve", "--database", url, "--models", str(folder / "models"), "--check"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    walk, other = found.output.splitlines()
    assert walk.startswith("contract   walk@1: ")
    assert REASON in walk
    assert "alarm below 0.2" in other


def test_steps_of_a_closed_contract_are_refused_with_the_reason(client: TestClient) -> None:
    begins, goes_on, again, over = client.post(
        "/v1/steps",
        json=[
            step(0, "new", contract="walk"),
            step(6, "b"),
            step(5, "b", contract="walk", reward=0.5),
            step(7, "a"),
        ],
    ).json()
    for problem in (begins, goes_on):
        assert (problem["status"], problem["title"]) == (409, "closed contract")
        assert REASON in problem["detail"]
    assert again["duplicate"]
    assert (over["status"], over["title"]) == (409, "ended")
    ended = client.post(f"/v1/runs/{run_id('b', '1')}/end", json={"step": 6})
    assert ended.status_code == 409
    assert client.post("/v1/steps", json=step(0, "new", contract="other")).status_code == 200


def test_the_runs_of_a_closed_contract_stay_readable(client: TestClient) -> None:
    assert [one["agent"] for one in client.get("/v1/runs").json()["items"]] == ["a", "b"]
    history = client.get(f"/v1/runs/{run_id('a', '1')}").json()
    assert len(history["answers"]) == 7
    assert history["answers"][2]["p"] is not None
    told = client.get("/v1/episodes.parquet?contract=walk").content
    frame = pl.read_parquet(io.BytesIO(told))
    assert frame["x0"].to_list() == pytest.approx([0.1 * i for i in range(6)])
    since = {"since": "2020-01-01T00:00:00Z"}
    for refused in (
        client.get(f"/v1/runs/{run_id('b', '1')}/why"),
        client.post("/v1/contracts/walk/recalibrate", json=since),
    ):
        assert (refused.status_code, refused.json()["title"]) == (409, "closed contract")


def test_old_runs_of_a_closed_contract_are_exported_and_nobody_calls_them_silent(
    service: Service, folder: Path
) -> None:
    later = service.clock() + 3600.0
    service.clock = lambda: later
    assert listen_for_silence(service) == 0
    assert let_go(service) == 1
    (kept,) = (folder / "old").glob("walk@1-*.parquet")
    assert pl.read_parquet(kept).height == 6
    service.close()


def test_a_new_model_opens_the_contract_again(
    url: str, service: Service, folder: Path, model: Path
) -> None:
    service.close()
    shutil.copyfile(model, folder / "walk.ontarget")
    with client_of(opened(url, folder)) as client:
        walk = client.get("/v1/contracts").json()[0]
        assert (walk["version"], walk["closed"]) == (2, "")
        answers = client.post(
            "/v1/steps", json=[step(0, "new", contract="walk"), step(6, "b")]
        ).json()
        assert answers[0]["contract"] == "walk@2"
        assert answers[1]["title"] == "closed contract"  # it began with the model that is gone


def test_a_contract_is_not_added_with_a_model_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "walk.ontarget").write_bytes(BOOSTED)
    with refuses(ModelFileError, None):
        opened(str(tmp_path / "s.db"), tmp_path)


def test_a_model_that_is_lost_or_damaged_still_stops_the_service(
    url: str, service: Service, folder: Path
) -> None:
    service.close()
    copy = folder / "models" / f"{digest(folder / 'walk.ontarget')}.ontarget"
    copy.write_bytes(b"damaged")
    with refuses(ModelFileError, None):
        opened(url, folder)
