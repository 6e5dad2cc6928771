"""The clients send steps again without harm, and keep their order while the line is down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from ontarget import Episodes, GoalMonitor, Target
from ontarget import client as clients
from ontarget.client import Client
from ontarget.errors import InputError, ServiceError
from ontarget.service.contracts import ContractSpec
from ontarget.service.service import Service
from ontarget.service.web.api import create_app
from refusals import refuses

LOCAL = "http://127.0.0.1:8400"


@pytest.fixture
def served(model: Path, tmp_path: Path) -> Iterator[TestClient]:
    spec = ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=0.2)
    service = Service(str(tmp_path / "one.db"), [spec], models=tmp_path / "models")
    with TestClient(create_app(service), base_url=LOCAL) as found:
        yield found


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_pause", lambda attempt: 0.0)


class Line:
    """A line to a service that is down at times: before the request, or after it was served."""

    def __init__(self, served: TestClient, troubles: list[str]) -> None:
        self._served = served
        self.troubles = troubles
        self.bodies: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "down":
            raise httpx.ConnectError("down", request=request)
        self.bodies.append(json.loads(request.content))
        headers = {"content-type": "application/json"}
        found = self._served.post("/v1/steps", content=request.content, headers=headers)
        if trouble == "lost":
            raise httpx.ReadError("lost", request=request)
        if trouble == "busy":
            return httpx.Response(429, headers={"retry-after": "1"})
        return httpx.Response(found.status_code, content=found.content)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


def test_a_step_whose_answer_was_lost_is_sent_again(served: TestClient) -> None:
    line = Line(served, ["down", "lost", "busy"])
    with Client(LOCAL, transport=line.transport) as client:
        answer = client.step("a", "1", 0, np.array([0.1, np.nan]))
        assert answer is not None
        assert answer["duplicate"] is True  # the one whose answer was lost was taken
        assert line.bodies[-1][0]["state"] == [0.1, None]
        assert client.end("a", "1", 1, 3.0)["status"] == "DONE"  # type: ignore[index]


def test_steps_are_kept_in_order_while_the_line_is_down(served: TestClient) -> None:
    line = Line(served, ["down"] * 3)
    with Client(LOCAL, offline=True, transport=line.transport) as client:
        for step in range(3):
            assert client.step("a", "1", step, [0.1, 0.2]) is None
        assert client.waiting == 3
        answer = client.step("a", "1", 3, {"x0": 0.1, "x1": 0.2}, 1.0)
        assert answer is not None
        assert (answer["step"], client.waiting) == (3, 0)
    assert [one["step"] for one in line.bodies[-1]] == [0, 1, 2, 3]


def test_a_line_that_stays_down_is_said_and_loses_nothing(served: TestClient) -> None:
    line = Line(served, ["down"] * 6)
    with Client(LOCAL, transport=line.transport) as client:
        with refuses(ServiceError, None, "8400", "1 steps"):
            client.step("a", "1", 0, [0.1, 0.2])
        (answer,) = client.flush()
        assert answer["step"] == 0


def test_a_refused_step_raises_and_is_not_sent_again(served: TestClient) -> None:
    with Client(LOCAL, transport=Line(served, []).transport) as client:
        with refuses(ServiceError, None, "step 0"):
            client.step("a", "1", 4, [0.1, 0.2])
        assert client.waiting == 0


def test_a_full_buffer_is_said(served: TestClient) -> None:
    line = Line(served, ["down"] * 9)
    with Client(LOCAL, offline=True, buffer=2, transport=line.transport) as client:
        client.step("a", "1", 0, [0.1, 0.2])
        client.step("a", "1", 1, [0.1, 0.2])
        with refuses(ServiceError, None, "2 steps", "buffer="):
            client.step("a", "1", 2, [0.1, 0.2])


def test_many_messages_are_answered_in_order_and_an_event_loop_may_use_a_thread(
    served: TestClient,
) -> None:
    line = Line(served, ["lost", "down"])

    async def run() -> None:
        with Client(LOCAL, transport=line.transport) as client:
            answer = await asyncio.to_thread(client.step, "a", "1", 0, [0.1, 0.2])
            assert answer is not None
            assert answer["duplicate"] is True
            assert client.end("a", "1", 1)["status"] == "DONE"  # type: ignore[index]
            many = [{"agent": agent, "run": "1", "step": 0, "state": [0.1, 0.2]} for agent in "ab"]
            assert [one["status"] for one in client.report(many)] == [409, "OK"]
            assert (client.waiting, client.flush()) == (0, [])

    asyncio.run(run())


def test_an_address_without_a_scheme_is_refused() -> None:
    with refuses(InputError, "url", "'127.0.0.1:8400'"):
        Client("127.0.0.1:8400")


def test_the_command_line_sends_lines_to_a_service(
    served: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from ontarget.cli import app

    transport, real = Line(served, []).transport, clients.Client
    monkeypatch.setattr(clients, "Client", lambda url, token: real(url, token, transport=transport))
    lines = [
        '{"agent": "a", "state": [0.1, 0.2]}',
        '{"agent": "a", "state": [0.1, 0.2], "reward": 1}',
        "nonsense",
        '{"agent": "a", "reward": 1, "end": true}',
        '{"agent": "a", "state": [0.1, 0.2]}',
    ]
    found = CliRunner().invoke(app, ["watch", "--server", LOCAL], input="\n".join(lines))
    assert found.exit_code == 0, found.output
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert [one.get("step") for one in answers] == [0, 1, None, 2, 0]
    assert answers[3]["status"] == "DONE"
    assert answers[2]["line"] == 3
    assert answers[4]["run"] != answers[0]["run"]


def test_recorded_runs_are_played_to_a_service_side_by_side(
    served: TestClient, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from ontarget.cli import app

    transport, real = Line(served, []).transport, clients.Client
    monkeypatch.setattr(clients, "Client", lambda url, token: real(url, token, transport=transport))
    monitor = GoalMonitor.load(model)
    rng = np.random.default_rng(5)
    runs = Episodes.from_arrays(
        rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4)), ids=["x", "y", "z"]
    )
    runs.write(tmp_path / "runs.csv")
    arguments = ["watch", str(model), "--server", LOCAL, "--replay", str(tmp_path / "runs.csv")]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(one["agent"], one["step"]) for one in answers] == [
        (agent, step) for step in range(5) for agent in "xyz"
    ]
    watch = monitor.watch(Target.at_least(0.0), alarm_below=0.1)
    for t in range(4):
        p = watch.step(runs.at(t).states[1], runs.rewards_at(t - 1)[1] if t else 0.0).p
        assert answers[3 * t + 1]["p"] == p
    assert {one["status"] for one in answers[-3:]} == {"DONE"}
    wrong = CliRunner().invoke(app, [*arguments, "--target", "0:"])
    assert "only --replay RUNS needs MODEL" in " ".join(wrong.output.split())


def test_runs_of_several_behaviors_are_played_with_each_signal(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from ontarget.cli import app
    from ontarget.cli.live import WatchCommand

    rng = np.random.default_rng(0)
    signals = {"reward": rng.normal(size=(60, 3)), "energy": rng.random(size=(60, 3))}
    behavior = {"gain": "sum", "spent": "sum:energy"}
    runs = Episodes.from_arrays(rng.normal(size=(60, 3, 1)), signals, behavior=behavior)
    model, log = tmp_path / "goal.ontarget", tmp_path / "runs.csv"
    GoalMonitor(min_calibration=5).fit(runs, progress=False).save(model)
    runs.take([0]).write(log)
    first, second, *_, last = WatchCommand(model=model, replay=log)._sent()
    assert "signals" not in first
    assert second["reward"] == signals["reward"][0, 0]
    assert second["signals"] == {"energy": signals["energy"][0, 0]}
    assert last["end"]
    asked = ["watch", str(model), "--server", LOCAL, "--replay", str(log), "--speed", "0"]
    assert "--speed needs a number of steps above 0" in CliRunner().invoke(app, asked).output


class Corridor(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full(2, 0.1 * self.t, dtype=np.float32), 0.5, self.t == 4, False, {}


def test_a_wrapped_environment_reports_its_steps(served: TestClient, model: Path) -> None:
    from ontarget.integrations import GoalWrapper

    client = Client(LOCAL, transport=Line(served, []).transport)
    monitor = GoalMonitor.load(model)
    env = GoalWrapper(
        Corridor(), monitor, Target.at_least(0), false_alarm_rate=0.2, client=client, agent="e"
    )
    _, info = env.reset()
    told = [info["goal"]]
    for _ in range(4):
        *_, info = env.step(0)
        told.append(info["goal"])
    (run,) = served.get("/v1/runs").json()["items"]
    answers = served.get(f"/v1/runs/{run['id']}").json()["answers"]
    assert run["agent"] == "e"
    assert [(one["p"], one["status"]) for one in answers] == [
        (one.p, one.status.name) for one in told
    ]
