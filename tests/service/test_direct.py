"""Small requests with steps go a short way, and are answered as all others are."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from ontarget.service import ContractSpec, Limits, Service, create_app
from ontarget.service.web._direct import Direct, Found, response_of
from ontarget.service.web._protocol import protocol

HEAD = b"host: 127.0.0.1\r\ncontent-type: application/json\r\n"


def step(number: int, agent: str = "a", **more: Any) -> bytes:
    state = {"x0": 0.1 * number, "x1": -0.2}
    sent = {"agent": agent, "run": "1", "step": number, "state": state, **more}
    return msgspec.json.encode(sent)


def request(body: bytes, head: bytes = HEAD, *, line: bytes = b"POST /v1/steps HTTP/1.1") -> bytes:
    return b"%s\r\n%scontent-length: %d\r\n\r\n%s" % (line, head, len(body), body)


class Taken:
    """Stands for what takes steps: it keeps what came, and answers at once."""

    def __init__(self) -> None:
        self.came: list[tuple[str, bytes, str]] = []

    def begin(self, kind: str, body: bytes, client: str, done: Any) -> None:
        self.came.append((kind, body, client))
        done(b"{}")


def small(model: Path, folder: Path, **limits: Any) -> Service:
    spec = ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=0.2)
    options = Limits(**limits)
    return Service(str(folder / "one.db"), [spec], models=folder / "models", limits=options)


@pytest.fixture
def service(model: Path, tmp_path: Path) -> Iterator[Service]:
    found = small(model, tmp_path, body_bytes=2_000)
    yield found
    found.close()


def taken(service: Service, data: bytes, *, open_to_all: bool = True) -> list[Any]:
    """What was taken of these bytes."""
    steps, answers = Taken(), []
    direct = Direct(steps, service, open_to_all=open_to_all)  # type: ignore[arg-type]
    found = direct.take(data, "192.0.2.7", answers.append)
    assert found is (Found.TAKEN if answers else Found.OTHER)
    return steps.came


def test_a_whole_request_with_plain_fields_is_taken(service: Service) -> None:
    assert taken(service, request(b"{}")) == [("application/json", b"{}", "192.0.2.7")]
    more = HEAD + b"User-Agent: x\r\nAccept: */*\r\nConnection:  Keep-Alive \r\n"
    assert taken(service, request(b"[]", more)) == [("application/json", b"[]", "192.0.2.7")]


@pytest.mark.parametrize(
    "data",
    [
        request(b"{}")[:20],
        request(b"x" * 2_001)[:-1_000],
        request(b"{}") + request(b"{}"),  # two
        request(b"{}", line=b"GET /v1/steps HTTP/1.1"),
        request(b"{}", line=b"POST /v1/steps HTTP/1.0"),
        request(b"{}", line=b"POST /v1/steps?x=1 HTTP/1.1"),
        request(b"{}", line=b"POST /v1/steps/ HTTP/1.1"),
        request(b"x" * 2_001),  # more than the limit
        request(b"{}", HEAD + b"connection: close\r\n"),
        request(b"{}", HEAD + b"transfer-encoding: chunked\r\n"),
        request(b"{}", HEAD + b"expect: 100-continue\r\n"),
        request(b"{}", HEAD + b"content-length: 2\r\n"),  # twice
        request(b"{}", HEAD + b"content-length : 2\r\n"),
        request(b"{}", HEAD + b" folded\r\n"),
        request(b"{}", HEAD + b"accept: a\ncontent-length: 0\r\n"),  # a line break of another kind
        request(b"{}", HEAD + b"accept: a\rb\r\n"),
        request(b"{}", HEAD + b"accept: \0\r\n"),
        request(b"{}", HEAD + b"no colon\r\n"),
        request(b"{}", HEAD + b"cookie: ontarget_session=x\r\n"),
        request(b"{}", HEAD + b"origin: http://127.0.0.1\r\n"),
        request(b"{}", HEAD + b"x-forwarded-for: 192.0.2.1\r\n"),
        request(b"{}", b"host: example.org\r\n"),
        request(b"{}", b""),  # no host
        b"POST /v1/steps HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: +2\r\n\r\n{}",
        b"POST /v1/steps HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",  # no length
        b"POST /v1/steps HTTP/1.1\r\nhost: 127.0.0.1\r\n",  # no end
    ],
)
def test_whatever_is_unusual_is_left_to_the_parser(service: Service, data: bytes) -> None:
    assert taken(service, data) == []


def test_the_rest_of_a_small_request_is_waited_for(service: Service) -> None:
    whole = request(b"{}")
    direct = Direct(Taken(), service, open_to_all=True)  # type: ignore[arg-type]
    for data, found in ((whole, Found.TAKEN), (whole[:-1], Found.PART), (whole[:-2], Found.PART)):
        assert direct.take(data, "", lambda _: None) is found
    service.limits = Limits()
    large = Direct(Taken(), service, open_to_all=True)  # type: ignore[arg-type]
    assert large.take(request(b"x" * 65_536)[:-1], "", print) is Found.PART
    assert large.take(request(b"x" * 65_537)[:-1], "", print) is Found.OTHER


def test_a_token_is_asked_for_and_names_the_client(service: Service) -> None:
    reports, reads = service.tokens.create(["report"]), service.tokens.create(["read"])
    sent = {
        name: request(b"{}", HEAD + f"authorization: Bearer {token}\r\n".encode())
        for name, token in (("reports", reports), ("reads", reads), ("other", reports[:-1]))
    }
    assert taken(service, sent["reports"]) == []  # the tokens have to be read first
    service.tokens.refresh()
    (found,) = taken(service, sent["reports"], open_to_all=False)
    assert found[2] == reports.split("_")[1]
    assert taken(service, sent["reads"]) == []
    assert taken(service, sent["other"]) == []
    assert taken(service, request(b"{}"), open_to_all=False) == []


def test_a_response_has_the_fields_that_all_have() -> None:
    found = response_of(b"{}", [(b"date", b"today")], last=True)
    head, _, body = found.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert (lines[0], body) == (b"HTTP/1.1 200 OK", b"{}")
    assert {b"date: today", b"connection: close", b"content-length: 2"} <= set(lines)
    assert b"x-content-type-options: nosniff" in lines


class Line:
    """A connection that can be written to in any pieces."""

    def __init__(self, port: int) -> None:
        self.raw = socket.create_connection(("127.0.0.1", port), timeout=20.0)
        self._left = b""

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.raw.sendall(piece)
            time.sleep(0.05)  # so that each is read by itself

    def response(self) -> tuple[int, dict[str, str], Any]:
        while b"\r\n\r\n" not in self._left:
            self._left += self._more()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        size = int(fields["content-length"])
        while len(self._left) < size:
            self._left += self._more()
        body, self._left = self._left[:size], self._left[size:]
        return int(first.split()[1]), fields, msgspec.json.decode(body)

    def _more(self) -> bytes:
        found = self.raw.recv(65536)
        assert found, "the connection was closed"
        return found

    def ended(self) -> bool:
        return self.raw.recv(1) == b""


class Running:
    """A service on a port, in a thread."""

    def __init__(self, service: Service) -> None:
        self.service, app = service, create_app(service)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.found: list[Found] = []  # of each piece that came between two requests
        direct, take = app.state.direct, app.state.direct.take

        def noted(*given: Any) -> Found:
            self.found.append(take(*given))
            return self.found[-1]

        direct.take = noted
        config = uvicorn.Config(app, port=self.port, http=protocol(direct), log_config=None)
        self._server = uvicorn.Server(config)
        self._lines: list[Line] = []
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def line(self) -> Line:
        self._lines.append(Line(self.port))
        return self._lines[-1]

    def stop(self) -> None:
        self._server.should_exit = True

    def join(self) -> None:
        for line in self._lines:
            line.raw.close()
        self._thread.join(20.0)
        assert not self._thread.is_alive()


@pytest.fixture
def running(model: Path, tmp_path: Path) -> Iterator[Running]:
    found = Running(small(model, tmp_path))
    yield found
    found.stop()
    found.join()


def test_both_ways_answer_alike(running: Running) -> None:
    line = running.line()
    bodies = [
        step(0), step(0), step(0, reward=9.0), step(3), b"{", b"[" + step(0) + b"," + step(5) + b"]"
    ]  # fmt: skip
    for body in bodies:
        whole = request(body)
        line.send(whole)
        short = line.response()
        line.send(whole[:30], whole[30:])
        long = line.response()
        assert running.found[-2:] == [Found.TAKEN, Found.OTHER]
        assert short[0] == long[0]
        assert {**short[1], "date": ""} | {"content-length": ""} == {
            **long[1], "date": "", "content-length": ""
        }  # fmt: skip
        if body is not bodies[0]:
            assert short[2] == long[2]
        else:
            assert {**short[2], "duplicate": True} == long[2]
    head, _, body = request(step(0)).partition(b"\r\n\r\n")
    line.send(head + b"\r\n\r\n", body)
    assert line.response()[2]["duplicate"] is True
    assert running.found[-2:] == [Found.PART, Found.TAKEN]
    lines = request(step(0), b"host: 127.0.0.1\r\ncontent-type: application/x-ndjson\r\n")
    line.send(lines)
    assert line.response()[1]["content-type"] == "application/x-ndjson"
    line.send(request(b"{}", b"host: 127.0.0.1\r\ncontent-type: text/plain\r\n"))
    assert line.response()[0] == 415


def test_requests_that_come_too_soon_are_answered_in_order(running: Running) -> None:
    line = running.line()
    held = threading.Event()
    running.service.writer.run(lambda: held.wait(20.0))  # the first cannot be answered yet
    line.send(request(step(0)), request(step(1))[:50])
    line.send(request(step(1))[50:] + request(step(2)), request(step(3)))
    held.set()
    assert [line.response()[2]["step"] for _ in range(4)] == [0, 1, 2, 3]
    line.send(request(step(4)))
    assert line.response()[2]["step"] == 4


def test_a_refusal_does_not_overtake_the_answer_before_it(running: Running) -> None:
    line = running.line()
    slow = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    for _ in range(50):
        line.raw.sendall(slow)
        line.raw.sendall(request(b"{"))
        assert [line.response()[0] for _ in range(2)] == [200, 400]


def test_a_client_that_leaves_does_not_disturb_the_others(running: Running) -> None:
    gone, line = running.line(), running.line()
    held = threading.Event()
    running.service.writer.run(lambda: held.wait(20.0))
    gone.send(request(step(0, "gone")))
    line.send(request(step(0)))
    gone.raw.close()
    time.sleep(0.1)
    held.set()
    assert line.response()[2]["agent"] == "a"
    line.send(request(step(0, "gone")))
    assert line.response()[2]["duplicate"] is True  # it was taken all the same


def test_a_shutdown_answers_what_it_has_begun(running: Running) -> None:
    idle, line = running.line(), running.line()
    idle.send(request(step(0, "idle")))
    assert idle.response()[0] == 200
    held = threading.Event()
    running.service.writer.run(lambda: held.wait(20.0))
    line.send(request(step(0)))
    running.stop()
    assert idle.ended()  # it was told by now
    held.set()
    status, fields, _ = line.response()
    assert (status, fields["connection"]) == (200, "close")
    assert line.ended()
    running.join()


def test_a_full_queue_is_said_on_the_short_way(model: Path, tmp_path: Path) -> None:
    running = Running(small(model, tmp_path, waiting=1))
    try:
        first, second = running.line(), running.line()
        held = threading.Event()
        running.service.writer.run(lambda: held.wait(20.0))
        first.send(request(step(0)))
        second.send(request(step(0, "b")))
        status, fields, problem = second.response()
        assert (status, fields["retry-after"], problem["title"]) == (429, "1", "busy")
        held.set()
        assert first.response()[0] == 200
    finally:
        running.stop()
        running.join()


def test_a_step_of_the_short_way_is_counted(running: Running) -> None:
    line = running.line()
    line.send(request(step(0)))
    line.response()
    line.send(request(step(2)))
    line.response()
    line.send(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    line.raw.settimeout(20.0)
    text = b""
    while b"ontarget_ready" not in text:
        text += line.raw.recv(65536)
    assert b'ontarget_steps_total{result="taken"} 1.0' in text
    assert b'ontarget_steps_total{result="refused"} 1.0' in text
    assert b'ontarget_request_steps_bucket{le="1.0"} 2.0' in text
    assert b"ontarget_request_seconds_count 2.0" in text
