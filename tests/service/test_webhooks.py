"""Messages about alarms arrive at least once, in order, whatever a receiver does."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from starlette.testclient import TestClient

from ontarget.errors import InputError
from ontarget.service._records import alarms, deliveries, silence, try_again
from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import StepMessage
from ontarget.service.service import Service, let_go, listen_for_silence
from ontarget.service.web.api import create_app
from ontarget.service.webhooks import Hook, read_hooks
from refusals import refuses

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


class Time:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def made(url: str, model: Path, folder: Path, time: Time, **options: Any) -> Service:
    spec = ContractSpec(
        name="walk", model=str(model), target="0:", false_alarm_rate=0.2, silent_after=60.0
    )
    hooks = [
        Hook(name="ops", url="http://receiver/hook", secret=SECRET),
        Hook(name="am", url="http://receiver/api/v2/alerts", kind="alertmanager"),
    ]
    return Service(url, [spec], hooks=hooks, models=folder / "models", clock=time, **options)


def step(number: int, **more: Any) -> StepMessage:
    return StepMessage(agent="a", run="1", step=number, state=[0.1, 0.2], **more)


class Receiver:
    """Fails, hangs and resets before it takes a message."""

    def __init__(self, failures: int = 0) -> None:
        self.got: list[tuple[httpx.Request, Any]] = []
        self.failures = failures

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.failures:
            self.failures -= 1
            if self.failures % 3 == 0:
                raise httpx.ReadTimeout("hangs", request=request)
            if self.failures % 3 == 1:
                raise httpx.ConnectError("resets", request=request)
            return httpx.Response(500)
        self.got.append((request, msgspec.json.decode(request.content)))
        return httpx.Response(200)


def send(service: Service, receiver: Receiver) -> int:
    async def once() -> int:
        async def in_writer(work: Any) -> Any:
            return service.writer.run(work).result()

        async with httpx.AsyncClient(transport=httpx.MockTransport(receiver)) as client:
            return await service.courier.send_due(client, in_writer)

    return anyio.run(once)


def alarmed(service: Service) -> None:
    service.writer.take([step(0), step(1, reward=-30.0)]).result()


def test_an_alarm_is_sent_signed_as_alertmanager_would(
    url: str, model: Path, tmp_path: Path
) -> None:
    service, receiver = made(url, model, tmp_path, time := Time()), Receiver()
    alarmed(service)
    assert send(service, receiver) == 2
    by_path = {request.url.path: (request, body) for request, body in receiver.got}
    request, body = by_path["/hook"]
    assert (body["version"], body["status"]) == ("4", "firing")
    assert body["alerts"][0]["labels"]["agent"] == "a"
    assert "alarm below" in body["alerts"][0]["annotations"]["summary"]
    signed = f"{request.headers['webhook-id']}.{int(time.now)}.".encode() + request.content
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    (alert,) = by_path["/api/v2/alerts"][1]
    assert alert["labels"]["alarm"] == body["groupKey"]
    assert send(service, receiver) == 0
    service.close()


def test_messages_about_one_alarm_arrive_in_order_after_failures(
    url: str, model: Path, tmp_path: Path
) -> None:
    service, receiver = made(url, model, tmp_path, time := Time()), Receiver(failures=7)
    alarmed(service)
    service.writer.take([StepMessage(agent="a", run="1", step=2, end=True)]).result()
    for _ in range(12):
        send(service, receiver)
        time.now += 4_000.0
    for path in ("/hook", "/api/v2/alerts"):
        bodies = [body for request, body in receiver.got if request.url.path == path]
        states = [(one[0] if isinstance(one, list) else one)["status"] for one in bodies]
        assert states == ["firing", "resolved"]
    assert {one["state"] for one in deliveries(service.store)} == {"sent"}
    service.close()


def test_an_alarm_says_when_the_messages_about_it_arrived(
    url: str, model: Path, tmp_path: Path
) -> None:
    service, receiver = made(url, model, tmp_path, time := Time()), Receiver()
    alarmed(service)
    (waiting,) = alarms(service.store)
    assert (waiting["told_at"], waiting["told_over_at"]) == (None, None)
    time.now += 2.0
    send(service, receiver)
    raised, time.now = time.now, time.now + 5.0
    service.writer.take([StepMessage(agent="a", run="1", step=2, end=True)]).result()
    time.now += 3.0
    send(service, receiver)
    (told,) = alarms(service.store)
    assert (told["told_at"], told["told_over_at"]) == (raised, time.now)
    assert (told["sent"], told["contract"]) == (4, "walk@1")
    service.close()


def test_a_message_that_never_arrives_is_dead_and_can_be_tried_again(
    model: Path, tmp_path: Path
) -> None:
    service = made(str(tmp_path / "one.db"), model, tmp_path, time := Time())
    receiver = Receiver(failures=10_000)
    alarmed(service)
    for _ in range(12):
        assert send(service, receiver) == 2
        time.now += 4_000.0
    assert send(service, receiver) == 0
    dead = deliveries(service.store, state="dead")
    assert [(one["attempts"], bool(one["error"])) for one in dead] == [(12, True)] * 2
    receiver.failures = 0
    assert try_again(service.store, dead[0]["id"], at=time.now)
    assert send(service, receiver) == 1
    assert len(receiver.got) == 1
    service.close()


def test_a_courier_with_nothing_to_send_rests(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = made(str(tmp_path / "service.db"), model, tmp_path, Time())
    claims, claim = [], service.courier._claim
    monkeypatch.setattr(service.courier, "_claim", lambda: claims.append(monotonic()) or claim())
    with TestClient(create_app(service), base_url="http://127.0.0.1:8400") as client:
        began = monotonic()
        for _ in range(100):
            assert client.get("/livez").status_code == 200
        # One at the start, and one a second for what other workers have left.
        assert len(claims) <= 2 + (monotonic() - began)


def test_nothing_is_sent_about_a_silenced_agent(model: Path, tmp_path: Path) -> None:
    service, receiver = made(str(tmp_path / "one.db"), model, tmp_path, time := Time()), Receiver()
    silence(service.store, "a", until=time.now + 60.0)
    alarmed(service)
    assert send(service, receiver) == 0
    service.close()


def test_an_agent_that_falls_silent_raises_an_alarm_until_it_reports(
    url: str, model: Path, tmp_path: Path
) -> None:
    service = made(url, model, tmp_path, time := Time())
    service.writer.take([step(0)]).result()
    assert listen_for_silence(service) == 0
    time.now += 61.0
    assert listen_for_silence(service) == 1
    assert listen_for_silence(service) == 0  # once
    time.now += 1.0
    service.writer.take([step(1)]).result()
    assert listen_for_silence(service) == 0
    bodies = [msgspec.json.decode(bytes(row[0])) for row in bodies_of(service)]
    assert [one["status"] for one in bodies if isinstance(one, dict)] == ["firing", "resolved"]
    service.close()


def bodies_of(service: Service) -> list[tuple[Any, ...]]:
    with service.store.database.read() as at:
        return at.rows("SELECT body FROM outbox ORDER BY id")


def test_runs_are_exported_before_they_go(url: str, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    service = made(url, model, tmp_path, time := Time(), keep_seconds=100.0, export=folder)
    end = StepMessage(agent="a", run="1", step=1, reward=2.0, end=True)
    service.writer.take([step(0), end]).result()
    assert let_go(service) == 0
    time.now += 101.0
    assert let_go(service) == 1
    assert service.store.runs() == []
    (written,) = folder.glob("walk@1-*.parquet")
    assert written.stat().st_size > 0
    service.close()


def test_the_runs_that_ended_last_are_kept(url: str, model: Path, tmp_path: Path) -> None:
    service = made(url, model, tmp_path, time := Time(), keep_runs=2)
    for agent in "abcd":
        time.now += 1.0
        end = StepMessage(agent=agent, run="1", step=1, reward=2.0, end=True)
        service.writer.take([msgspec.structs.replace(step(0), agent=agent), end]).result()
    service.writer.take([msgspec.structs.replace(step(0), agent="open")]).result()
    assert let_go(service) == 2
    assert let_go(service) == 0
    assert [run.agent for run, _ in service.store.runs()] == ["c", "d", "open"]
    service.close()


def test_a_hook_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "service.toml"
    path.write_text('[[hook]]\nname = "ops"\nurl = "ftp://x"\n')
    with refuses(InputError, None, "service.toml", "'ops'", "http://"):
        read_hooks(path)
    path.write_text('[[hook]]\nname = "ops"\nurl = "http://x"\nsecret = "whsec_%%"\n')
    with refuses(InputError, None, "service.toml", "whsec_"):
        read_hooks(path)
