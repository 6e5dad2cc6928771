"""The page comes whole from this service, and a token opens it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ontarget.service import Service, create_app
from tests.service.test_api import LOCAL, made, step, whole_runs

PAGE = ["index.html", "main.js", "style.css", "theme.css", "icon.svg"]


@pytest.fixture
def service(model: Path, tmp_path: Path) -> Service:
    return made(str(tmp_path / "page.db"), model, tmp_path)


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url=LOCAL) as found:
        yield found


@pytest.fixture
def closed(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service, open_to_all=False), base_url=LOCAL) as found:
        yield found


def test_the_page_names_no_other_host_and_runs_nothing_inline(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    names = {*PAGE, *re.findall(r"/page/([\w.]+)", page.text)}
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        found = client.get(f"/page/{name}")
        assert found.status_code == 200, name
        assert found.headers["x-content-type-options"] == "nosniff"
        text = found.text.replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(?m)^\s*//.*$|//[^\n]*$", "", text), f"{name} names a host"
        assert "innerHTML" not in text
        todo += re.findall(r'from "\./([\w.]+)"', text)
    assert {"fleet.js", "run.js", "alarms.js", "trust.js", "contracts.js"} <= seen


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fapi.py", "__init__.py"])
def test_only_the_pages_own_files_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/page/{name}").status_code == 404


def test_a_token_becomes_a_cookie_that_no_script_reads(
    closed: TestClient, service: Service
) -> None:
    assert closed.get("/").status_code == 200
    assert closed.get("/session").status_code == 401
    assert closed.post("/session", json={"token": "ot_1_no"}).status_code == 401
    token = service.tokens.create(["read"])
    signed = closed.post("/session", json={"token": token})
    assert signed.json() == {"scopes": ["read"]}
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert closed.get("/v1/runs").status_code == 200  # by the cookie
    assert closed.delete("/session").status_code == 200
    assert closed.get("/v1/runs").status_code == 401


def test_a_cookie_acts_only_from_the_services_own_page(
    closed: TestClient, service: Service
) -> None:
    closed.post("/session", json={"token": service.tokens.create(["admin"])})
    own = {"origin": LOCAL}
    assert closed.post("/v1/steps", json=step(0), headers=own).status_code == 200
    for origin in ("https://elsewhere.example", "null", ""):
        found = closed.post("/v1/steps", json=step(1), headers={"origin": origin})
        assert found.status_code == 403, origin
    assert closed.post("/v1/steps", json=step(1)).status_code == 403


def test_reading_does_not_acknowledge(closed: TestClient, service: Service) -> None:
    admin = {"authorization": f"Bearer {service.tokens.create(['admin'])}"}
    read = {"authorization": f"Bearer {service.tokens.create(['read', 'report'])}"}
    sent = [step(0), step(1, reward=-50.0)]
    for one in sent:
        assert closed.post("/v1/steps", json=one, headers=admin).status_code == 200
    (alarm,) = closed.get("/v1/alarms", headers=admin).json()["items"]
    path = f"/v1/alarms/{alarm['id']}/acknowledge"
    assert closed.post(path, json={"by": "Ada"}, headers=read).status_code == 403
    seen = closed.post(path, json={"by": "Ada"}, headers=admin)
    assert seen.json()["acknowledged_by"] == "Ada"


def test_a_run_says_why(client: TestClient) -> None:
    for number in range(3):
        reward = {"reward": -2.0} if number else {}
        answer = client.post("/v1/steps", json=step(number, **reward)).json()
    found = client.get(f"/v1/runs/{answer['id']}/why").json()
    assert found["p"] == pytest.approx(answer["p"], abs=1e-12)
    moved = sum(one["change"] for one in found["contributions"])
    assert moved == pytest.approx(found["p"] - found["p_before"], abs=1e-12)
    assert found["precedents"]
    path = found["path"]
    assert path["steps"] == [3, 4, 5, 6]
    assert all(a < b for a, b in zip(path["lower"], path["upper"], strict=True))
    assert found["words"]
    alarms = client.get("/v1/alarms", params={"run": answer["id"]}).json()["items"]
    assert all(one["run_id"] == answer["id"] for one in alarms)
    assert client.get("/v1/alarms", params={"run": "none"}).json()["items"] == []


def test_health_counts_false_alarms(client: TestClient) -> None:
    whole_runs(client, [2.0] * 4 + [-2.0] * 3)
    found = client.get("/v1/contracts/walk/health").json()
    assert (found["runs"], found["met"]) == (7, 4)
    alarms = client.get("/v1/alarms").json()["items"]
    false = {one["agent"] for one in alarms} & {f"a{i}" for i in range(4)}
    assert found["false_alarms"] == len(false)
