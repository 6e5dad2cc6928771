"""The page comes whole from this service, and a token opens it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from starlette.testclient import TestClient

from ontarget import Episodes, GoalMonitor, QuantileForest
from ontarget.errors import InputError
from ontarget.service.contracts import ContractSpec
from ontarget.service.held import HeldContracts
from ontarget.service.messages import run_id
from ontarget.service.service import Service
from ontarget.service.web.api import create_app
from refusals import refuses
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
    for one in found["precedents"]:  # this run goes on from where it is
        assert one["ends_at"] == pytest.approx(-4.0 + one["rest"])
    path = found["path"]
    assert path["steps"] == [3, 4, 5, 6]
    assert all(a < b for a, b in zip(path["lower"], path["upper"], strict=True))
    assert found["words"]
    earlier = client.get(f"/v1/runs/{answer['id']}/why", params={"step": 1}).json()
    assert (earlier["t"], earlier["p"], earlier["path"]) == (1, found["p_before"], None)
    late = client.get(f"/v1/runs/{answer['id']}/why", params={"step": 9})
    assert late.status_code == 404
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


def test_a_goal_over_several_behaviors_says_why(goal_model: Path, tmp_path: Path) -> None:
    spec = ContractSpec(name="goal", model=str(goal_model), target="gain >= -1 & spent <= 2")
    service = Service(str(tmp_path / "goal.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as client:
        sent = {"agent": "a", "run": "1"}
        path = f"/v1/runs/{run_id('a', '1')}/why"
        for number in range(3):
            more = {"reward": 0.25, "signals": {"energy": 0.75}} if number else {}
            one = {**sent, "step": number, "state": [0.1 * number], **more}
            answer = client.post("/v1/steps", json=one).json()
        found = client.get(path).json()
        assert found["p"] == pytest.approx(answer["p"], abs=1e-12)
        moved = sum(one["change"] for one in found["contributions"])
        assert moved == pytest.approx(found["p"] - found["p_before"], abs=1e-12)
        assert found["culprit"] == "spent"
        gain, spent = found["behaviors"]
        assert (gain["name"], gain["target"], gain["so_far"]) == ("gain", "[-1, inf)", 0.5)
        assert (spent["name"], spent["so_far"]) == ("spent", 1.5)
        assert spent["p"] == pytest.approx(answer["parts"]["spent"], abs=1e-12)
        assert found["precedents"][0]["outcome"].keys() == {"gain", "spent"}
        earlier = client.get(path, params={"step": 1}).json()
        assert earlier["p"] == pytest.approx(found["p_before"], abs=1e-12)
        end = {**sent, "step": 3, "reward": 0.0, "signals": {"energy": 0.0}, "end": True}
        client.post("/v1/steps", json=end)
        assert client.get(path).json() == found


def test_a_run_of_a_group_is_explained_as_it_was_answered(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    walks = Episodes.from_arrays(
        rng.normal(size=(300, 3, 1)), rng.normal(size=(300, 3)), groups=["calm", "wild"] * 150
    )
    monitor = GoalMonitor(QuantileForest(n_trees=5, min_leaf=10), group="group")
    monitor.fit(walks, progress=False).save(tmp_path / "groups.ontarget")
    model = str(tmp_path / "groups.ontarget")
    spec = ContractSpec(name="walk", model=model, target="0:", false_alarm_rate=0.2)
    service = Service(str(tmp_path / "groups.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as client:
        for number in range(2):
            one = {"agent": "a", "run": "1", "step": number, "state": [0.1], "group": "wild"}
            answer = client.post("/v1/steps", json=one).json()
        found = client.get(f"/v1/runs/{run_id('a', '1')}/why").json()
        assert found["p"] == pytest.approx(answer["p"], abs=1e-12)
        assert found["path"] is not None
        assert client.get("/v1/contracts/walk/health").json()["verdict"] == "too few runs"


def test_a_unit_is_shown_and_makes_no_new_version(client: TestClient, service: Service) -> None:
    (one,) = client.get("/v1/contracts").json()
    assert "unit" not in one["spec"]
    spec = {"name": "walk", "model": one["spec"]["model"], "target": "0:", "false_alarm_rate": 0.2}
    said = client.post("/v1/contracts", json={**spec, "unit": "minutes"}).json()
    assert (said["version"], said["spec"]["unit"]) == (1, "minutes")
    again = HeldContracts(service.store, service.contracts._folder)
    assert again.named("walk").spec.unit == "minutes"
    for wrong in ({"gain": "m"}, "m" * 41, 3):
        refused = client.post("/v1/contracts", json={**spec, "unit": wrong})
        assert refused.status_code in (400, 422), wrong
        assert "unit" in refused.json()["detail"]


def test_a_goal_takes_a_unit_for_each_behavior(goal_model: Path, tmp_path: Path) -> None:
    spec = ContractSpec(name="goal", model=str(goal_model), target="gain >= -1 & spent <= 2")
    named = {"gain": "points", "spent": "kJ"}
    service = Service(
        str(tmp_path / "goal.db"),
        [msgspec.structs.replace(spec, unit=named)],
        models=tmp_path / "models",
    )
    assert service.contracts.named("goal").spec.unit == named
    for wrong, shown in (("points", "'points'"), ({"speed": "m/s"}, "'speed'")):
        with refuses(InputError, None, "'goal'", "gain, spent", shown):
            service.contracts.add(msgspec.structs.replace(spec, unit=wrong), at=0.0)
    with refuses(InputError, None, "'goal'", "$.unit"):
        service.contracts.add(msgspec.structs.replace(spec, unit="m" * 41), at=0.0)
    service.close()
