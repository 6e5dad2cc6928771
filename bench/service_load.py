"""How many steps the service takes per second, beside an endpoint that only parses and echoes.

    python bench/service_load.py [runs of each agent]

Both run in a process of their own with the same server, parser and event loop; the client is a
third. Single steps come over 64 connections, batches of 1,000 agents over 2.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from service_runs import HORIZON, TARGET, message, write_model
from yardstick.figures import keep

ECHO = """
import sys, msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from ontarget.service import StepMessage

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
    """One connection that sends a request after the other; plain, so that it costs little."""

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


async def measured(port: int, bodies: list[list[bytes]], per_body: int) -> dict:
    """Send each connection's bodies one after the other."""
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
    seconds = time.perf_counter() - began
    return {
        "rate": sum(len(mine) for mine in bodies) * per_body / seconds,
        "p50": 1e3 * float(np.percentile(times, 50)),
        "p99": 1e3 * float(np.percentile(times, 99)),
    }


def singles(runs: int) -> list[list[bytes]]:
    return [
        [
            msgspec.json.encode(message(f"single-{c}", step, str(run)))
            for run in range(runs)
            for step in range(HORIZON)
        ]
        for c in range(64)
    ]


def batches(runs: int, agents: int = 1_000) -> list[list[bytes]]:
    return [
        [
            msgspec.json.encode([message(f"fleet-{c}-{i}", step, str(run)) for i in range(agents)])
            for run in range(runs)
            for step in range(HORIZON)
        ]
        for c in range(2)
    ]


def memory(pid: int) -> float:
    with Path(f"/proc/{pid}/status").open() as lines:
        return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


async def main(runs: int) -> None:
    folder = Path(tempfile.mkdtemp())
    write_model(folder)
    one, many = singles(runs), batches(runs)
    ports = free_port(), free_port()
    echo = subprocess.Popen([sys.executable, "-c", ECHO, str(ports[0])])
    command = [
        sys.executable, "-m", "ontarget", "serve", "walk.ontarget", "--target", TARGET,
        "--database", "load.db", "--port", str(ports[1]),
    ]  # fmt: skip
    serve = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start")
    try:
        for port in ports:
            await ready(port)
        for name, bodies, size in (("single steps", one, 1), ("batches of 1,000", many, 1_000)):
            bare = await measured(ports[0], bodies, size)
            before = memory(serve.pid)
            found = await measured(ports[1], bodies, size)
            after = memory(serve.pid)
            print(f"{name}: {sum(map(len, bodies)) * size:,} steps")
            print(f"  echo     {bare['rate']:9,.0f} steps/s, p99 {bare['p99']:.1f} ms")
            print(
                f"  service  {found['rate']:9,.0f} steps/s, p50 {found['p50']:.1f} ms, "
                f"p99 {found['p99']:.1f} ms, {found['rate'] / bare['rate']:.2f} of the echo"
            )
            keep(f"service, {name}", found["rate"], "steps/s", beside=f"echo: {bare['rate']:,.0f}")
            keep(f"service, {name}, 99th percentile", found["p99"], "ms")
            print(f"  memory   {before:.0f} MB before, {after:.0f} MB after")
    finally:
        echo.terminate()
        serve.terminate()
        echo.wait()
        serve.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2))
