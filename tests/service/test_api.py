"""The API takes steps, shows what it has, and refuses what it should."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from starlette.testclient import TestClient

from ontarget import Episodes, GoalMonitor
from ontarget.errors import InputError, StoreError
from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import run_id
from ontarget.service.service import Limits, Service
from ontarget.service.web.api import create_app
from ontarget.service.web.server import serve_on
from refusals import refuses

LOCAL = "http://127.0.0.1:8400"


def made(url: str, model: Path, folder: Path, **options: Any) -> Service:
    spec = ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=0.2)
    return Service(url, [spec], models=folder / "models", **options)


@pytest.fixture
def service(url: str, model: Path, tmp_path: Path) -> Service:
    return made(url, model, tmp_path)


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url=LOCAL) as found:
        yield found


def step(number: int, agent: str = "a", **more: Any) -> dict[str, Any]:
    state = {"x0": 0.1 * number, "x1": -0.2}
    return {"agent": agent, "run": "1", "step": number, "state": state, **more}


def whole_runs(client: TestClient, rewards: list[float], prefix: str = "a") -> None:
    """One run of each of as many agents, which earn this at every step."""
    for number in range(7):
        more = {"end": True, "state": None} if number == 6 else {}
        sent = [
            step(number, f"{prefix}{i}", **({"reward": reward, **more} if number else {}))
            for i, reward in enumerate(rewards)
        ]
        answers = client.post("/v1/steps", json=sent).json()
    assert {one["status"] for one in answers} == {"DONE"}


def test_one_step_an_array_and_lines_are_answered_alike(client: TestClient) -> None:
    one = client.post("/v1/steps", json=step(0))
    assert one.status_code == 200
    assert {"p", "spread", "low", "high", "status", "threshold", "so_far"} <= one.json().keys()
    array = client.post("/v1/steps", json=[step(0), step(0, "b")]).json()
    assert array[0] == {**one.json(), "duplicate": True}
    lines = "\n".join(msgspec.json.encode(step(0, agent)).decode() for agent in "ab")
    headers = {"content-type": "application/x-ndjson"}
    answers = client.post("/v1/steps", content=lines, headers=headers).text.splitlines()
    assert [msgspec.json.decode(line) for line in answers] == [
        array[0],
        {**array[1], "duplicate": True},
    ]


def test_a_batch_is_answered_item_by_item(client: TestClient) -> None:
    sent = [step(0), {"agent": "b"}, step(3, "c"), step(0, "d", color="red")]
    good, short, gap, unknown = client.post("/v1/steps", json=sent).json()
    assert good["status"] == "OK"
    assert (short["status"], short["detail"]) == (400, "Object missing required field `step`")
    assert (gap["status"], gap["expected"]) == (409, 0)
    assert "color" in unknown["detail"]


def test_problems_are_those_of_rfc_9457(client: TestClient) -> None:
    client.post("/v1/steps", json=step(0))
    refused = client.post("/v1/steps", json=step(2))
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json() == {
        "status": 409, "title": "gap", "detail": "step 1 has not arrived; send it first",
        "type": "urn:ontarget:gap", "expected": 1, "agent": "a", "run": "1", "step": 2,
    }  # fmt: skip
    for path in ("/nowhere", "/v1/runs/none", "/v1/alarms/none/acknowledge"):
        assert client.get(path).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1, 2", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'{"agent": "a\\u0000", "run": "1", "step": 0}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
    ],
)
def test_a_wrong_body_is_refused(client: TestClient, body: bytes, kind: str, status: int) -> None:
    found = client.post("/v1/steps", content=body, headers={"content-type": kind})
    assert found.status_code == status


def test_runs_and_their_history_are_shown(client: TestClient) -> None:
    for agent in "abc":
        client.post("/v1/steps", json=[step(0, agent), step(1, agent)])
    page = client.get("/v1/runs", params={"limit": 2}).json()
    assert [run["agent"] for run in page["items"]] == ["a", "b"]
    rest = client.get("/v1/runs", params={"after": page["next"]}).json()
    assert [run["agent"] for run in rest["items"]] == ["c"]
    assert rest["next"] is None
    found = client.get(f"/v1/runs/{run_id('a', '1')}").json()
    assert [one["step"] for one in found["answers"]] == [0, 1]
    assert found["run"]["last"] == found["answers"][-1]
    later = client.get(f"/v1/runs/{run_id('a', '1')}", params={"from": 1}).json()
    assert [one["step"] for one in later["answers"]] == [1]
    assert later["states"] == [step(1)["state"]]
    agents = client.get("/v1/agents", params={"limit": 1}).json()
    assert (agents["items"][0]["agent"], agents["next"]) == ("a", "a")


def test_a_run_ends_by_its_id(client: TestClient) -> None:
    client.post("/v1/steps", json=step(0))
    key = run_id("a", "1")
    end = client.post(f"/v1/runs/{key}/end", json={"step": 1, "reward": 2.0})
    assert (end.json()["status"], end.json()["p"]) == ("DONE", 1.0)
    again = client.post(f"/v1/runs/{key}/end", json={"step": 1, "reward": 2.0})
    assert again.json()["duplicate"] is True
    assert client.get("/v1/runs", params={"open": "true"}).json()["items"] == []


def test_an_alarm_is_shown_acknowledged_and_cleared(client: TestClient) -> None:
    client.post("/v1/steps", json=[step(0), step(1, reward=-30.0)])
    (alarm,) = client.get("/v1/alarms", params={"open": "true"}).json()["items"]
    assert alarm["agent"] == "a"
    assert "alarm below" in alarm["reason"]
    assert (alarm["sent"], alarm["waiting"], alarm["dead"]) == (0, 0, 0)
    said = client.post(
        f"/v1/alarms/{alarm['id']}/acknowledge", json={"by": "Ada", "note": "on my way"}
    ).json()
    assert (said["acknowledged_by"], said["note"]) == ("Ada", "on my way")
    assert client.post(f"/v1/alarms/{alarm['id']}/silence", json={"minutes": 5}).status_code == 200
    client.post("/v1/steps", json={"agent": "a", "run": "1", "step": 2, "end": True})
    assert client.get("/v1/alarms", params={"open": "true"}).json()["items"] == []


def test_contracts_are_added_and_versioned(client: TestClient, model: Path) -> None:
    spec = {"name": "walk", "model": str(model), "target": "1:", "alarm_below": 0.5}
    assert client.post("/v1/contracts", json=spec).json()["version"] == 2
    (found,) = client.get("/v1/contracts").json()
    assert (found["version"], found["thresholds"], found["horizon"]) == (2, [0.5], 6)
    assert sum(found["made_from"].values()) == 300
    for path in ("nowhere", "no\0where"):
        wrong = client.post("/v1/contracts", json={**spec, "model": path})
        assert (wrong.status_code, wrong.json()["title"]) == (422, "refused")


def test_recorded_runs_are_ready_for_fit(client: TestClient, tmp_path: Path) -> None:
    whole_runs(client, [0.5, -0.5] * 15)
    got = client.get("/v1/episodes.parquet").content
    frame = pl.read_parquet(io.BytesIO(got))
    assert frame.columns == ["episode", "step", "reward", "x0", "x1"]
    path = tmp_path / "runs.parquet"
    path.write_bytes(got)
    episodes = Episodes.read(path)
    assert len(episodes) == 30
    assert sorted(set(episodes.outcomes.tolist())) == [-3.0, 3.0]
    fitted = GoalMonitor(min_calibration=5).fit(episodes, progress=False)
    assert fitted.fitted.horizon == 6


def test_health_names_the_open_run_that_others_wait_for(client: TestClient) -> None:
    client.post("/v1/steps", json={"agent": "lost", "run": "1", "step": 0, "state": [0.1, 0.2]})
    whole_runs(client, [0.5] * 3)
    found = client.get("/v1/contracts/walk/health").json()
    assert (found["runs"], found["guarded"], found["waits_for"]) == (3, 0, "lost")
    cut = {"agent": "lost", "run": "1", "step": 1, "truncated": True}
    assert client.post("/v1/steps", json=cut).status_code == 200
    found = client.get("/v1/contracts/walk/health").json()
    assert (found["runs"], found["guarded"], found["waits_for"]) == (3, 3, "")


def test_health_tells_which_steps_got_no_answer_and_why(client: TestClient) -> None:
    assert client.get("/v1/contracts/walk/health").json()["unanswered"]["of"] == 0
    whole_runs(client, [0.5] * 3)
    bad = [{**step(k, "bad"), "state": {"x0": None, "x1": 0.0}} for k in range(2)]
    lost = [step(0, "lost"), step(1, "lost", reward=None), step(2, "lost")]
    client.post("/v1/steps", json=[*bad, *lost])
    client.post("/v1/steps", json=step(3, "lost", state=None, truncated=True))
    found = client.get("/v1/contracts/walk/health").json()["unanswered"]
    # Of 3 runs with 6 steps, of 2 bad readings, and of 3 steps, 2 of them after a lost reward.
    assert (found["steps"], found["of"]) == (4, 3 * 6 + 2 + 3)
    assert sorted(found["reasons"].values()) == [2, 2]
    assert any("x0" in reason for reason in found["reasons"])


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
@pytest.mark.parametrize("target", ["-1000:", "0:"])
def test_a_contract_says_that_p_has_nothing_to_learn_from(
    target: str, model: Path, tmp_path: Path
) -> None:
    spec = ContractSpec(name="walk", model=str(model), target=target, alarm_below=0.2)
    service = Service(str(tmp_path / "s.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as client:
        answer = client.post("/v1/steps", json=step(0)).json()
        (contract,) = client.get("/v1/contracts").json()
        health = client.get("/v1/contracts/walk/health").json()
    assert contract["one_sided"] == health["one_sided"]
    assert bool(contract["one_sided"]) is (target == "-1000:")
    assert answer.get("reason", "") == contract["one_sided"]


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_a_contract_over_several_behaviors_says_it_too(goal_model: Path, tmp_path: Path) -> None:
    asked = "gain >= -1000 & spent <= 1000"
    spec = ContractSpec(name="goal", model=str(goal_model), target=asked, alarm_below=0.2)
    service = Service(str(tmp_path / "s.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as client:
        sent = {"agent": "a", "run": "1", "step": 0, "state": [0.0]}
        answer = client.post("/v1/steps", json=sent).json()
        (contract,) = client.get("/v1/contracts").json()
    assert contract["one_sided"]
    assert contract["one_sided"] in answer["reason"]


def test_health_is_said_once_there_are_enough_runs(client: TestClient) -> None:
    few = client.get("/v1/contracts/walk/health").json()
    assert (few["verdict"], few["runs"]) == ("too few runs", 0)
    whole_runs(client, [-2.0] * 40)  # far worse than what was recorded
    found = client.get("/v1/contracts/walk/health").json()
    assert (found["verdict"], found["runs"], found["guarded"]) == ("drifting", 40, 40)
    assert found["evidence"] > 1.0
    assert sum(one["runs"] for one in found["bins"]) == 40 * 4
    assert sum(one["met"] for one in found["bins"]) == 0
    assert (few["renewal"], found["renewal"]) == (None, {"runs": 0, "counted": 0, "needed": 4})
    whole_runs(client, [2.0] * 3 + [-2.0] * 2, "later")
    later = client.get("/v1/contracts/walk/health").json()["renewal"]
    assert later == {"runs": 5, "counted": 3, "needed": 4}
    assert (
        'ontarget_contract_health{contract="walk",health="drifting"} 1.0'
        in client.get("/metrics").text
    )


def test_a_contract_is_recalibrated_on_recorded_runs(
    client: TestClient, service: Service, model: Path
) -> None:
    path = "/v1/contracts/walk/recalibrate"
    early = client.post(path, json={})
    assert (early.status_code, early.json()["title"]) == (422, "refused")
    whole_runs(client, [0.1 * i - 2.0 for i in range(40)])
    client.post("/v1/steps", json=step(0, "old"))
    for name in ("x", "y"):
        client.post("/v1/steps", json=[step(0, name), step(1, name, state=None, truncated=True)])
    seen = client.get("/v1/contracts/walk/health").json()
    assert seen["cut_off"] == 2
    since = {"since": "2020-01-01T00:00:00Z"}
    made_new = client.post(path, json=since)
    assert made_new.status_code == 200, made_new.text
    assert made_new.json()["version"] == 2
    ended = {v: client.get(f"/v1/contracts/walk/health?version={v}") for v in (1, 2, 3)}
    assert [ended[v].json()["runs"] for v in (1, 2)] == [40, 0]
    assert (ended[3].status_code, ended[3].json()["title"]) == (404, "unknown version")
    held = service.contracts.named("walk")
    assert held.fitted.trained.sizes["assure"] == 42
    old, new = client.post("/v1/steps", json=[step(1, "old"), step(0, "new")]).json()
    assert (old["contract"], new["contract"]) == ("walk@1", "walk@2")
    # The file that it was made from is in force as it was asked for, so a restart keeps it.
    again = service.contracts.add(
        ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=0.2), at=9.0
    )
    assert again.version == 2


def test_alarms_are_listed_from_the_newest(client: TestClient) -> None:
    for agent in "abc":
        client.post("/v1/steps", json=[step(0, agent), step(1, agent, reward=-30.0)])
    first = client.get("/v1/alarms", params={"limit": 2}).json()
    assert [one["agent"] for one in first["items"]] == ["c", "b"]
    rest = client.get("/v1/alarms", params={"limit": 2, "after": first["next"]}).json()
    assert ([one["agent"] for one in rest["items"]], rest["next"]) == (["a"], None)


def test_runs_and_agents_can_be_deleted(client: TestClient) -> None:
    for agent in "ab":
        client.post("/v1/steps", json=[step(0, agent), step(1, agent)])
    assert client.delete(f"/v1/runs/{run_id('a', '1')}").json() == {"deleted": 1}
    assert client.delete("/v1/agents/b").json() == {"deleted": 1}
    assert client.delete("/v1/agents/b").status_code == 404
    assert client.get("/v1/runs").json()["items"] == []
    begun = client.post("/v1/steps", json=step(0, "b", reward=1.0)).json()
    assert "duplicate" not in begun


def test_events_go_on_from_where_a_client_left_off(service: Service) -> None:
    from starlette.requests import Request

    app = create_app(service)
    streams = app.state.api.streams

    def follow(last: str) -> Any:
        headers = [(b"last-event-id", last.encode())] if last else []
        return streams.response(Request({"type": "http", "headers": headers}))

    async def events(last: str, n: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        async for part in follow(last).body_iterator:
            for block in part.decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
                if "data" in fields:
                    found.append((fields["id"], msgspec.json.decode(fields["data"])["step"]))
            if len(found) >= n:
                return found
        return found

    with TestClient(app, base_url=LOCAL) as client:
        client.post("/v1/steps", json=[step(0), step(1), step(2)])
        portal = client.portal
        assert portal is not None
        seen = portal.call(events, "0", 3)
        assert [number for _, number in seen] == [0, 1, 2]
        assert portal.call(events, seen[0][0], 2) == seen[1:]
        streams.close()  # a shutdown ends them
        assert client.get("/v1/events").status_code == 429


def test_other_places_than_this_machine_need_a_token(service: Service) -> None:
    token = service.tokens.create(["report"], at=0.0)
    reader = service.tokens.create(["read"], at=0.0)
    with TestClient(create_app(service, open_to_all=False), base_url="http://host") as client:
        assert client.get("/livez").status_code == 200
        none = client.post("/v1/steps", json=step(0))
        assert (none.status_code, none.headers["www-authenticate"]) == (401, "Bearer")
        for wrong in (token[:-1] + ("a" if token[-1] != "a" else "b"), "ot_x_y", "nonsense", "ot_"):
            headers = {"authorization": f"Bearer {wrong}"}
            assert client.post("/v1/steps", json=step(0), headers=headers).status_code == 401
        mine = {"authorization": f"Bearer {token}"}
        assert client.post("/v1/steps", json=step(0), headers=mine).status_code == 200
        assert client.get("/v1/runs", headers=mine).status_code == 403
        theirs = {"authorization": f"Bearer {reader}"}
        assert client.get("/v1/runs", headers=theirs).status_code == 200
        admin = {"authorization": f"Bearer {service.tokens.create(['admin'], at=0.0)}"}
        made_here = client.post("/v1/tokens", json={"scopes": ["read"]}, headers=admin).json()
        number = made_here["token"].split("_")[1]
        assert client.delete(f"/v1/tokens/{number}", headers=admin).json() == {"deleted": 1}
        gone = {"authorization": f"Bearer {made_here['token']}"}
        assert client.get("/v1/runs", headers=gone).status_code == 401
    with pytest.raises(StoreError), service.store.database.read() as at:
        at.rows("SELECT secret FROM tokens")  # only its checksum is stored


def test_without_a_token_no_page_of_a_browser_may_ask(service: Service) -> None:
    with TestClient(create_app(service), base_url=LOCAL) as client:
        assert client.get("/v1/runs", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get("/v1/runs", headers={"host": "evil.example"}).status_code == 403
        shown = client.get("/v1/runs").headers
        assert shown["x-content-type-options"] == "nosniff"
        assert shown["content-security-policy"].startswith("default-src 'none'")


def test_what_came_through_a_proxy_needs_a_token(service: Service) -> None:
    with TestClient(create_app(service), base_url=LOCAL) as client:
        for name in ("x-forwarded-for", "forwarded"):
            found = client.get("/v1/runs", headers={name: "for=192.0.2.1"})
            assert (found.status_code, found.json()["title"]) == (403, "not local")
        token = service.tokens.create(["read"])
        sent = {"authorization": f"Bearer {token}", "x-forwarded-for": "192.0.2.1"}
        assert client.get("/v1/runs", headers=sent).status_code == 200
        assert service.tokens.revoke(token.split("_")[1])
        with refuses(InputError, None, "--new-token"):
            serve_on(service, require_token=True)


def test_what_is_too_much_is_refused(model: Path, tmp_path: Path) -> None:
    limits = Limits(body_bytes=2_000, batch=3, agents=2, run_steps=2, steps_per_second=8.0)
    app = create_app(made(str(tmp_path / "small.db"), model, tmp_path, limits=limits))
    app.state.api.taking._buckets._clock = lambda: 0.0  # on a slow machine a second would pass
    with TestClient(app, base_url=LOCAL) as client:
        assert client.post("/v1/steps", json=[step(0)] * 4).status_code == 413
        assert client.post("/v1/steps", json=step(0, note="x" * 3_000)).status_code == 413
        answers = client.post("/v1/steps", json=[step(0, agent) for agent in "abc"]).json()
        assert [one["status"] for one in answers] == ["OK", "OK", 403]
        long = client.post("/v1/steps", json=[step(1), step(2)]).json()
        assert (long[0]["status"], long[1]["title"]) == ("OK", "too long")
        fast = [client.post("/v1/steps", json=[step(0)] * 3) for _ in range(4)][-1]
        assert (fast.status_code, fast.headers["retry-after"]) == (429, "1")


def test_a_store_that_fails_is_said_and_comes_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("database or disk is full")

    with TestClient(create_app(service), base_url=LOCAL) as client:
        client.post("/v1/steps", json=step(0))
        with monkeypatch.context() as broken:
            broken.setattr(service.store, "commit", full)
            broken.setattr(service.store, "probe", full)
            down = client.post("/v1/steps", json=step(1))
            assert (down.status_code, down.headers["retry-after"]) == (503, "5")
            assert client.get("/readyz").status_code == 503
            assert client.get("/livez").status_code == 200
        assert client.post("/v1/steps", json=step(1)).json()["step"] == 1
        service._readied = float("-inf"), ""
        assert client.get("/readyz").status_code == 200


def test_a_full_disk_loses_nothing_and_is_survived(model: Path, tmp_path: Path) -> None:
    service = made(str(tmp_path / "full.db"), model, tmp_path)
    writer = service.store.database._writer  # type: ignore[attr-defined]

    def room(pages: int) -> None:
        service.writer.run(lambda: writer.execute(f"PRAGMA max_page_count = {pages}")).result()

    with TestClient(create_app(service), base_url=LOCAL) as client:
        agents = [f"a{i}" for i in range(300)]
        first = client.post("/v1/steps", json=[step(0, agent) for agent in agents]).json()
        room(1)  # SQLite takes it as: not a page more than there are
        down = client.post("/v1/steps", json=[step(1, agent) for agent in agents])
        assert (down.status_code, down.json()["title"]) == (503, "store")
        assert client.get("/readyz").status_code == 503
        again = client.post("/v1/steps", json=[step(0, agent) for agent in agents]).json()
        assert again == [{**one, "duplicate": True} for one in first]
        room(1 << 30)
        back = client.post("/v1/steps", json=[step(1, agent) for agent in agents]).json()
        assert {one["step"] for one in back} == {1}
        assert client.get("/readyz").status_code == 200


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be deleted")
def test_a_service_without_its_file_is_not_ready(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "gone.db"
    service = made(str(path), model, tmp_path)
    with TestClient(create_app(service), base_url=LOCAL) as client:
        assert client.post("/v1/steps", json=step(0)).status_code == 200
        assert client.get("/readyz").status_code == 200
        for left in tmp_path.glob("gone.db*"):
            left.unlink()
        down = client.post("/v1/steps", json=step(1))
        assert (down.status_code, down.json()["title"]) == (503, "store")
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200


@pytest.mark.parametrize("open_to_all", [True, False])
def test_only_a_token_that_may_read_is_told_why_a_service_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch, open_to_all: bool
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("/secret/place.db is full")

    tokens = {scope: service.tokens.create([scope]) for scope in ("report", "read", "admin")}
    monkeypatch.setattr(service.store, "probe", full)
    app = create_app(service, open_to_all=open_to_all)
    with TestClient(app, base_url=LOCAL) as client:

        def told(**headers: str) -> dict[str, Any]:
            found = client.get("/readyz", headers=headers)
            assert found.status_code == 503
            return found.json()

        assert told() == {"status": 503, "title": "not ready"}
        assert told(authorization=f"Bearer {tokens['report']}") == told()
        assert told(authorization="Bearer ot_x_y") == told()
        for scope in ("read", "admin"):
            assert "place.db" in told(authorization=f"Bearer {tokens[scope]}")["detail"]


def test_a_service_is_ready_again_some_time_after_a_write_failed(
    model: Path, tmp_path: Path
) -> None:
    service = made(str(tmp_path / "one.db"), model, tmp_path)
    try:
        now = time.monotonic()
        service.store.failed = now, "database or disk is full"
        assert service.trouble() == "database or disk is full"
        service.store.failed = now - 11.0, "database or disk is full"
        assert service.trouble() == ""  # agents may try
    finally:
        service.close()


def test_the_api_describes_itself(client: TestClient) -> None:
    found = client.get("/v1/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    served = {route.path for route in client.app.routes}  # type: ignore[attr-defined]
    assert set(found["paths"]) == served - {"/", "/page/{name}", "/session"}  # the page is no API
    assert "StepMessage" in found["components"]["schemas"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize(
    "name", ["/dev/zero", "pipe", "link", "folder", "huge", "junk", "a\0b", "x" * 5_000, ""]
)
def test_a_model_is_a_regular_file_of_bounded_size(
    client: TestClient, name: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for sparse, size in (("huge", 1 << 40), ("junk", 1 << 29)):
        with (tmp_path / sparse).open("wb") as file:
            file.truncate(size)
    path = str(tmp_path / name) if name else ""
    sent = client.post("/v1/contracts", json={"name": "x", "model": path, "target": "0:"})
    assert sent.status_code == 422, sent.text
    assert client.post("/v1/steps", json=step(0)).status_code == 200


def test_the_type_of_a_body_is_told_in_any_letters(client: TestClient, model: Path) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post(
        "/v1/steps", content=msgspec.json.encode(step(0)), headers=headers
    ).is_success
    spec = {"name": "y", "model": str(model), "target": "0:", "false_alarm_rate": 0.2}
    assert client.post(
        "/v1/contracts", content=msgspec.json.encode(spec), headers=headers
    ).is_success
